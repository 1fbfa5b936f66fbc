"""Prediction beside measurement: the same quantity twice, the difference, and what it is made of.

`lay` is arithmetic on a `StepMeasurement` and needs no torch, so a notebook can replay a
stored measurement anywhere. `run` measures first. The result prints as a table, shows
as one in a notebook, and travels as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .config import RunConfig
from .errors import InputError, choice, fraction, number
from .predict import flops, step_time
from .predict.step_time import Line
from .results import DeviceProfile, Result, StepMeasurement
from .units import si

# FP32 bytes that an optimizer's pass moves per parameter at the least: weight and
# gradient read, weight written, and each moment read and written.
_OPTIMIZER_BYTES = {"sgd": 12.0, "momentum": 20.0, "rmsprop": 20.0}
_ADAM_BYTES = 28.0
# Clipping reads every gradient for the norm, then reads and writes it once more.
_CLIPPING_BYTES = 12.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One contribution to a residual, in the unit of its row; all parts sum to the residual."""

    name: str
    amount: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One quantity, guessed, predicted and measured. A value that is None has a `reason`.

    `how` says how the prediction was made, `why` what its difference to the
    measurement consists of, in words; `parts` split `measured - predicted` where that
    can be done.
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
        "run_seconds")


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """All rows of one measured step, in the order of `KEYS`."""

    kind: ClassVar[str] = "comparison"
    config: dict[str, Any]
    device: str
    steps: int
    peak_source: str | None
    rows: list[Row]

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
) -> Comparison:
    """Lay predictions beside `measured`.

    The step's duration is predicted by a line through two smaller measured steps
    (`anchors`), else by the iron law with an `eta` of yours in (0, 1], the share of the
    peak that the device sustains, recomputation included; else not at all.
    `profile` gives the bandwidth by which the optimizer's share is estimated.
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
            found: float | None, why: str, parts: list[Part] | None = None,
            reason: str = "") -> Row:
        return Row(key=key, quantity=quantity, unit=unit, how=how, guess=given.get(key),
                   predicted=forecast, measured=found, why=why, parts=parts or [], reason=reason)

    rate = tokens / predicted if predicted else None
    share = per_step / (predicted * peak) if predicted and peak else None
    same = "Follows from the step's duration."
    rows = [
        row("flops_per_token", "model FLOP per token", "FLOP", "6 (12 L d^2 + V d) + 12 L d S",
            per_token, measured.flops_per_token,
            "Both count matrix products only: a difference would be a mistake."),
        row("floor_seconds", "step, nothing but products at the peak", "s", f"{work} / peak",
            floor, took, "All that the iron law puts into eta.",
            _above_floor(config, measured, profile, line, floor), "" if floor else no_peak),
        row("step_seconds", "step", "s", how, predicted, took, _step_words(measured, predicted),
            reason=reason),
        row("tokens_per_second", "tokens per second", "1/s", "tokens / predicted step", rate,
            measured.tokens_per_second, same, reason=reason),
        row("mfu", "model FLOPs utilisation", "", "FLOP / (predicted step x peak)", share,
            measured.mfu, same, reason=reason or ("" if measured.mfu is not None else no_peak)),
        row("run_seconds", f"run of {steps} steps", "s", "steps x predicted step",
            step_time.run_seconds(predicted, steps) if predicted else None, total,
            "Steps slower than the median lengthen a run.",
            _of_a_run(measured, predicted), reason),
    ]
    return Comparison(config=measured.config, device=measured.device, steps=steps,
                      peak_source=measured.peak.source if measured.peak else None, rows=rows,
                      reasons=dict(measured.reasons), notes=dict(measured.notes))


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

    The three take turns, so that all meet the same machine. Arguments as in
    `measure.step.measure_steps` and `lay`. Needs torch.
    """
    from .measure.step import measure_steps

    say = progress or (lambda line: None)
    shapes = [*anchor_configs(config), config]
    say("measuring steps of " + ", ".join(f"{c.batch} x {c.sequence}" for c in shapes)
        + " tokens, taking turns")
    few, more, measured = measure_steps(shapes, steps=steps, warmup=warmup, profile=profile,
                                        device=device, progress=say)
    try:
        laid = lay(measured, profile=profile, anchors=(few, more), eta=eta, guesses=guesses)
    except InputError as problem:
        if eta is not None or problem.argument != "seconds of the larger step":
            raise
        # The two anchors contradict each other: the machine was too busy for a line.
        laid = lay(measured, profile=profile, guesses=guesses)
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


def _above_floor(config: RunConfig, measured: StepMeasurement, profile: DeviceProfile | None,
                 line: Line | None, floor: float | None) -> list[Part]:
    """Split the time above FLOP / peak. The parts sum to it exactly."""
    if floor is None:
        return []
    gap = measured.step_seconds - floor
    if line is None:
        return [Part(name="everything else", amount=gap,
                     why="products below the peak, memory-bound work, launches, optimizer")]
    parts = []
    fixed, bandwidth = line.alpha, profile.copy_bytes_per_second if profile else None
    if bandwidth:
        width = 0.5 if config.precision == "pure-bf16" else 1.0
        moved = width * (_OPTIMIZER_BYTES.get(config.optimizer, _ADAM_BYTES) + _CLIPPING_BYTES)
        update = step_time.optimizer_seconds(measured.parameters, moved, bandwidth)
        update = min(update, fixed)
        parts.append(Part(name="optimizer and clipping, estimated", amount=update,
                          why=f"{moved:g} B per parameter at the calibrated copy bandwidth, "
                              "at most alpha"))
        fixed -= update
    parts += [
        Part(name="rest of the fixed cost" if bandwidth else "fixed cost, alpha", amount=fixed,
             why="launches, Python, and what else a step pays at any size"),
        Part(name="tokens' work above the floor",
             amount=line.beta * config.tokens_per_step - floor,
             why="products below the peak; norms, softmax, GELU and loss wait for memory"),
        Part(name="not on the line",
             amount=measured.step_seconds - line.seconds(config.tokens_per_step),
             why="noise, caches, and costs that do not grow in a straight line"),
    ]
    return parts


def _step_words(measured: StepMeasurement, predicted: float | None) -> str:
    if predicted is None:
        return ""
    off, spread = abs(measured.step_seconds - predicted), measured.spread_seconds
    if off <= spread:
        return "Smaller than the spread between steps (interquartile): nothing to explain."
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
