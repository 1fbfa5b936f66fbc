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
from .labels import FONT_POINTS, LINE, Box, Layout, text_pixels
from .state import MATERIALISED, MOST_MEASURED, OPERATIONS, TILED, Outcome, Point, State

WIDTH, HEIGHT = 680, 380
LEFT, RIGHT = 2.0**-4, 2.0**14
MOST_KEPT = 6
_SLOTS = 2 + len(OPERATIONS) + MOST_KEPT + MOST_MEASURED
_BOX = (0.125, 0.125, 0.835, 0.80)
_FOOT = (("memory-bound: waits for bytes", ORANGE, "left"),
         ("compute-bound: waits for arithmetic", BLUE, "right"))
_FOOT_HEIGHT = 0.08
_TRACK = (0.011, 0.021)  # half a marker, across and up
_BEND = 0.35  # of the arrow, as matplotlib's arc3 counts it
_UP_LEFT, _DOWN_RIGHT = 150.0, -30.0  # degrees: above the roof, and below it


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
                "connectionstyle": f"arc3,rad={_BEND}", "shrinkA": 5, "shrinkB": 6}),
            arrow_text=axes.text(0, 0, "tiles", color=GREEN, weight="bold", ha="center", va="top",
                                 zorder=8, transform=axes.transAxes, bbox=HALO),
            slots=[(axes.plot([], [], "o", mec="white", mew=1.0, ms=7, zorder=6 + (slot < 2),
                              clip_on=False)[0],
                    axes.plot([], [], color=MUTED, lw=0.8, zorder=4, transform=axes.transAxes)[0],
                    axes.text(0, 0, "", fontsize=FONT_POINTS, va="center", zorder=7,
                              transform=axes.transAxes)) for slot in range(_SLOTS)],
            fixed=None, layout=Layout())
        for words, colour, side in _FOOT:
            axes.text(0.01 if side == "left" else 0.99, 0.02, words, color=colour, ha=side,
                      va="bottom", fontsize=FONT_POINTS, weight="bold", transform=axes.transAxes,
                      zorder=4)
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
    spots = [_spot(outcome.points[name], "chosen" if name == state.operation else "other")
             for name in moving]
    fixed = (state.machine, state.dtype, state.operation, state.kept, state.measured)
    if art["fixed"] != fixed:
        art["fixed"] = fixed
        _draw_roof(canvas, state, outcome)
        _place_arrow(art, outcome)
        art["layout"] = _lay_out_still(art, state, outcome, spots, moving)
        canvas.stale()
    _place_arrow(art, outcome)
    layout = art["layout"].copy()
    layout.block(*_arrow_boxes(art, outcome), *_markers(art, spots))
    _place_arrow_text(art, outcome, layout)
    _place(art, art["slots"][:2], spots, layout)


def _lay_out_still(art: dict[str, Any], state: State, outcome: Outcome, spots: list[Spot],
                   moving: tuple[str, ...]) -> Layout:
    """Place all that the sliders do not move; returns what is then in the way."""
    still = _still_spots(state, outcome, moving)
    view = art["axes"].get_ylim()
    corner = (_across(outcome.ridge), _up(state.peak, view))
    layout = Layout([(0.0, 0.0, 1.0, _FOOT_HEIGHT)])
    # As broad as a marker: what the sliders move runs along the roof.
    layout.block_line((0.0, _up(LEFT * state.machine.bandwidth, view)), corner, _TRACK)
    layout.block_line(corner, (1.0, corner[1]), _TRACK)
    layout.block(*_markers(art, still))
    foreseen = layout.copy()
    foreseen.block(*_markers(art, spots), *_arrow_boxes(art, outcome))
    _place_arrow_text(art, outcome, foreseen)
    words = list(foreseen.labels)
    box = _place_ridge(art, foreseen, corner[0])
    for one in (layout, foreseen):
        one.block(box)
        one.block_line((corner[0], _FOOT_HEIGHT), corner, (0.002, 0.012))
    _place(art, art["slots"][2:], still, foreseen)
    layout.labels = [box for box in foreseen.labels if box not in words]  # the arrow's word moves
    return layout


def _moving(operation: str) -> tuple[str, ...]:
    """What the sliders move: the operation, and with one attention the other one."""
    others = {MATERIALISED: (TILED,), TILED: (MATERIALISED,)}.get(operation, ())
    return (operation, *others)


def _draw_roof(canvas: Canvas, state: State, outcome: Outcome) -> None:
    art = canvas.artists
    axes = art["axes"]
    roof, bandwidth = state.peak, state.machine.bandwidth
    own = [m.flops_per_second for m in state.measured]  # perhaps of a far slower device
    least = min([0.4 * LEFT * bandwidth, *(0.15 * rate for rate in own)])
    low = 10.0 ** math.floor(math.log10(least))
    high = 10.0 ** (math.ceil(2 * math.log10(max([4 * roof, *own]))) / 2)
    if canvas.limits(axes, y=(low, high)):
        ticks = [low * 10.0**k for k in range(math.floor(math.log10(high / low) + 1e-9) + 1)]
        axes.set_yticks(ticks, [si(t, "FLOP/s", 1) for t in ticks])
    art["title"].set_text(f"{state.machine.name}, {state.dtype.upper()}: "
                          f"{si(roof, 'FLOP/s')} and {si(bandwidth, 'B/s')}")
    art["slope"].set_data([LEFT, outcome.ridge], [LEFT * bandwidth, roof])
    art["top"].set_data([outcome.ridge, RIGHT], [roof, roof])
    foot = low * (high / low) ** _FOOT_HEIGHT  # above the two lines of text
    art["ridge"].set_data([outcome.ridge, outcome.ridge], [foot, roof])
    art["ridge_text"].set_text(f"ridge {significant(outcome.ridge)}")


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


