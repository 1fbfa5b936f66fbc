"""What a measurement leaves behind: plain dataclasses that travel as JSON.

No torch here: widgets, graded notebooks and recordings read these without it.
A quantity that could not be had is None, and `reasons` says why under its name.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

from .errors import InputError

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Result:
    """Base of all results. `kind` names the type in JSON.

    `reasons` says why a quantity is None; `notes` how one was had and what it depends on.
    """

    kind: ClassVar[str] = "result"
    reasons: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values with the schema version and the kind."""
        return {"schema": SCHEMA_VERSION, "kind": self.kind, **_plain(self)}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows: the same as `print`."""
        printer.text(str(self))

    @classmethod
    def from_json(cls, data: dict[str, Any] | str) -> Self:
        """Rebuild a result from `to_json`'s value or its text."""
        values = json.loads(data) if isinstance(data, str) else dict(data)
        if values.get("schema") != SCHEMA_VERSION:
            raise InputError("schema", values.get("schema"),
                             f"{SCHEMA_VERSION}, as this version writes it",
                             "Measure again with this version of the course.")
        if values.get("kind") != cls.kind:
            raise InputError("kind", values.get("kind"), repr(cls.kind),
                             "Load this result with `ironlaw.results.load`, which knows all kinds.")
        return _rebuild(cls, values)


@dataclass(frozen=True, kw_only=True)
class Peak:
    """A rate that a utilisation divides by, and where it comes from."""

    flops_per_second: float
    source: str


@dataclass(frozen=True, kw_only=True)
class MatmulRate:
    """The best dense matmul seen on a device in one dtype.

    `flops_per_second` is the best rate of the sweep, `size` the side of the fastest
    square. `by_size` keeps the whole sweep: "1024" is a square, "1024x768x3072" a
    (rows x inner) by (inner x columns) product; `best` is the key of the fastest. `samples`
    are the seconds per product behind each rate, which is that of the shortest; empty in a
    file from before they were kept.
    """

    dtype: str
    flops_per_second: float
    size: int
    by_size: dict[str, float]
    best: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)

    @property
    def shape(self) -> str:
        """The fastest product in words."""
        return f"of {self.best}" if "x" in self.best else f"of side {self.size}"


@dataclass(frozen=True, kw_only=True)
class DeviceProfile(Result):
    """One device as calibrated: what it sustains, not what a data sheet promises.

    Rates in FLOP/s and bytes/s, times in seconds, `memory_bytes` in bytes. `notes`
    tells the effect of threads, of settings and of emulated formats. `samples` are the
    seconds behind "copy", "launch" and "host_to_device", as they were taken.
    """

    kind: ClassVar[str] = "device_profile"
    name: str
    device_type: str
    threads: int
    memory_bytes: float | None
    matmul: dict[str, MatmulRate]
    copy_bytes_per_second: float | None
    launch_seconds: float | None
    host_to_device_bytes_per_second: float | None
    catalogue_name: str | None
    versions: dict[str, str]
    measured_on: str
    samples: dict[str, list[float]] = field(default_factory=dict)

    def peak(self, dtype: str) -> Peak:
        """The calibrated matmul peak of `dtype`, or `InputError` naming those measured."""
        if dtype not in self.matmul:
            raise InputError("dtype", dtype, "one of " + ", ".join(self.matmul),
                             self.reasons.get(f"matmul.{dtype}", "Run `ironlaw calibrate` again."))
        rate = self.matmul[dtype]
        return Peak(flops_per_second=rate.flops_per_second,
                    source=f"calibrated on {self.name}: {dtype} matmul {rate.shape}")

    def __str__(self) -> str:
        from . import results_text
        return results_text.device(self)


