"""The memory picture: stacked bars against a device, and the peak against the batch.

Above, the step as set and what each fix would make of it, part by part; grey lies
beyond the device. Below, the peak rises with the micro-batch until it meets the device.
"""

from __future__ import annotations

import math
from typing import Any

from ...predict.peak import StepMemory
from ...units import GB, gigabytes, significant
from ..canvas import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PALE_BLUE,
    PALE_ORANGE,
    PURPLE,
    Canvas,
    styled,
)
from ..drawing import HALO, no_marks, round_up
from .accounting import PARTS
from .state import Outcome, State

WIDTH, HEIGHT = 680, 430
ROWS = ("now", "accumulate", "recompute", "flash", "precision")
_COLOURS = {"parameters": BLUE, "gradients": ORANGE, "cast_copies": GREEN, "optimizer": PURPLE,
            "activations": PALE_BLUE, "logits": PALE_ORANGE, "transient": MUTED}
_BEYOND = "#00000014"


def make() -> Canvas:
    """The picture without data: axes, legend and artists."""
    canvas = Canvas(WIDTH, HEIGHT)
    art = canvas.artists
    with styled():
        _make_bars(canvas)
        curve = canvas.axes((0.115, 0.105, 0.855, 0.245))
        curve.set_xlabel("micro-batch, sequences")
        curve.set_ylabel("peak, GB")
        art.update(
            curve_axes=curve,
            curve_beyond=curve.axhspan(0, 1, color=_BEYOND, lw=0, zorder=1.5),
            curve_limit=curve.axhline(0, color=INK, lw=1.5, ls=(0, (4, 3)), zorder=3),
            curve=curve.plot([], [], color=BLUE, lw=2.2, zorder=4)[0],
            largest=curve.plot([], [], "D", ms=7, color="white", mec=GREEN, mew=1.8, zorder=6)[0],
            largest_text=curve.text(0, 0, "", color=GREEN, weight="bold", va="top", zorder=7,
                                    bbox=HALO),
            here=curve.plot([], [], "o", ms=9, color=ORANGE, mec="white", mew=1.2, zorder=8,
                            clip_on=False)[0])
    names = ("curve_beyond", "curve_limit", "curve", "largest", "largest_text", "here")
    canvas.movable(*(art[name] for name in names), art["beyond"], art["limit"],
                   *art["bars"].values(), *art["totals"])
    return canvas


def _make_bars(canvas: Canvas) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    axes = canvas.axes((0.115, 0.47, 0.855, 0.40))
    axes.set_ylim(len(ROWS) - 0.45, -0.55)
    axes.set_yticks(range(len(ROWS)), ROWS)
    axes.get_yticklabels()[0].set_weight("bold")
    no_marks(axes, "y")
    axes.set_xlabel("GB at the fullest moment (10⁹ bytes)", labelpad=2)
    bars = {}
    for part, colour in _COLOURS.items():
        bars[part] = axes.add_collection(PolyCollection(
            [], facecolor=colour, edgecolor=INK, lw=0.4, zorder=3), autolim=False)
    axes.legend(handles=[Patch(facecolor=c, edgecolor=INK, lw=0.4, label=PARTS[p])
                         for p, c in _COLOURS.items()], ncols=4, fontsize=7.8, loc="lower left",
                bbox_to_anchor=(-0.13, 0.985), handlelength=1.1, columnspacing=1.4,
                labelspacing=0.25, handletextpad=0.5)
    canvas.artists.update(
        axes=axes, bars=bars,
        beyond=axes.axvspan(0, 1, color=_BEYOND, lw=0, zorder=1.5),
        limit=axes.axvline(0, color=INK, lw=1.5, ls=(0, (4, 3)), zorder=5),
        limit_text=canvas.figure.text(0.97, 0.965, "", ha="right", va="center", weight="bold"),
        totals=[axes.text(0, row, "", va="center", zorder=6, fontsize=8.5,
                          weight="bold" if row == 0 else "normal") for row in range(len(ROWS))])


def update(canvas: Canvas, state: State, outcome: Outcome) -> None:
    """Move everything to `state`; the axes change by whole steps of `round_up`."""
    art = canvas.artists
    stacks: list[StepMemory | None] = [outcome.now, *(fix.memory for fix in outcome.fixes)]
    longest = max(stack.peak for stack in stacks if stack is not None)
    needed = 1.14 * max(longest, state.capacity if state.capacity < 10 * longest else 0.0) / GB
    end = _end(art["axes"].get_xlim()[1], needed)
    limit = f"╎ {state.device}: {gigabytes(state.capacity)}"
    if art["limit_text"].get_text() != limit:
        art["limit_text"].set_text(limit)
        canvas.stale()
    capacity = state.capacity / GB
    if canvas.limits(art["axes"], x=(0.0, end)):
        _ticks(art["axes"].set_xticks, end)
    art["beyond"].set_bounds(capacity, 0, max(0.0, end - capacity), 1)
    art["limit"].set_xdata([capacity, capacity])
    _place_bars(art, outcome, stacks, end)
    _place_curve(canvas, state, outcome)


