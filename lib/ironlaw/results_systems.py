"""What the instruments of several processes, traces and energy leave behind, and recordings.

See `results` for the rules and `results_instruments` for what all of them share. Times are
seconds, sizes bytes; `samples` are raw, the figure beside them is their median.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from .errors import InputError
from .results import Result
from .results_instruments import Measured, Timing

# --- several processes --------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class AllReduceTiming:
    """An all-reduce of one message: every process ends with the sum of all.

    `wire_bytes` is what all processes together sent through the loopback network, the
    least of the samples (other programs use it too); None where it cannot be counted.
    """

    message_bytes: float
    samples: list[float]
    seconds: float
    spread_seconds: float
    wire_bytes: float | None

    @property
    def bytes_per_second(self) -> float:
        """Message bytes over time."""
        return self.message_bytes / self.seconds


@dataclass(frozen=True, kw_only=True)
class ParallelStep:
    """A training step in every process: "alone" (no exchange), "ddp" or "fsdp2".

    `parameter_bytes` is held by one process between steps. `gradient_error` compares with
    one process on all the data; None for "alone". `wire_bytes` is what all processes together
    sent in a step, the least of the samples; None where it cannot be counted.
    """

    method: str
    samples: list[float]
    seconds: float
    spread_seconds: float
    parameter_bytes: float
    gradient_error: float | None
    wire_bytes: float | None = None


@dataclass(frozen=True, kw_only=True)
class ScalingMeasurement(Measured):
    """Data parallelism over processes of this machine; `config.batch` is that of each."""

    kind: ClassVar[str] = "scaling"
    config: dict[str, Any]
    backend: str
    processes: int
    threads_per_process: int
    all_reduce: list[AllReduceTiming]
    steps: list[ParallelStep]

    def step(self, method: str) -> ParallelStep:
        """The step of `method`, or `InputError` naming those measured."""
        for step in self.steps:
            if step.method == method:
                return step
        raise InputError("method", method, "one of " + ", ".join(s.method for s in self.steps))


# --- a profiler's trace -------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """Calls of one operation in a trace. `flops` is None where the profiler counts none."""

    name: str
    category: str
    calls: int
    seconds: float
    share: float
    flops: float | None


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A stretch without work on the device, and what the host did meanwhile."""

    start: float
    seconds: float
    during: str


@dataclass(frozen=True, kw_only=True)
class TraceMeasurement(Measured):
    """A profiled stretch of training: kernels, gaps, and which limit they point to.

    `shares` splits the time: "data" (waiting for the next batch), "host" (other gaps),
    "compute" (matrix products and attention) and "memory" (everything else that runs).
    `axis` is "data", "algorithm" (compute-bound) or "machine" (memory-bound), None when
    gaps that are not the data's weigh most; `evidence` says why in words. Times in seconds.
    """

    kind: ClassVar[str] = "trace"
    config: dict[str, Any] | None
    steps: int
    seconds: float
    busy_seconds: float
    idle_share: float
    shares: dict[str, float]
    axis: str | None
    evidence: list[str]
    kernels: list[KernelRow]
    gaps: list[Gap]
    gap_count: int


# --- parts of a step ----------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class StepParts(Measured):
    """Parts of one training step, each measured on its own; times are seconds per step.

    `launches` counts the operations that a step starts, by part ("optimizer", "loss head",
    "rest"); `launch` is the time of one tiny operation. `optimizer` is clipping and update,
    `head` the final projection and cross-entropy, forward and backward. `busy_seconds` is how
    long a GPU ran anything in a step, None where the device does not tell.
    """

    kind: ClassVar[str] = "step_parts"
    config: dict[str, Any]
    launches: dict[str, int]
    launch: Timing
    optimizer: Timing
    head: Timing
    busy_seconds: float | None

    def exposed_launch_seconds(self, step_seconds: float) -> float:
        """What launches outside the other two parts add to a step of `step_seconds`.

        A CPU starts an operation and runs it, so all of it counts. A GPU runs one while the
        host starts the next: only what leaves it idle counts, and no more than that.
        """
        all_of_it = self.launches["rest"] * self.launch.seconds
        if self.busy_seconds is None:
            return all_of_it
        return min(all_of_it, max(0.0, step_seconds - self.busy_seconds))


@dataclass(frozen=True, kw_only=True)
class OperationCount:
    """`calls` equal operations of a step: FLOP and bytes of each call.

    `flops` are those of matrix products; `traffic_bytes` is each input read once and each
    output written once.
    """

    name: str
    calls: int
    flops: float
    traffic_bytes: float


@dataclass(frozen=True, kw_only=True)
class StepOperations(Result):
    """Every operation of one training step, counted on tensors without contents."""

    kind: ClassVar[str] = "step_operations"
    config: dict[str, Any]
    operations: list[OperationCount]

    @property
    def launches(self) -> int:
        """How many operations a step starts."""
        return sum(one.calls for one in self.operations)

    @property
    def flops(self) -> float:
        """FLOP of all matrix products, recomputation included."""
        return sum(one.calls * one.flops for one in self.operations)

    @property
    def traffic_bytes(self) -> float:
        """Bytes that all operations move at the least."""
        return sum(one.calls * one.traffic_bytes for one in self.operations)


# --- energy -------------------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class EnergyMeasurement(Measured):
    """Energy of some training steps. `power` holds (seconds since start, watts) pairs.

    `joules` is the integral of `power`; `counter_joules` comes from the device's own
    counter. `idle_watts` is what it draws with nothing to do. `gaps` holds (start, length) in
    seconds of the stretches in which the sensor was not read.
    """

    kind: ClassVar[str] = "energy"
    config: dict[str, Any] | None
    steps: int
    tokens: int
    seconds: float
    power: list[tuple[float, float]]
    joules: float | None
    counter_joules: float | None
    idle_watts: float | None
    gaps: list[tuple[float, float]] = field(default_factory=list)

    @property
    def joules_per_token(self) -> float | None:
        """Energy per trained token, None when it was not measured."""
        return self.joules / self.tokens if self.joules is not None and self.tokens else None


# --- a recording --------------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class RecordedFile:
    """One file of a recording: its name, what it holds, and how long it took (seconds)."""

    file: str
    kind: str
    seconds: float
    sha256: str
    measured_on: str
    versions: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class RecordingIndex(Measured):
    """What a folder of measurements holds, by instrument; `reasons` says what it lacks.

    `notes` tells under which circumstances it was made: a busy machine, above all.
    """

    kind: ClassVar[str] = "recording"
    name: str
    memory_bytes: float | None
    instruments: dict[str, RecordedFile]
