"""The roofline picture: both axes logarithmic, a slope that meets a flat top.

Operations lie on the roof, the best that each can reach; the learner's measurements lie
below it. The arrow leads from materialised to tiled attention.
"""

from __future__ import annotations

import math
from typing import Any

from ...units import si, significant
from ..canvas import BLUE, GREEN, INK, MUTED, ORANGE, Canvas, styled
from ..drawing import HALO, log_axis
from .state import MATERIALISED, MOST_MEASURED, OPERATIONS, TILED, Outcome, Point, State

WIDTH, HEIGHT = 680, 380
LEFT, RIGHT = 2.0**-4, 2.0**14
MOST_KEPT = 6
_SLOTS = 2 + len(OPERATIONS) + MOST_KEPT + MOST_MEASURED
_BOX = (0.125, 0.125, 0.835, 0.80)
_CHARACTER, _LINE = 0.0101, 0.046  # of a label, in shares of the axes


def make() -> Canvas:
    """The picture without data: axes, roof, and as many points as there may be."""
    canvas = Canvas(WIDTH, HEIGHT)
    art = canvas.artists
    with styled():
        axes = canvas.axes(_BOX)
        log_axis(axes.xaxis)
        log_axis(axes.yaxis)
        axes.set_xlim(LEFT, RIGHT)
        ticks = [4.0**k for k in range(-2, 8)]
        axes.set_xticks(ticks, [f"{t:g}" if t < 1 else f"{int(t):,}" for t in ticks])
        axes.set_xlabel("arithmetic intensity, FLOP per byte")
        art.update(
            axes=axes, title=axes.set_title(""),
            slope=axes.plot([], [], color=ORANGE, lw=3, zorder=3)[0],
            top=axes.plot([], [], color=BLUE, lw=3, zorder=3)[0],
            ridge=axes.plot([], [], color=MUTED, lw=1.1, ls=(0, (4, 3)), zorder=2)[0],
            ridge_text=axes.text(0, 0, "", color=INK, ha="left", va="bottom", zorder=8,
                                 transform=axes.transAxes, bbox=HALO),
            arrow=axes.annotate("", (1, 1), (1, 1), zorder=7, arrowprops={
                "arrowstyle": "-|>", "color": GREEN, "lw": 2, "mutation_scale": 15,
                "connectionstyle": "arc3,rad=0.35", "shrinkA": 5, "shrinkB": 6}),
            arrow_text=axes.text(0, 0, "tiles", color=GREEN, weight="bold", ha="center", va="top",
                                 zorder=8, transform=axes.transAxes, bbox=HALO),
            slots=[(axes.plot([], [], "o", mec="white", mew=1.0, ms=7, zorder=6 + (slot < 2),
                              clip_on=False)[0],
                    axes.plot([], [], color=MUTED, lw=0.8, zorder=4, transform=axes.transAxes)[0],
                    axes.text(0, 0, "", fontsize=8.5, va="center", zorder=7,
                              transform=axes.transAxes)) for slot in range(_SLOTS)],
            fixed=None, taken=[])
        for x, words, colour, side in ((0.01, "memory-bound: waits for bytes", ORANGE, "left"),
                                       (0.99, "compute-bound: waits for arithmetic", BLUE,
                                        "right")):
            axes.text(x, 0.02, words, color=colour, ha=side, va="bottom", fontsize=8.5,
                      weight="bold", transform=axes.transAxes, zorder=4)
    canvas.movable(art["arrow"], art["arrow_text"],
                   *(artist for slot in art["slots"][:2] for artist in slot))
    return canvas


def update(canvas: Canvas, state: State, outcome: Outcome) -> None:
    """Move what the sizes of one operation move; draw all else afresh when it changed.

    Text is what costs time. So the roof and the points of all other operations are
    background, which changes with the device, the format, the operation, or a kept point.
    """
    art = canvas.artists
    moving = _moving(state.operation)
    fixed = (state.machine, state.dtype, state.operation, state.kept, state.measured)
    if art["fixed"] != fixed:
        art["fixed"] = fixed
        art["taken"] = []
        _draw_roof(canvas, state, outcome)
        _place(art, art["slots"][2:], _still_spots(state, outcome, moving), art["taken"])
        canvas.stale()
    spots = [_spot(outcome.points[name], "chosen" if name == state.operation else "other")
             for name in moving]
    _place(art, art["slots"][:2], spots, list(art["taken"]))
    _place_arrow(art, outcome)


def _moving(operation: str) -> tuple[str, ...]:
    """What the sliders move: the operation, and with one attention the other one."""
    others = {MATERIALISED: (TILED,), TILED: (MATERIALISED,)}.get(operation, ())
    return (operation, *others)


def _draw_roof(canvas: Canvas, state: State, outcome: Outcome) -> None:
    art = canvas.artists
    axes = art["axes"]
    roof, bandwidth = state.peak, state.machine.bandwidth
    own = [m.flops_per_second for m in state.measured]  # perhaps of a far slower device
    least = min([0.4 * LEFT * bandwidth, *(0.04 * rate for rate in own)])
    low = 10.0 ** math.floor(math.log10(least))
    high = 10.0 ** (math.ceil(2 * math.log10(max([4 * roof, *own]))) / 2)
    if canvas.limits(axes, y=(low, high)):
        ticks = [low * 10.0**k for k in range(math.floor(math.log10(high / low) + 1e-9) + 1)]
        axes.set_yticks(ticks, [si(t, "FLOP/s", 1) for t in ticks])
    art["title"].set_text(f"{state.machine.name}, {state.dtype.upper()}: "
                          f"{si(roof, 'FLOP/s')} and {si(bandwidth, 'B/s')}")
    art["slope"].set_data([LEFT, outcome.ridge], [LEFT * bandwidth, roof])
    art["top"].set_data([outcome.ridge, RIGHT], [roof, roof])
    art["ridge"].set_data([outcome.ridge, outcome.ridge], [low, roof])
    art["ridge_text"].set_text(f"ridge {significant(outcome.ridge)}")
    art["ridge_text"].set_position((_across(outcome.ridge) + 0.008, 0.10))