def _markers(art: dict[str, Any], spots: list[Spot]) -> list[Box]:
    """The boxes that the spots' markers fill."""
    view = art["axes"].get_ylim()
    boxes = []
    for _name, intensity, rate, _bound, kind in spots:
        x, y = _across(intensity), _up(rate, view)
        half = 0.014 if kind == "chosen" else 0.010
        boxes.append((x - half, y - 1.8 * half, x + half, y + 1.8 * half))
    return boxes


def _place(
    art: dict[str, Any], slots: list[tuple[Any, Any, Any]], spots: list[Spot], layout: Layout,
) -> None:
    """Put `spots` into the first slots and hide the rest; `layout` finds room for the labels."""
    view = art["axes"].get_ylim()
    for slot, (point, leader, label) in enumerate(slots):
        for artist in (point, leader, label):
            artist.set_visible(slot < len(spots))
        if slot >= len(spots):
            continue
        name, intensity, rate, bound, kind = spots[slot]
        here = _across(intensity), _up(rate, view)
        colour = {"memory": ORANGE, "compute": BLUE, "measured": INK}[bound]
        point.set_data([min(max(intensity, LEFT), RIGHT)], [rate])
        point.set_marker("s" if kind == "measured" else "o")
        point.set_markersize(11 if kind == "chosen" else 7)
        point.set_markerfacecolor("white" if kind == "kept" else colour)
        point.set_markeredgecolor(colour if kind == "kept" else "white")
        found = layout.place(_width(name, bold=kind == "chosen"), here,
                             _DOWN_RIGHT if kind == "measured" else _UP_LEFT)
        left, bottom, _right, top = found.box
        label.set_text(name)
        label.set_position((left, (bottom + top) / 2))
        label.set_weight("bold" if kind == "chosen" else "normal")
        label.set_style("italic" if kind == "measured" else "normal")
        leader.set_data([found.tip[0], here[0]], [found.tip[1], here[1]])


def _place_ridge(art: dict[str, Any], layout: Layout, ridge: float) -> Box:
    """Put the ridge's label beside its line, as low as there is room; returns its box."""
    width = _width(art["ridge_text"].get_text()) + 0.006  # and its halo
    boxes = [(x, y, x + width, y + LINE) for y in (_FOOT_HEIGHT + 0.02 * k for k in range(1, 40))
             for x in (ridge + 0.008, ridge - 0.008 - width) if 0 <= x <= 1 - width]
    box = min(boxes, key=layout.covered)
    art["ridge_text"].set_position((box[0] + 0.003, box[1]))
    return box


def _width(text: str, *, bold: bool = False) -> float:
    """A label's width in shares of the axes."""
    return text_pixels(text, bold=bold) / (WIDTH * _BOX[2])


def _arrow_points(art: dict[str, Any], outcome: Outcome) -> list[tuple[float, float]]:
    """Seventeen points along the arrow from materialised to tiled attention."""
    view = art["axes"].get_ylim()
    (x0, y0), (x1, y1) = ((_across(p.intensity), _up(p.attainable, view))
                          for p in (outcome.points[MATERIALISED], outcome.points[TILED]))
    wide, high = WIDTH * _BOX[2], HEIGHT * _BOX[3]
    bend = ((x0 + x1) / 2 + _BEND * (y1 - y0) * high / wide,
            (y0 + y1) / 2 - _BEND * (x1 - x0) * wide / high)
    parts = [((1 - t) ** 2, 2 * t * (1 - t), t * t) for t in (k / 16 for k in range(17))]
    return [(a * x0 + b * bend[0] + c * x1, a * y0 + b * bend[1] + c * y1) for a, b, c in parts]


def _arrow_boxes(art: dict[str, Any], outcome: Outcome) -> list[Box]:
    """The arrow as a row of small boxes; none while it is hidden."""
    if not art["arrow"].get_visible():
        return []
    return [(x - 0.005, y - 0.012, x + 0.005, y + 0.012)
            for x, y in _arrow_points(art, outcome)]


def _place_arrow(art: dict[str, Any], outcome: Outcome) -> None:
    start, end = outcome.points[MATERIALISED], outcome.points[TILED]
    shown = end.intensity > 1.2 * start.intensity
    art["arrow"].set_visible(shown)
    art["arrow_text"].set_visible(shown)
    art["arrow"].xy = (end.intensity, end.attainable)
    art["arrow"].set_position((start.intensity, start.attainable))


def _place_arrow_text(art: dict[str, Any], outcome: Outcome, layout: Layout) -> None:
    """The arrow's word, under the arrow or wherever there is room beside it."""
    if not art["arrow"].get_visible():
        return
    x, y = _arrow_points(art, outcome)[8]
    found = layout.place(_width("tiles", bold=True) + 0.008, (x, y), -90.0)
    art["arrow_text"].set_position(((found.box[0] + found.box[2]) / 2, found.box[3]))


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
