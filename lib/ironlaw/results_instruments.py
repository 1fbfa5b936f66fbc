"""What the instruments of pipeline, precision, attention and recomputation leave behind.

See `results` for the rules, and `results_systems` for the other instruments.

Times are seconds per call or per step. `samples` are raw and in the order in which they
were taken, the figure beside them is their median, `spread_seconds` their interquartile
range. Sizes are bytes. Errors are relative unless said: the largest absolute difference
over the largest absolute value of the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .errors import InputError
from .results import Result


@dataclass(frozen=True, kw_only=True)
class Measured(Result):
    """A result with its origin: the device, its kind, the software, and when (UTC)."""

    kind: ClassVar[str] = "measured"
    device: str
    device_type: str
    threads: int
    versions: dict[str, str]
    measured_on: str

    def __str__(self) -> str:
        from . import results_tables
        return results_tables.text(self)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One thing timed: `seconds` is the median of `samples`."""

    name: str
    samples: list[float]
    seconds: float
    spread_seconds: float


# --- the data pipeline --------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class LoaderTiming:
    """Batches from a DataLoader with nothing else going on.

    `first_batch_seconds` includes starting the workers. `samples` are gaps between
    batches, which come in bursts when there are workers: `batches_per_second` divides
    their number by their sum. `prefetch` is batches kept ahead per worker (None: no worker).
    """

    workers: int
    prefetch: int | None
    pinned: bool
    first_batch_seconds: float
    samples: list[float]
    batches_per_second: float


@dataclass(frozen=True, kw_only=True)
class LoopTiming:
    """A training loop fed by a DataLoader: per step the wait for its batch, and the work.

    `idle_share` is the part of the loop in which the device had no step to work on.
    """

    workers: int
    wait_samples: list[float]
    step_samples: list[float]
    iteration_seconds: float
    tokens_per_second: float
    idle_share: float


@dataclass(frozen=True, kw_only=True)
class PipelineMeasurement(Measured):
    """Each stage alone (seconds per batch), loaders by number of workers, and whole loops.

    `stages` are "read", "transform" (if asked for), "tokenise", "copy", "copy pinned" (CUDA)
    and "step"; `loops` starts with the one without workers, where nothing overlaps.
    """

    kind: ClassVar[str] = "pipeline"
    config: dict[str, Any]
    tokens_per_batch: int
    batch_bytes: float
    corpus: str
    tokenizer: str
    start_method: str
    stages: list[Timing]
    loaders: list[LoaderTiming]
    loops: list[LoopTiming]

    def stage(self, name: str) -> Timing:
        """The stage called `name`, or `InputError` naming those measured."""
        return _named(self.stages, name)

    def loop(self, workers: int) -> LoopTiming:
        """The loop with that many workers, or `InputError` naming those measured."""
        for found in self.loops:
            if found.workers == workers:
                return found
        raise InputError("workers", workers, "one of " + ", ".join(
            str(found.workers) for found in self.loops))

    def overlap(self, workers: int) -> float:
        """The share of the wait for batches without workers that `workers` of them hide.

        1 where nothing is left to wait for, 0 where nothing overlaps; below 0 where workers
        make the loop wait longer, as they can when they share its processors.
        """
        def wait(loop: LoopTiming) -> float:
            return sum(loop.wait_samples) / len(loop.wait_samples)

        return 1.0 - wait(self.loop(workers)) / wait(self.loop(0))

    def batches_per_second(self, name: str) -> float:
        """The rate at which the stage called `name` alone could go."""
        return 1.0 / self.stage(name).seconds


@dataclass(frozen=True, kw_only=True)
class WorkerRate:
    """One transformation by `workers` of a `kind` ("thread" or "process").

    `samples` are seconds for all the items; the rate takes their median.
    """

    transform: str
    kind: str
    workers: int
    samples: list[float]
    items_per_second: float


@dataclass(frozen=True, kw_only=True)
class WorkersMeasurement(Measured):
    """Threads against processes, for work in plain Python ("python") and outside ("native")."""

    kind: ClassVar[str] = "workers"
    items: int
    has_global_lock: bool
    rates: list[WorkerRate]

    def speedup(self, transform: str, kind: str, workers: int) -> float:
        """The rate of `workers` over that of one of the same kind."""
        found = {(r.transform, r.kind, r.workers): r.items_per_second for r in self.rates}
        for asked in ((transform, kind, workers), (transform, kind, 1)):
            if asked not in found:
                raise InputError("transform, kind and workers", asked,
                                 "one of " + ", ".join(map(str, found)))
        return found[transform, kind, workers] / found[transform, kind, 1]


# --- number formats -----------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class FormatError:
    """Rounding of one format: of single values, and of a matrix product computed in it.

    `largest` and `rms` are relative errors of values well inside the range; `product` is
    the error of a product against float64, in the Frobenius norm (None: not run here).
    """

    format: str
    values: int
    largest: float
    rms: float
    product: float | None