Spot = tuple[str, float, float, str, str]
"""Label, intensity, FLOP/s, bound ("memory", "compute", "measured"), and what it is."""


def _spot(point: Point, kind: str) -> Spot:
    name = point.operation
    if kind == "kept":
        name = f"{name} {'×'.join(map(str, point.sizes))}"
    return name, point.intensity, point.attainable, point.bound, kind


def _still_spots(state: State, outcome: Outcome, moving: tuple[str, ...]) -> list[Spot]:
    spots = [_spot(p, "other") for name, p in outcome.points.items() if name not in moving]
    spots += [_spot(p, "kept") for p in outcome.kept[-MOST_KEPT:]]
    return spots + [(m.name, m.intensity, m.flops_per_second, "measured", "measured")
                    for m in state.measured[:MOST_MEASURED]]


def _place(
    art: dict[str, Any], slots: list[tuple[Any, Any, Any]], spots: list[Spot],
    taken: list[tuple[float, float, float]],
) -> None:
    """Put `spots` into the first slots and hide the rest; labels keep clear of `taken`."""
    view = art["axes"].get_ylim()
    for slot, (point, leader, label) in enumerate(slots):
        for artist in (point, leader, label):
            artist.set_visible(slot < len(spots))
        if slot >= len(spots):
            continue
        name, intensity, rate, bound, kind = spots[slot]
        across, up = _across(intensity), _up(rate, view)
        colour = {"memory": ORANGE, "compute": BLUE, "measured": INK}[bound]
        point.set_data([min(max(intensity, LEFT), RIGHT)], [rate])
        point.set_marker("s" if kind == "measured" else "o")
        point.set_markersize(11 if kind == "chosen" else 7)
        point.set_markerfacecolor("white" if kind == "kept" else colour)
        point.set_markeredgecolor(colour if kind == "kept" else "white")
        end, height, side, edge = _free_place(name, across, up, kind == "measured", taken)
        label.set_text(name)
        label.set_position((end, height))
        label.set_horizontalalignment(side)
        label.set_weight("bold" if kind == "chosen" else "normal")
        leader.set_data([edge, across], [height, up])


def _free_place(
    name: str, across: float, up: float, below: bool, taken: list[tuple[float, float, float]],
) -> tuple[float, float, str, float]:
    """Where a label goes: up and left of its point (measured: below and right), and clear.

    Returns its anchor, height and alignment, and the end from which a line leads to the point.
    `taken` holds (left, right, height) of earlier labels and gets this one.
    """
    width = _CHARACTER * len(name) + 0.012
    step = -_LINE if below else _LINE
    end = across + (0.022 if below else -0.022)
    side = "left" if below else "right"
    if not below and end - width < 0:
        end, side = 0.004, "left"
    if below and end + width > 1:
        end, side = 0.996, "right"
    left = end if side == "left" else end - width
    height = up + 0.7 * step
    while any(abs(height - h) < 0.95 * _LINE and left < r and left + width > low
              for low, r, h in taken):
        height += step / 3
    taken.append((left, left + width, height))
    return end, height, side, left if below else end + (side == "left") * (width - 0.012)


def _place_arrow(art: dict[str, Any], outcome: Outcome) -> None:
    start, end = outcome.points[MATERIALISED], outcome.points[TILED]
    shown = end.intensity > 1.2 * start.intensity
    art["arrow"].set_visible(shown)
    art["arrow_text"].set_visible(shown)
    art["arrow"].xy = (end.intensity, end.attainable)
    art["arrow"].set_position((start.intensity, start.attainable))
    view = art["axes"].get_ylim()
    across = (_across(start.intensity) + _across(end.intensity)) / 2
    up = (_up(start.attainable, view) + _up(end.attainable, view)) / 2
    art["arrow_text"].set_position((across + 0.03, up - 0.075))


def _across(intensity: float) -> float:
    share = math.log(intensity / LEFT) / math.log(RIGHT / LEFT)
    return min(max(share, 0.0), 1.0)


def _up(rate: float, view: tuple[float, float]) -> float:
    return math.log(rate / view[0]) / math.log(view[1] / view[0])


def alt_text(state: State, outcome: Outcome) -> str:
    """What the picture shows, for those who do not see it."""
    places = "; ".join(f"{p.operation} at {significant(p.intensity)}, {p.bound}-bound"
                       for p in outcome.points.values())
    kept = "".join(f"; kept: {_spot(p, 'kept')[0]} at {significant(p.intensity)}"
                   for p in outcome.kept)
    own = "".join(f"; measured {m.name} at {significant(m.intensity)} with "
                  f"{si(m.flops_per_second, 'FLOP/s')}" for m in state.measured)
    return (f"Roofline of {state.machine.name} in {state.dtype.upper()}, both axes logarithmic: "
            f"attainable FLOP/s rise with intensity up to the ridge at "
            f"{significant(outcome.ridge)} FLOP per byte and stay at {si(state.peak, 'FLOP/s')}. "
            f"{places}{kept}{own}. An arrow leads from materialised to tiled attention.")
