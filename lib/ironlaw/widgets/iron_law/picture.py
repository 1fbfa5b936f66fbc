"""The iron-law picture: time against accelerators, and how far each lever still goes.

Left, both axes logarithmic: training time falls as 1/N. The line at eta = 1 is the
floor that no software passes; the gap above it is what utilisation costs. Right: the
speed-up left in each of the three terms, one at a time.
"""

from __future__ import annotations

import math
from typing import Any

from ...predict import iron_law
from ...units import counted, duration, significant
from ..canvas import (
    BLUE,
    GREEN,
    GRID,
    INK,
    MUTED,
    ORANGE,
    Canvas,
    human_time_ticks,
    styled,
)
from .state import (
    BEST_UTILISATION,
    MOST_ACCELERATORS,
    Outcome,
    State,
    eta,
    plain_duration,
)

WIDTH, HEIGHT = 680, 310
_TERMS = ("O", "R_peak", "eta_hw")
_LABELS = ("O", "R peak", "η")
_PAST = f"past {BEST_UTILISATION:g}"
_HALO = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}


def make() -> Canvas:
    """The picture without data: axes, artists, and which of them move."""
    canvas = Canvas(WIDTH, HEIGHT)
    with styled():
        _make_time(canvas)
        _make_levers(canvas)
    return canvas


def _make_time(canvas: Canvas) -> None:
    axes = canvas.axes((0.135, 0.145, 0.47, 0.765))
    _log_axis(axes.xaxis)
    _log_axis(axes.yaxis)
    axes.set_xlim(1, MOST_ACCELERATORS)
    ticks = [2.0**k for k in range(0, 17, 4)]
    axes.set_xticks(ticks, [f"{int(t):,}" for t in ticks])
    axes.set_title("Time to train")
    axes.set_xlabel("accelerators")
    floor, = axes.plot([], [], color=MUTED, lw=1.4, ls=(0, (5, 3)), zorder=2.5)
    forbidden, = axes.fill([1, 1, 1], [1, 1, 1], color="#00000014", lw=0, zorder=1.5)
    floor_text = axes.text(0.03, 0.03, "below η = 1:\nno run is this fast", color=MUTED,
                           fontsize=8, va="bottom", transform=axes.transAxes, zorder=3)
    canvas.artists.update(
        time_axes=axes, floor=floor, forbidden=forbidden, floor_text=floor_text,
        line=axes.plot([], [], color=BLUE, lw=2.4, zorder=4)[0],
        deadline=axes.axhline(1, color=GREEN, lw=1.4, zorder=3),
        needed=axes.plot([], [], marker="D", ms=5.5, color="white", mec=GREEN, mew=1.6,
                         ls="", zorder=5, clip_on=False)[0],
        point=axes.plot([], [], marker="o", ms=9, color=ORANGE, mec="white", mew=1.2,
                        ls="", zorder=6, clip_on=False)[0],
        # The upper right corner stays empty: every line falls from the left to the right.
        point_text=axes.text(0.99, 0.965, "", color=ORANGE, fontsize=10, weight="bold",
                             ha="right", va="top", transform=axes.transAxes, zorder=7, bbox=_HALO),
        deadline_text=axes.text(0.99, 0.865, "", color=GREEN, fontsize=9, ha="right", va="top",
                                transform=axes.transAxes, zorder=7, bbox=_HALO),
    )
    names = ("forbidden", "floor", "line", "deadline", "needed", "point", "deadline_text",
             "point_text")
    canvas.movable(*(canvas.artists[name] for name in names))


def _log_axis(axis: Any) -> None:
    """A logarithmic axis whose ticks are ours alone: minor ones cost time and say little."""
    from matplotlib.ticker import NullLocator

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_minor_locator(NullLocator())


def _make_levers(canvas: Canvas) -> None:
    axes = canvas.axes((0.70, 0.325, 0.27, 0.585))
    _log_axis(axes.xaxis)
    axes.set_xlim(1, 1.1)
    axes.set_ylim(-0.6, 2.6)
    axes.invert_yaxis()
    axes.set_yticks(range(3), _LABELS, fontsize=10)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.set_title("Speed-up left in each lever", x=-0.18)
    axes.spines["left"].set_visible(False)
    axes.axvline(1, color=MUTED, lw=1)
    bars = axes.barh(range(3), [1, 1, 1], left=1, height=0.55, color=GRID, zorder=3)
    texts = [axes.text(1, row, "", va="center", fontsize=9, zorder=5) for row in range(3)]
    small: dict[str, Any] = {"fontsize": 8, "color": INK, "va": "top", "linespacing": 1.35}
    limits = canvas.figure.text(0.662, 0.195, "", **small)
    spare = canvas.figure.text(0.815, 0.195, "", **small)
    canvas.artists.update(lever_axes=axes, bars=bars, bar_texts=texts, spare_text=spare,
                          limits_text=limits)
    canvas.movable(*bars, *texts, spare)