@dataclass(frozen=True, kw_only=True)
class StepMeasurement(Result):
    """The time of one training step on a real device.

    `samples` are seconds per step after warm-up; `step_seconds` is their median and
    `spread_seconds` their interquartile range. `flops_per_step` are model FLOPs
    (recomputation not counted); MFU divides them by time and by `peak`. Software and date
    (UTC) are empty in a file from before they were kept.
    """

    kind: ClassVar[str] = "step"
    config: dict[str, Any]
    device: str
    parameters: int
    tokens_per_step: int
    flops_per_token: float
    flops_per_step: float
    hardware_flops_per_step: float
    step_seconds: float
    spread_seconds: float
    samples: list[float]
    tokens_per_second: float
    peak: Peak | None
    mfu: float | None
    versions: dict[str, str] = field(default_factory=dict)
    measured_on: str = ""

    def __str__(self) -> str:
        from . import results_text
        return results_text.step(self)


@dataclass(frozen=True, kw_only=True)
class TrainingResult(Result):
    """What a training run ends with; `losses` holds (step, loss) pairs.

    Losses are in nats per token; `validation_loss` is on text held back from training.
    """

    kind: ClassVar[str] = "training"
    config: dict[str, Any]
    device: str
    corpus: str
    corpus_sha256: str
    steps: int
    final_loss: float
    losses: list[tuple[int, float]]
    validation_loss: float | None
    seconds: float
    tokens_per_second: float
    peak: Peak | None
    mfu: float | None
    threads: int
    checkpoint: str | None


@dataclass(frozen=True, kw_only=True)
class ActivationTimings(Result):
    """Activation functions timed on one tensor, forward only, results into a ready buffer.

    `samples` are seconds per call by function, `medians` and `spreads` (interquartile
    ranges) their summaries. "copy" reads and writes the same bytes and computes nothing.
    """

    kind: ClassVar[str] = "activation_timings"
    device: str
    device_type: str
    threads: int
    dtype: str
    shape: list[int]
    samples: dict[str, list[float]]
    medians: dict[str, float]
    spreads: dict[str, float]
    versions: dict[str, str]
    measured_on: str

    def __str__(self) -> str:
        from . import results_text
        return results_text.activations(self)


@dataclass(frozen=True, kw_only=True)
class SavedTensor:
    """One storage that a block keeps for backward; `where` names the layer that keeps it."""

    where: str
    shape: list[int]
    dtype: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class MemoryMeasurement(Result):
    """Memory of one training step, in bytes.

    `memory_bytes` holds parameters, gradients, optimizer, cast_copies, activations, logits
    and transient at the fullest moment, and their sum `peak`; `moment` is the phase it
    fell into. The three `*_bytes` of state are whole amounts: gradients, for one, are
    complete only after backward.
    `backend` is "tracker" (fake tensors) or "device"; the allocator's figures are None
    for the first. Counts have no samples: the same software counts the same. Software and
    date (UTC) are empty in a file from before they were kept.
    """

    kind: ClassVar[str] = "memory"
    config: dict[str, Any]
    backend: str
    device: str
    parameters: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    memory_bytes: dict[str, int | None]
    moment: str
    saved_tensors: list[SavedTensor]
    saved_bytes_per_block: int | None
    reserved_bytes: int | None
    context_bytes: int | None
    tracker_peak_bytes: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    measured_on: str = ""

    def __str__(self) -> str:
        from . import results_text
        return results_text.memory_of_a_step(self)

    @property
    def peak_bytes(self) -> int:
        """The largest number of bytes held at once."""
        return self.memory_bytes["peak"] or 0

    @property
    def overhead_bytes(self) -> int | None:
        """What a device's allocator counted at the peak beyond the tracker's tensors.

        Rounding to blocks and workspaces of libraries; None where no allocator counts.
        """
        if self.reserved_bytes is None or self.tracker_peak_bytes is None:
            return None
        return self.peak_bytes - self.tracker_peak_bytes


