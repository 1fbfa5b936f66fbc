"""Still figures: computed from `ironlaw.predict`, with alt text and a caption in words.

Each function returns a `canvas.Still`, which displays itself. Chapter 1's are here;
`figures_mathematics` holds those of chapter 2. Taught in chapters 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .. import hardware, transformer
from ..errors import InputError, count, fraction, not_negative, positive
from ..predict import cost, iron_law, memory
from ..units import GB, dollars, gigabytes, percent, significant
from .canvas import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PALE_ORANGE,
    PURPLE,
    Canvas,
    Still,
    styled,
)
from .figures_mathematics import activation_ladder as activation_ladder
from .figures_mathematics import activation_timings as activation_timings
from .figures_mathematics import adam_state as adam_state
from .iron_law.state import origin

# The two figures that the document quotes. Both are outside estimates: neither OpenAI
# paper states a cost.
GPT2_CLASS_COST, GPT4_CLASS_COST = 50e3, 100e6
STAGES = ("load", "copy to device", "forward and backward", "synchronise")
_STAGE_COLOURS = (PURPLE, GREEN, BLUE, ORANGE)


def cost_scale(
    accelerator: str = "H100 SXM", *, price_per_hour: float | None = None,
    utilisation: float = 0.40, dtype: str | None = None,
) -> Still:
    """Training cost against compute, both logarithmic: a straight line, for 6 P D has no knee.

    `price_per_hour` is USD per accelerator-hour, by default the catalogue's, `utilisation`
    a fraction. The two cost estimates that the document quotes are drawn as levels: what
    compute they paid for was not published. Raises `InputError` when no price is known.
    """
    chip = hardware.accelerator(accelerator)
    format_ = dtype or chip.training_dtype
    peak, eta = chip.peak(format_), fraction("utilisation", utilisation)
    price = positive("price_per_hour", chip.value("price") if price_per_hour is None
                     else price_per_hour, unit="USD")

    def bill(operations: float) -> float:
        return cost.rent(1, iron_law.training_seconds(operations, peak, eta), price)

    runs = {run.name: iron_law.training_flops(run.parameters, run.tokens)
            for run in transformer.WORKLOADS.values()}
    low, high = 1e20, 1e27
    canvas = Canvas(680, 340)
    axes = canvas.axes((0.12, 0.15, 0.84, 0.75), xscale="log", yscale="log")
    with styled():
        axes.plot([low, high], [bill(low), bill(high)], color=BLUE, zorder=3)
        for name, operations in runs.items():
            axes.plot([operations], [bill(operations)], "o", color=BLUE, ms=7, mec="white",
                      zorder=5)
            axes.annotate(f"{name}: {dollars(bill(operations), 2)}",
                          (operations, bill(operations)), (8, -6), textcoords="offset points",
                          va="top", color=BLUE)
        # Each on the side where the line is far away, so that no label covers it.
        for level, name, x, side, above in (
                (GPT2_CLASS_COST, "GPT-2 class", high / 1.3, "right", False),
                (GPT4_CLASS_COST, "GPT-4 class", low * 1.3, "left", True)):
            axes.axhline(level, color=ORANGE, lw=1.3, ls=(0, (5, 3)), zorder=2)
            axes.text(x, level * (1.15 if above else 1 / 1.25), f"{name}: about "
                      f"{dollars(level, 2)} (outside estimate, not an invoice)", color=ORANGE,
                      ha=side, va="bottom" if above else "top",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8}, zorder=2.5)
        axes.set_xlim(low, high)
        axes.set_ylim(bill(low) / 3, bill(high) * 3)
        axes.set_xticks([10.0**k for k in range(20, 28)], [f"1e{k}" for k in range(20, 28)])
        _money_ticks(axes)
        _no_minor(axes)
        axes.set_xlabel("training compute O = 6 P D, FLOP")
        axes.set_title(f"Training cost on {chip.name} at {dollars(price)} an hour, "
                       f"η = {eta:.2f}")
    ratio = cost.cost_ratio(GPT4_CLASS_COST, GPT2_CLASS_COST)
    gpt2 = bill(runs["GPT-2 XL"])
    apart = cost.cost_ratio(max(gpt2, GPT2_CLASS_COST), min(gpt2, GPT2_CLASS_COST))
    caption = (
        f"At a fixed price and utilisation the bill is proportional to the operations: ten times "
        f"the compute costs ten times as much, and no point on the line is a knee. The two "
        f"dashed levels are outside estimates, {significant(ratio, 4)} times apart; the compute "
        "behind them was not published. The dots are this line's price for three runs "
        "whose parameters and tokens are known. GPT-2 XL's dot lies "
        f"{significant(apart, 2)} times {'below' if gpt2 < GPT2_CLASS_COST else 'above'} the "
        "GPT-2 estimate, so do not read one for the other."
        + (f" The price is {origin(chip.price)}." if price_per_hour is None else ""))
    alt = (
        f"Log-log plot of cost against compute from 1e20 to 1e27 FLOP: one straight rising line. "
        f"Dashed levels at {dollars(GPT2_CLASS_COST)} (GPT-2 class) and "
        f"{dollars(GPT4_CLASS_COST, 3)} (GPT-4 class), both estimates. "
        + " ".join(f"{name}: {dollars(bill(operations), 2)}." for name, operations in runs.items()))
    return Still(canvas, alt, caption)


@dataclass(frozen=True)
class Span:
    """One stage of one step on a timeline: times in the unit of the durations given."""

    stage: int
    step: int
    start: float
    end: float


def schedule(durations: Sequence[float], steps: int, *, overlapped: bool) -> list[Span]:
    """When each of the four stages runs, for `steps` steps.

    `durations`: load, copy, compute, synchronise; any unit of time, each at least 0 and
    compute above 0. Serial: each stage waits for the one before it, and a step for the
    whole step before. Overlapped: host and bus work ahead on later batches, which is what
    prefetching does; the accelerator still waits for its batch and for the weights that
    the last synchronisation brings. Raises `InputError` for other durations.
    """
    if len(durations) != len(STAGES):
        raise InputError("durations", list(durations), "four times: " + ", ".join(STAGES))
    times = [not_negative(f"durations[{i}] ({STAGES[i]})", d) for i, d in enumerate(durations)]
    positive("durations[2] (forward and backward)", times[2])
    spans: list[Span] = []
    free = [0.0] * len(STAGES)  # when each resource is next free: host, bus, device, link
    for step in range(count("steps", steps, high=50)):
        ready = 0.0 if overlapped or step == 0 else spans[-1].end
        for stage, time in enumerate(times):
            start = max(ready, free[stage])
            if stage == 2:
                start = max(start, free[3])  # the new weights come from the last exchange
            spans.append(Span(stage, step, start, start + time))
            free[stage] = ready = start + time
    return spans


def busy_share(spans: Sequence[Span]) -> float:
    """Share of the timeline in which the accelerator computes, from its first step's end on.

    Measured between the ends of the first and the last step, so that the pipeline's filling
    does not count; with one step, over the whole timeline.
    """
    computing = [s for s in spans if s.stage == 2]
    last = {s.step: s.end for s in spans}
    if len(last) == 1:
        return (computing[0].end - computing[0].start) / last[0]
    window = last[max(last)] - last[0]
    return sum(s.end - s.start for s in computing if s.step > 0) / window


def pipeline_bubbles(
    load: float = 60.0, copy: float = 10.0, compute: float = 80.0, synchronise: float = 20.0,
    steps: int = 4,
) -> Still:
    """The four stages of a step as a timeline, serial above and overlapped below.

    Durations in milliseconds; the defaults are an example, not a measurement. Hatched gaps are the
    accelerator's bubbles: it waits for another stage.
    """
    durations = (load, copy, compute, synchronise)
    runs = [("one after the other", schedule(durations, steps, overlapped=False)),
            ("loading and copying ahead", schedule(durations, steps, overlapped=True))]
    end = max(span.end for _, spans in runs for span in spans)
    canvas = Canvas(680, 380)
    shares = []
    with styled():
        for row, (name, spans) in enumerate(runs):
            axes = canvas.axes((0.17, 0.56 - 0.42 * row, 0.80, 0.33))
            _timeline(axes, spans, end)
            shares.append(busy_share(spans))
            per_step = _seconds_per_step(spans)
            axes.set_title(f"{name}: {significant(per_step)} ms a step, "
                           f"accelerator busy {percent(shares[-1])}")
            if row:
                axes.set_xlabel("milliseconds")
            else:
                axes.tick_params(labelbottom=False)
    serial, overlapped = (_seconds_per_step(spans) for _, spans in runs)
    caption = (
        f"Stages of {significant(load)}, {significant(copy)}, {significant(compute)} and "
        f"{significant(synchronise)} ms. One after the other they take {significant(serial)} ms a "
        f"step and the accelerator computes {percent(shares[0])} of the time. With the next batch "
        f"fetched while this one is computed, a step takes {significant(overlapped)} ms and the "
        f"share rises to {percent(shares[1])}. Hatching marks the bubbles. "
        + ("The slowest chain now is loading: the bubble shrinks but stays."
           if max(load, copy) > compute + synchronise
           else "What is left is synchronisation, which prefetching cannot hide."
           if synchronise else "No bubble is left."))
    alt = (f"Two timelines of {steps} training steps with rows for load, copy, compute and "
           f"synchronise. Serial: the rows take turns, accelerator busy {percent(shares[0])}. "
           f"Overlapped: load and copy of the next step run under compute, busy "
           f"{percent(shares[1])}.")
    return Still(canvas, alt, caption)


def _seconds_per_step(spans: Sequence[Span]) -> float:
    ends = {s.step: s.end for s in spans}
    return ends[0] if len(ends) == 1 else (ends[max(ends)] - ends[0]) / (len(ends) - 1)


def _timeline(axes: Any, spans: Sequence[Span], end: float) -> None:
    computing = sorted((s.start, s.end) for s in spans if s.stage == 2)
    gaps = [(0.0, computing[0][0])]
    gaps += [(a[1], b[0]) for a, b in pairwise(computing)]
    gaps.append((computing[-1][1], max(s.end for s in spans)))
    for start, stop in gaps:
        if stop - start > 1e-9 * end:
            axes.barh(2, stop - start, left=start, height=0.8, color=PALE_ORANGE, hatch="////",
                      edgecolor=ORANGE, lw=0, zorder=2)
    for span in spans:
        width = span.end - span.start
        if width:
            axes.barh(span.stage, width, left=span.start, height=0.8,
                      color=_STAGE_COLOURS[span.stage], edgecolor="white", lw=0.6, zorder=3)
            if width > 0.03 * end:
                axes.text(span.start + width / 2, span.stage, str(span.step + 1), color="white",
                          ha="center", va="center", fontsize=7.5, zorder=4)
    axes.set_yticks(range(len(STAGES)), ["load", "copy", "compute", "synchronise"])
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.set_xlim(0, end)
    axes.set_ylim(3.5, -0.5)


def state_bytes(parameters: float = 7e9) -> Still:
    """What training keeps per model beside what inference keeps: Definition 1.1 as bars.

    Mixed-precision Adam at 2 + 2 + 4 + 8 bytes a parameter against 2 bytes of weights.
    Activations come on top and are not drawn.
    """
    kept = memory.training_state(parameters)
    parts = (("weights", kept.weights, BLUE), ("gradients", kept.gradients, ORANGE),
             ("FP32 master copy", kept.master, GREEN), ("Adam's two moments", kept.moments,
                                                         PURPLE))
    canvas = Canvas(680, 200)
    axes = canvas.axes((0.12, 0.27, 0.84, 0.58))
    with styled():
        left = 0.0
        for name, size, colour in parts:
            axes.barh(0, size / GB, left=left / GB, height=0.62, color=colour, edgecolor="white",
                      zorder=3)
            if size > 0.1 * kept.total:
                label = f"{name}\n{significant(size / GB)}"
                axes.text((left + size / 2) / GB, 0, label.replace(" ", "\n", 1)
                          if size < 0.2 * kept.total else label, color="white", ha="center",
                          va="center", fontsize=8, zorder=4)
            left += size
        axes.barh(1, kept.weights / GB, height=0.62, color=BLUE, edgecolor="white", zorder=3)
        axes.text(kept.weights / GB, 1, f"  weights {significant(kept.weights / GB)}", va="center",
                  color=INK, zorder=4)
        axes.set_yticks([0, 1], ["training", "inference"])
        axes.tick_params(axis="y", length=0)
        axes.grid(False, axis="y")
        axes.set_ylim(1.5, -0.5)
        axes.set_xlabel("gigabytes (10⁹ bytes), without activations")
        axes.set_title(f"What {significant(parameters / 1e9)} billion parameters keep in memory")
    ratio = kept.total / kept.weights
    words = ", ".join(f"{name} {gigabytes(size)}" for name, size, _ in parts)
    caption = (f"Training keeps {gigabytes(kept.total)}: {words}. Inference keeps the weights "
               f"alone, {gigabytes(kept.weights)}: training needs {significant(ratio, 2)} times as "
               "much. Activations come on top and depend on the batch.")
    return Still(canvas, f"Two stacked bars. {caption}", caption)


def _money_ticks(axes: Any) -> None:
    low, high = axes.get_ylim()
    ticks = [10.0**k for k in range(0, 13, 1) if low <= 10.0**k <= high]
    axes.set_yticks(ticks, [dollars(t, 1) if t >= 1e6 else f"${t:,.0f}" for t in ticks])


def _no_minor(axes: Any) -> None:
    from matplotlib.ticker import NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