def update(canvas: Canvas, state: State, outcome: Outcome) -> None:
    """Move everything to `state`; the axes change only when O, R or a far lever does."""
    _update_time(canvas, state, outcome)
    _update_levers(canvas, state, outcome)


def _update_time(canvas: Canvas, state: State, outcome: Outcome) -> None:
    art = canvas.artists
    axes = art["time_axes"]
    ends = (1.0, float(MOST_ACCELERATORS))
    alone = iron_law.training_seconds(state.operations, state.peak, state.utilisation)
    floor_alone = iron_law.training_seconds(state.operations, state.peak, 1.0)
    floor = [floor_alone / n for n in ends]
    # Whole decades: most changes of O and R_peak then leave the axes as they are.
    low = 10.0 ** math.floor(math.log10(floor[1]) - 0.3)
    high = 10.0 ** math.ceil(math.log10(floor_alone / 0.01))
    if canvas.limits(axes, y=(low, high)):
        axes.set_yticks(*human_time_ticks(low, high))
    art["floor"].set_data(ends, floor)
    art["forbidden"].set_xy([(ends[0], low), (ends[0], floor[0]), (ends[1], floor[1]),
                             (ends[1], low)])
    art["line"].set_data(ends, [alone / n for n in ends])
    shown = min(state.accelerators, MOST_ACCELERATORS)
    art["point"].set_data([shown], [outcome.seconds])
    art["point_text"].set_text(f"● {state.accelerators:,}: {duration(outcome.seconds)}")
    inside = low < state.deadline < high
    art["deadline"].set_visible(inside)
    art["deadline"].set_ydata([state.deadline, state.deadline])
    art["deadline_text"].set_text(f"◆ {outcome.needed:,}: within {plain_duration(state.deadline)}")
    marked = inside and outcome.needed <= MOST_ACCELERATORS
    # Whole accelerators finish a little before the deadline: the mark lies on the line.
    art["needed"].set_data([outcome.needed] if marked else [],
                           [outcome.seconds_if_needed] if marked else [])


def _update_levers(canvas: Canvas, state: State, outcome: Outcome) -> None:
    art = canvas.artists
    axes = art["lever_axes"]
    reach = max(lever.speedup for lever in outcome.levers)
    # The longest bar ends at two thirds, so that its label fits beside it.
    decades = max(1, math.ceil(math.log10(reach) / 0.65))
    far = 10.0**decades
    if canvas.limits(axes, x=(1.0, far)):
        step = math.ceil(decades / 3)
        ticks = [10.0**k for k in range(0, decades + 1, step)] if decades > 1 else [1, 2, 5, 10]
        axes.set_xticks(ticks, [f"{int(t)}×" if t < 1e4 else f"1e{round(math.log10(t))}×"
                                for t in ticks])
    for row, term in enumerate(_TERMS):
        gain = outcome.speedup(term)
        best = term in outcome.strongest and gain > 1
        bar, text = art["bars"][row], art["bar_texts"][row]
        bar.set_width(gain - 1)
        bar.set_facecolor(BLUE if best else MUTED)
        note = "\nmost room" if best else f"\n{_PAST}" if _past_limit(term, state) else ""
        text.set_text(f"{significant(gain)}×{note}")
        text.set_weight("bold" if best else "normal")
        text.set_position((gain * far**0.025, row))
    art["spare_text"].set_text(f"{100 * state.spare:.4g} %")
    faster = outcome.speedup("R_peak") > 1
    limits = ("O: tokens left out\n"
              f"R peak: {outcome.best_peak_name if faster else 'none faster in the catalogue'}\n"
              f"η: {BEST_UTILISATION:g} (PaLM, 2022)")
    if art["limits_text"].get_text() != limits:  # long text is dear to draw and rarely changes
        art["limits_text"].set_text(limits)
        canvas.stale()


def _past_limit(term: str, state: State) -> bool:
    return term == "eta_hw" and state.utilisation > BEST_UTILISATION


def alt_text(state: State, outcome: Outcome) -> str:
    """What the picture shows, for those who do not see it."""
    gains = ", ".join(f"{label} {significant(outcome.speedup(term))} times"
                      + (f" ({_PAST} already)" if _past_limit(term, state) else "")
                      for term, label in zip(_TERMS, _LABELS, strict=True))
    return (
        f"Left: training time against the number of accelerators, both logarithmic: a straight "
        f"line falling as 1/N at η = {eta(state.utilisation)}, above the floor at η = 1. "
        f"The present point is {counted(state.accelerators, 'accelerator')} and "
        f"{duration(outcome.seconds)}; the deadline line crosses at {outcome.needed:,}. "
        f"Right: speed-up left in each lever: {gains}."
    )