def _place_bars(
    art: dict[str, Any], outcome: Outcome, stacks: list[StepMemory | None], end: float
) -> None:
    left = [0.0] * len(stacks)
    for part, bar in art["bars"].items():
        corners = []
        for row, stack in enumerate(stacks):
            size = getattr(stack, part) / GB if stack is not None else 0.0
            if size > 0:
                a, b, low, high = left[row], left[row] + size, row - 0.34, row + 0.34
                corners.append([(a, low), (b, low), (b, high), (a, high)])
                left[row] += size
        bar.set_verts(corners)
    for row, (text, stack) in enumerate(zip(art["totals"], stacks, strict=True)):
        text.set_x(left[row] + 0.008 * end)
        if stack is None:
            text.set_text("no change")
        elif row == 0:
            text.set_text(gigabytes(stack.peak))
        else:
            saves = outcome.fixes[row - 1].saves
            text.set_text(f"{significant(stack.peak / GB)} "
                          f"({'−' if saves >= 0 else '+'}{significant(abs(saves) / GB)})")


def _place_curve(canvas: Canvas, state: State, outcome: Outcome) -> None:
    art = canvas.artists
    axes = art["curve_axes"]
    points = outcome.curve or ((1, outcome.now.peak), (4, outcome.now.peak))
    end = float(points[-1][0])
    last = points[-1][1]
    needed = 1.15 * max(state.capacity if state.capacity < 10 * last else 0.0, last) / GB
    high = _end(axes.get_ylim()[1], needed)
    if canvas.limits(axes, x=(0.0, end), y=(0.0, high)):
        parts = 4 if end % 4 == 0 else 3  # whole sequences, whatever `batch_end` gives
        axes.set_xticks([end * i / parts for i in range(parts + 1)],
                        [f"{end * i / parts:,g}" for i in range(parts + 1)])
        axes.set_yticks([0, high / 2, high], ["0", significant(high / 2, 2), significant(high, 2)])
    capacity = state.capacity / GB
    art["curve_beyond"].set_bounds(0, capacity, 1, max(0.0, high - capacity))
    art["curve_limit"].set_ydata([capacity, capacity])
    art["curve"].set_data([b for b, _ in points], [peak / GB for _, peak in points])
    art["here"].set_data([state.step.batch], [outcome.now.peak / GB])
    fits = outcome.largest
    known = dict(outcome.curve)
    art["largest"].set_data([fits] if fits else [], [known[fits] / GB] if fits else [])
    art["largest_text"].set_text(
        "only parameters are known" if fits is None else f"largest that fits: {fits:,}" if fits
        else "not even one sequence fits")
    right = bool(fits) and (fits or 0) > 0.55 * end
    art["largest_text"].set_horizontalalignment("right" if right else "left")
    art["largest_text"].set_position(
        ((fits or 0.04 * end) + (-0.02 if right else 0.02) * end, 0.93 * high) if right or not fits
        else (fits + 0.03 * end, 0.35 * min(capacity, high)))


def _end(present: float, needed: float) -> float:
    """An axis end that stays while it serves: drawing the axes again is what costs time."""
    return present if needed <= present <= 2.2 * needed else round_up(needed)


def _ticks(set_ticks: Any, end: float) -> None:
    """About five round ticks up to `end` gigabytes."""
    step = round_up(end / 6)
    while math.isclose(step / 10 ** math.floor(math.log10(step)), 7.5) or math.isclose(
            step / 10 ** math.floor(math.log10(step)), 1.5):
        step = round_up(step * 1.01)
    ticks = [step * i for i in range(int(end / step) + 1)]
    set_ticks(ticks, [f"{tick:,g}" for tick in ticks])


def alt_text(state: State, outcome: Outcome) -> str:
    """What the picture shows, for those who do not see it."""
    parts = ", ".join(f"{name} {gigabytes(getattr(outcome.now, part))}"
                      for part, name in PARTS.items() if getattr(outcome.now, part))
    fixes = "; ".join(f"{fix.name} {gigabytes(fix.memory.peak)}" for fix in outcome.fixes
                      if fix.memory is not None) or "none applies"
    line = (f"Below, the peak rises with the micro-batch and meets the device after "
            f"{outcome.largest:,}." if outcome.largest else "Below, the peak against the "
            "micro-batch.")
    return (f"Stacked bar of the step: {parts}; together {gigabytes(outcome.now.peak)} against "
            f"{gigabytes(state.capacity)} of {state.device}. Under it a bar for each fix: {fixes}. "
            f"{line}")