@dataclass(frozen=True, kw_only=True)
class GradientTally:
    """Gradients of one training step in float32, sorted by size.

    `of` is "parameters" or "outputs" (gradients of the outputs of linear layers, which
    mixed precision holds in 16 bit). `exponents` counts values by floor(log2 |g|).
    """

    of: str
    values: int
    zeros: int
    largest: float
    exponents: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Underflow:
    """What is left of a `GradientTally` when it is scaled and stored in `format`.

    `lost` is the share of values other than 0 that become 0, `subnormal` the share stored
    with fewer bits, `overflowed` the number that become infinite or are clamped.
    """

    of: str
    format: str
    loss_scale: float
    lost: float
    subnormal: float
    overflowed: int


@dataclass(frozen=True, kw_only=True)
class PrecisionRun:
    """A few training steps in one precision, from the same weights on the same text.

    `non_finite` counts infinite or NaN gradient values and `zero_share` the share of zeros
    per step, before clipping. `loss_scale` is the scale that a step used (1: none);
    `skipped` the steps that loss scaling refused.
    """

    precision: str
    loss_scaling: bool
    losses: list[float]
    samples: list[float]
    seconds: float
    spread_seconds: float
    non_finite: list[int]
    zero_share: list[float]
    loss_scale: list[float]
    skipped: int


@dataclass(frozen=True, kw_only=True)
class PrecisionMeasurement(Measured):
    """Rounding, underflow and training in each format that this device can use."""

    kind: ClassVar[str] = "precision"
    config: dict[str, Any]
    formats: list[FormatError]
    gradients: list[GradientTally]
    underflow: list[Underflow]
    runs: list[PrecisionRun]


# --- attention and recomputation ----------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class AttentionTiming:
    """One way to compute attention at one sequence length, forward and backward.

    `seconds` is forward alone, `both_seconds` forward and backward. `saved_bytes` is kept
    for backward (inputs included), `peak_bytes` the most held at once beyond the inputs.
    """

    method: str
    seq: int
    samples: list[float]
    seconds: float
    both_samples: list[float]
    both_seconds: float
    saved_bytes: float
    peak_bytes: float


@dataclass(frozen=True, kw_only=True)
class AttentionError:
    """How far `method` in float32 is from float64: its output and its three gradients."""

    method: str
    seq: int
    output: float
    gradients: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class AttentionMeasurement(Measured):
    """Materialised, fused and tiled attention, causal, at growing sequence length."""

    kind: ClassVar[str] = "attention"
    batch: int
    heads: int
    head_width: int
    dtype: str
    tile: int
    timings: list[AttentionTiming]
    errors: list[AttentionError]

    def at(self, method: str, seq: int) -> AttentionTiming:
        """The timing of `method` at length `seq`, or `InputError` naming those measured."""
        for timing in self.timings:
            if (timing.method, timing.seq) == (method, seq):
                return timing
        known = ", ".join(f"{t.method} at {t.seq}" for t in self.timings)
        raise InputError("method and seq", (method, seq), f"one of {known}")


@dataclass(frozen=True, kw_only=True)
class RecomputeTiming:
    """Forward and backward under one policy, without the optimizer.

    `overhead` is the extra time over "none" as a share of it, `flop_overhead` the same in
    FLOP. `saved_bytes` is what the forward pass leaves for backward, `peak_bytes` the most
    that a whole step holds. `gradient_error` is against "none".
    """

    policy: str
    samples: list[float]
    seconds: float
    spread_seconds: float
    saved_bytes: float
    peak_bytes: float
    overhead: float
    flop_overhead: float
    gradient_error: float


@dataclass(frozen=True, kw_only=True)
class Accumulation:
    """Gradients of one batch in `micro_batches` parts of unequal token counts.

    `gradient_error` is against the whole batch at once; `mean_of_means_error` is what
    averaging the parts' own means gives instead.
    """

    micro_batches: int
    tokens: list[int]
    gradient_error: float
    mean_of_means_error: float
    saved_bytes: float


@dataclass(frozen=True, kw_only=True)
class RecomputeMeasurement(Measured):
    """Time against memory for each recomputation policy, and that gradients stay the same.

    `forward_seconds` is a forward pass alone; `rule` the share that one more of them would
    add to a step, as measured (the rule of thumb says 1/3).
    """

    kind: ClassVar[str] = "recompute"
    config: dict[str, Any]
    forward_seconds: float
    forward_samples: list[float]
    rule: float
    policies: list[RecomputeTiming]
    accumulation: list[Accumulation]

    def policy(self, name: str) -> RecomputeTiming:
        """The policy called `name`, or `InputError` naming those measured."""
        for timing in self.policies:
            if timing.policy == name:
                return timing
        raise InputError("name", name, "one of " + ", ".join(p.policy for p in self.policies))


def _named(timings: list[Timing], name: str) -> Timing:
    for timing in timings:
        if timing.name == name:
            return timing
    raise InputError("name", name, "one of " + ", ".join(t.name for t in timings))