@dataclass(frozen=True, kw_only=True)
class MemorySweep(Result):
    """Peaks of a step at several micro-batches, and the largest one within a limit (bytes).

    `peaks` holds (batch, peak) pairs in order of the batch.
    """

    kind: ClassVar[str] = "memory_sweep"
    config: dict[str, Any]
    limit_bytes: float
    largest_batch: int
    peaks: list[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class KernelTiming:
    """One operation of GPT-2 on a device: work, traffic and the time that it took.

    `flops` is FLOP and `flops_source` says how it was counted; `traffic_bytes` is each
    input read once and each output written once. `seconds` is the median of `samples`,
    per call. `footprint_bytes` is the distinct bytes that it touches, None in a file from
    before it was kept; `cache_resident` is true when the last cache could hold them all.
    """

    name: str
    shape: str
    flops: float
    flops_source: str
    traffic_bytes: float
    seconds: float
    samples: list[float]
    cache_resident: bool
    footprint_bytes: float | None = None

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOP per byte."""
        return self.flops / self.traffic_bytes

    @property
    def flops_per_second(self) -> float:
        """The rate that was reached, FLOP/s."""
        return self.flops / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """The traffic that was reached, bytes/s."""
        return self.traffic_bytes / self.seconds


@dataclass(frozen=True, kw_only=True)
class RooflineMeasurement(Result):
    """The two roofs of a device and GPT-2's operations beneath them, measured in turns.

    `peak_flops_per_second` is the best rate of any matrix product here;
    `bytes_per_second` the best of `bandwidths` ("copy" and "in place": read and written,
    "read"), and `bytes_source` says which. `stream_samples` holds the seconds of each.
    """

    kind: ClassVar[str] = "roofline"
    device: str
    device_type: str
    threads: int
    model: str
    dtype: str
    bytes_per_value: float
    peak_flops_per_second: float
    peak_source: str
    bytes_per_second: float
    bandwidths: dict[str, float]
    kernels: list[KernelTiming]
    versions: dict[str, str]
    measured_on: str
    bytes_source: str = ""
    stream_samples: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        from . import results_text
        return results_text.roofline(self)

    def kernel(self, name: str) -> KernelTiming:
        """The operation called `name`, or `InputError` naming those measured."""
        found = {k.name: k for k in self.kernels}
        if name not in found:
            raise InputError("name", name, "one of " + ", ".join(found))
        return found[name]


def load(data: dict[str, Any] | str) -> Result:
    """Rebuild whichever result `data` holds, by its `kind`."""
    importlib.import_module(".results_systems", __package__)  # it and what it imports add kinds
    values = json.loads(data) if isinstance(data, str) else data
    kinds = {cls.kind: cls for cls in _subclasses(Result)}
    kind = values.get("kind")
    if kind not in kinds:
        raise InputError("kind", kind, "one of " + ", ".join(sorted(kinds)))
    return kinds[kind].from_json(values)


T = TypeVar("T")


def _subclasses(cls: type[Result]) -> list[type[Result]]:
    direct = cls.__subclasses__()
    return direct + [deep for sub in direct for deep in _subclasses(sub)]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _rebuild(cls: type[T], values: dict[str, Any]) -> T:
    hints = typing.get_type_hints(cls)
    described = dataclasses.fields(cls)  # type: ignore[arg-type]
    known = {f.name for f in described}
    needed = {f.name for f in described if f.default is dataclasses.MISSING
              and f.default_factory is dataclasses.MISSING}
    missing = needed - set(values)
    if missing:
        raise InputError("result", sorted(values), "a whole result",
                         f"It lacks {', '.join(sorted(missing))}: measure again.")
    return cls(**{name: _typed(hints[name], values[name]) for name in known if name in values})


def _typed(hint: Any, value: Any) -> Any:
    """`value` as `hint` wants it; JSON has no tuples and no nested dataclasses."""
    origin = typing.get_origin(hint)
    inner = typing.get_args(hint)
    if value is None:
        return None
    if origin in (typing.Union, types.UnionType):
        return _typed(next(a for a in inner if a is not type(None)), value)
    if dataclasses.is_dataclass(hint):
        return _rebuild(hint, value)  # type: ignore[arg-type]
    if origin is dict:
        return {k: _typed(inner[1], v) for k, v in value.items()}
    if origin is list:
        return [_typed(inner[0], v) for v in value]
    if origin is tuple:
        return tuple(_typed(a, v) for a, v in zip(inner, value, strict=True))
    return value
