"""Prediction beside measurement: the same quantity twice, the difference, and what it is made of.

`lay` is arithmetic on a `StepMeasurement` and needs no torch, so a notebook can replay a
stored measurement anywhere. `run` measures first. The result prints as a table, shows
as one in a notebook, and travels as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from . import compare_split as split
from .compare_split import Part
from .config import RunConfig
from .errors import InputError, UnavailableError, choice, fraction, number
from .predict import flops, step_time
from .predict.peak import step_memory
from .predict.step_time import Line
from .results import DeviceProfile, MemoryMeasurement, Result, StepMeasurement
from .results_systems import StepParts
from .units import si


@dataclass(frozen=True, kw_only=True)
class Row:
    """One quantity, guessed, predicted and measured. A value that is None has a `reason`.

    `how` says how the prediction was made, `why` what its difference to the
    measurement consists of, in words; `parts` split `measured - predicted` where that
    can be done. A row without a measurement has its `reason`, too.
    """

    key: str
    quantity: str
    unit: str
    how: str
    guess: float | None
    predicted: float | None
    measured: float | None
    why: str
    parts: list[Part]
    reason: str

    @property
    def residual(self) -> float | None:
        """(measured - predicted) / predicted; None when either is missing."""
        return _relative(self.measured, self.predicted)

    @property
    def guess_residual(self) -> float | None:
        """(measured - guess) / guess; None when either is missing."""
        return _relative(self.measured, self.guess)


KEYS = ("flops_per_token", "floor_seconds", "step_seconds", "tokens_per_second", "mfu",
        "run_seconds", "memory_bytes")


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """All rows of one measured step, in the order of `KEYS`, and the evidence for their parts."""

    kind: ClassVar[str] = "comparison"
    config: dict[str, Any]
    device: str
    steps: int
    peak_source: str | None
    rows: list[Row]
    parts: list[StepParts] = field(default_factory=list)
    memory: MemoryMeasurement | None = None

    def row(self, key: str) -> Row:
        """The row called `key` (one of `KEYS`)."""
        choice("key", key, KEYS)
        return next(row for row in self.rows if row.key == key)

    def __str__(self) -> str:
        from . import compare_text
        return compare_text.plain(self)

    def _repr_html_(self) -> str:
        from . import compare_text
        return compare_text.html(self)


def lay(
    measured: StepMeasurement,
    *,
    profile: DeviceProfile | None = None,
    anchors: tuple[StepMeasurement, StepMeasurement] | None = None,
    eta: float | None = None,
    guesses: Mapping[str, float] | None = None,
    parts: Sequence[StepParts] = (),
    memory: MemoryMeasurement | None = None,
) -> Comparison:
    """Lay predictions beside `measured`.

    The step's duration is predicted by a line through two smaller measured steps
    (`anchors`), else by the iron law with an `eta` of yours in (0, 1], the share of the
    peak that the device sustains, recomputation included; else not at all.
    `parts` (of the step, and of the anchors where they predict) say what the difference
    consists of: launches, optimizer, loss head, rest. Without them it is estimated, the
    optimizer's share by the bandwidth of `profile`. `memory` is the same step's, measured.
    `guesses` holds the learner's own numbers by row key, in the row's unit.
    """
    config = RunConfig.from_json(measured.config)
    for key, value in (guesses or {}).items():
        number(f"guesses[{choice('guesses', key, KEYS)!r}]", value)
    per_token = flops.per_token(config.shape, config.sequence)
    per_step = per_token * config.tokens_per_step
    peak = measured.peak.flops_per_second if measured.peak else None
    no_peak = measured.reasons.get("mfu", "The measurement names no peak.")
    # The device also works on what the backward pass computes again: no step is faster.
    again = flops.recomputed_per_step(config.shape, config.batch, config.sequence,
                                      config.recompute, config.attention) * config.accumulate
    work = "FLOP" if not again else "hardware FLOP, recomputation included,"
    floor = step_time.from_peak(per_step + again, peak) if peak else None
    line = step_time.through_measurements(*anchors) if anchors else None
    predicted, how, reason = _predicted_seconds(config, line, anchors, floor, eta, no_peak)
    tokens, steps = config.tokens_per_step, len(measured.samples)
    took, total = measured.step_seconds, sum(measured.samples)
    given = dict(guesses or {})

    def row(key: str, quantity: str, unit: str, how: str, forecast: float | None,
            found: float | None, why: str, consists: list[Part] | None = None,
            reason: str = "") -> Row:
        return Row(key=key, quantity=quantity, unit=unit, how=how, guess=given.get(key),
                   predicted=forecast, measured=found, why=why, parts=consists or [],
                   reason=reason)

    own = split.in_order(anchors, measured, parts) if parts else ()
    above: list[Part] = []
    if peak and floor:
        above = (split.above_floor(measured, own[-1], floor, peak) if own else
                 split.estimated_above_floor(config, measured, profile, line, floor))
    off = (split.off_the_line(measured, predicted, anchors, own)
           if predicted and anchors and len(own) == 3 else [])
    bytes_ = step_memory(config)
    rate = tokens / predicted if predicted else None
    share = per_step / (predicted * peak) if predicted and peak else None
    same = "Follows from the step's duration."
    rows = [
        row("flops_per_token", "model FLOP per token", "FLOP", "6 (12 L d^2 + V d) + 12 L d S",
            per_token, measured.flops_per_token,
            "Both count matrix products only: a difference would be a mistake."),
        row("floor_seconds", "step, nothing but products at the peak", "s", f"{work} / peak",
            floor, took, "All that the iron law puts into eta.",
            above, "" if floor else no_peak),
        row("step_seconds", "step", "s", how, predicted, took,
            _step_words(measured, predicted, off), off, reason),
        row("tokens_per_second", "tokens per second", "1/s", "tokens / predicted step", rate,
            measured.tokens_per_second, same, reason=reason),
        row("mfu", "model FLOPs utilisation", "", "FLOP / (predicted step x peak)", share,
            measured.mfu, same, reason=reason or ("" if measured.mfu is not None else no_peak)),
        row("run_seconds", f"run of {steps} steps", "s", "steps x predicted step",
            step_time.run_seconds(predicted, steps) if predicted else None, total,
            "Steps slower than the median lengthen a run.",
            _of_a_run(measured, predicted), reason),
        row("memory_bytes", "memory at the peak", "B", "the step walked through on paper",
            bytes_.peak, memory.peak_bytes if memory else None,
            _memory_words(bytes_.moment, memory), split.of_memory(bytes_, memory) if memory else [],
            "" if memory else "Memory was not measured."),
    ]
    # Another program may come and go: the parts were timed at another moment than the steps.
    busy = [part.notes["busy"] for part in parts if "busy" in part.notes]
    notes = {**({"busy": busy[0]} if busy else {}), **measured.notes}
    return Comparison(config=measured.config, device=measured.device, steps=steps,
                      peak_source=measured.peak.source if measured.peak else None, rows=rows,
                      parts=list(parts), memory=memory, reasons=dict(measured.reasons),
                      notes=notes)


def anchor_configs(config: RunConfig) -> tuple[RunConfig, RunConfig]:
    """A quarter and a half of the step: the two that are measured to predict the whole.

    The batch is cut where it has four sequences, else the sequence. A step too small to
    cut raises `InputError`.
    """
    if config.batch >= 4:
        return config.replace(batch=config.batch // 4), config.replace(batch=config.batch // 2)
    if config.sequence >= 4:
        return (config.replace(seq=config.sequence // 4),
                config.replace(seq=config.sequence // 2))
    raise InputError("batch x seq", (config.batch, config.sequence),
                     "at least 4 sequences, or sequences of at least 4 tokens",
                     "Choose a larger step: two smaller ones are measured to predict it.")


def run(
    config: RunConfig,
    *,
    steps: int = 20,
    warmup: int = 3,
    profile: DeviceProfile | None = None,
    device: str | None = None,
    eta: float | None = None,
    guesses: Mapping[str, float] | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[Comparison, StepMeasurement]:
    """Measure `config` and its two anchors, predict it from those alone, lay out both.

    The three take turns, so that all meet the same machine; then their parts do. Memory is
    the tracker's, on CUDA the allocator's. Arguments as in
    `measure.step.measure_steps` and `lay`. Needs torch.
    """
    from .measure.device import find
    from .measure.memory import measure_memory
    from .measure.parts import measure_parts
    from .measure.step import measure_steps

    say = progress or (lambda line: None)
    here, shapes = find(device), [*anchor_configs(config), config]
    say("measuring memory")
    memory = measure_memory(config, "device" if here.type == "cuda" else "tracker", here)
    say("measuring steps of " + ", ".join(f"{c.batch} x {c.sequence}" for c in shapes)
        + " tokens, taking turns")
    few, more, measured = measure_steps(shapes, steps=steps, warmup=warmup, profile=profile,
                                        device=here, progress=say)
    parts: Sequence[StepParts] = ()
    try:
        parts = measure_parts(shapes, rounds=max(3, steps // 4), device=here, progress=say)
    except UnavailableError as problem:  # a GPU that must not be profiled, for one
        say(f"the parts of the step are estimated instead: {problem}")
    known: dict[str, Any] = {"profile": profile, "guesses": guesses, "parts": parts,
                             "memory": memory}
    try:
        laid = lay(measured, anchors=(few, more), eta=eta, **known)
    except InputError as problem:
        if eta is not None or problem.argument != "seconds of the larger step":
            raise
        # The two anchors contradict each other: the machine was too busy for a line.
        laid = lay(measured, **known)
        say(f"no prediction of the step's duration: {problem}")
    return laid, measured


def _predicted_seconds(
    config: RunConfig, line: Line | None,
    anchors: tuple[StepMeasurement, StepMeasurement] | None, floor: float | None,
    eta: float | None, no_peak: str,
) -> tuple[float | None, str, str]:
    """Seconds, how, and the reason when there are none."""
    if line is not None and anchors is not None:
        a, b = sorted(m.tokens_per_step for m in anchors)
        return (line.seconds(config.tokens_per_step),
                f"alpha + beta x tokens, from steps of {a:,} and {b:,} tokens "
                f"(alpha = {si(line.alpha, 's')}, what a step costs at any size; "
                f"beta = {si(line.beta, 's')}, what each token adds)", "")
    if eta is None:
        return None, "", "It takes two measured smaller steps, or an eta of your own."
    fraction("eta", eta)
    return (floor / eta if floor else None), f"FLOP / (peak x {eta:g})", "" if floor else no_peak


def _memory_words(moment: str, memory: MemoryMeasurement | None) -> str:
    if memory is None:
        return ""
    by = ("by the device's allocator" if memory.backend == "device" and memory.reserved_bytes
          else "by PyTorch's tracker on fake tensors")
    # The measurement tells forward, backward and update apart; the loss ends the forward pass.
    alike = moment.startswith(memory.moment) or (moment, memory.moment) == ("loss", "forward")
    at = (f"Both peaks fall into the {moment}." if alike else
          f"The predicted peak falls into the {moment}, the measured one into the "
          f"{memory.moment}.")
    return f"Measured {by}. {at}"


def _step_words(measured: StepMeasurement, predicted: float | None,
                parts: Sequence[Part]) -> str:
    if predicted is None:
        return ""
    off, spread = abs(measured.step_seconds - predicted), measured.spread_seconds
    if off <= spread:
        return ("Smaller than the spread between steps (interquartile): noise alone may explain it."
                + (" Its parts are no surer." if parts else ""))
    return "Larger than the spread between steps: noise alone does not explain it."


def _of_a_run(measured: StepMeasurement, predicted: float | None) -> list[Part]:
    if predicted is None:
        return []
    steps = len(measured.samples)
    return [
        Part(name="steps off the prediction", amount=steps * (measured.step_seconds - predicted),
             why="steps x (median - predicted)"),
        Part(name="steps off the median",
             amount=sum(measured.samples) - steps * measured.step_seconds,
             why="the slow steps of this run, less its quick ones"),
    ]


def _relative(value: float | None, reference: float | None) -> float | None:
    return value / reference - 1.0 if value is not None and reference else None
