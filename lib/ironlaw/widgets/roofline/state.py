"""What the roofline widget knows, what follows from it, and how to say that in words.

Pure functions over `ironlaw.predict`: no drawing, no controls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ... import workspace
from ...errors import choice, count, positive
from ...predict import attention
from ...predict import roofline as predict
from ...units import duration, percent, si, significant
from ..devices import BYTES_PER_VALUE, THIS_DEVICE, Machine, machine

LARGEST = 2**17
FIRST_DEVICE = "A100 80GB SXM"
MOST_MEASURED = 12
MATERIALISED, TILED = "attention, materialised", "attention, tiled"


@dataclass(frozen=True)
class Operation:
    """One operation: the names and first values of its sizes, its kernel, what helps it.

    `kernel` takes the sizes in order and `bytes_per_value`. `help` says what lifts it
    while it is memory-bound, `note` what its FLOP or bytes count.
    """

    name: str
    sizes: tuple[tuple[str, int], ...]
    kernel: Callable[..., predict.Kernel]
    help: str
    note: str = ""


def _standard(seq: int, head_width: int, heads: int, *, bytes_per_value: float) -> predict.Kernel:
    return attention.standard(seq, head_width, heads, bytes_per_value=bytes_per_value)


def _tiled(seq: int, head_width: int, heads: int, tile: int, *,
           bytes_per_value: float) -> predict.Kernel:
    return attention.tiled(seq, head_width, tile, heads, bytes_per_value=bytes_per_value)


def _gelu(rows: int, width: int, *, bytes_per_value: float) -> predict.Kernel:
    return predict.gelu(rows * width, bytes_per_value=bytes_per_value)


_FUSE = ("fuse it with a neighbour, so that its input or output never travels; or a narrower "
         "format. A higher peak would do nothing")
_HEADS = ("sequence S", 1024), ("head width", 64), ("heads × batch", 96)
OPERATIONS: dict[str, Operation] = {o.name: o for o in (
    Operation("GEMM", (("rows (tokens)", 4096), ("inner", 4096), ("columns", 4096)),
              predict.gemm, "more tokens at once, so that every weight fetched serves more of "
              "them; or a narrower format"),
    Operation("GEMV", (("rows", 4096), ("columns", 4096)), predict.gemv,
              "batch several vectors into one GEMM: each weight read then serves them all"),
    Operation("softmax", (("rows", 98_304), ("columns", 1024)), predict.softmax, _FUSE,
              "Counted: 5 FLOP per value (compare, subtract, exponential, add, divide)."),
    Operation("layer norm", (("rows", 8192), ("width", 768)), predict.layer_norm, _FUSE,
              "Counted: 8 FLOP per value (mean 1, variance 3, normalise 2, scale and shift 2)."),
    Operation("GELU", (("rows", 8192), ("width", 3072)), _gelu, _FUSE,
              "Counted: 9 FLOP per value, tanh as one of them."),
    Operation(MATERIALISED, _HEADS, _standard,
              "write less: in tiles the S × S scores never leave the chip"),
    Operation(TILED, (*_HEADS, ("tile", 128)), _tiled,
              "larger tiles: K and V are read again for every tile of queries"),
)}


@dataclass(frozen=True)
class Measured:
    """A point that the learner measured in lab 3: FLOP per byte and FLOP/s.

    `device` and `dtype` say where; `peak` (FLOP/s) and `bandwidth` (bytes/s) are the roofs
    that were measured in turns with it. Empty and zero where the lab did not keep them.
    """

    name: str
    intensity: float
    flops_per_second: float
    device: str = ""
    dtype: str = ""
    peak: float = 0.0
    bandwidth: float = 0.0


def _positive(entry: Mapping[str, Any], first: str, second: str) -> tuple[float, float] | None:
    one, two = entry.get(first), entry.get(second)
    if isinstance(one, int | float) and isinstance(two, int | float) and one > 0 and two > 0:
        return float(one), float(two)
    return None


def measured_points() -> tuple[Measured, ...]:
    """The learner's lab-3 points; entries that are not points are passed over."""
    kept = workspace.get("labs").get("lab_03")
    points = []
    for entry in kept if isinstance(kept, list) else []:
        if not isinstance(entry, dict):
            continue
        name, rates = entry.get("name"), _positive(entry, "intensity", "flops_per_second")
        if isinstance(name, str) and rates:
            roofs = _positive(entry, "peak_flops_per_second", "bytes_per_second") or (0.0, 0.0)
            points.append(Measured(name, *rates, str(entry.get("device", "")),
                                   str(entry.get("dtype", "")), *roofs))
    return tuple(points[:MOST_MEASURED])


def own_roof(measured: tuple[Measured, ...]) -> Machine | None:
    """The device of lab 3 under the roofs of lab 3, or None while they are not known.

    They were measured in turns with the points, so they are the ones to hold the points
    against; formats that the lab did not time have the peak that calibration found.
    """
    first = measured[0] if measured else None
    if first is None or not first.peak or first.dtype not in BYTES_PER_VALUE:
        return None
    profile = workspace.profile()
    others = {d: r.flops_per_second for d, r in profile.matmul.items() if d in BYTES_PER_VALUE} \
        if profile is not None and profile.name == first.device else {}
    return Machine(first.device, {**others, first.dtype: first.peak}, first.dtype,
                   first.bandwidth, "measured in lab 3")


def known_machine(name: str, measured: tuple[Measured, ...] = ()) -> Machine:
    """The roofs of `name`; for this device those of lab 3, else of `ironlaw calibrate`.

    Raises UnavailableError when this device has neither.
    """
    return (own_roof(measured) if name == THIS_DEVICE else None) or machine(name)


def first_sizes() -> dict[str, tuple[int, ...]]:
    """The sizes that every operation starts with."""
    return {name: tuple(value for _, value in op.sizes) for name, op in OPERATIONS.items()}


@dataclass(frozen=True, kw_only=True)
class State:
    """A machine, a dtype, the sizes of all operations, and the one that is read out.

    `sizes` by operation, in the order of `Operation.sizes`; `kept` are further points,
    (operation, sizes), that stay while the sizes move on.
    """

    machine: Machine
    dtype: str
    operation: str = "GEMM"
    sizes: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: MappingProxyType(first_sizes()))
    kept: tuple[tuple[str, tuple[int, ...]], ...] = ()
    measured: tuple[Measured, ...] = ()

    def __post_init__(self) -> None:
        positive("peak", self.machine.peak(self.dtype), unit="FLOP/s")
        choice("operation", self.operation, OPERATIONS)
        for name, sizes in (*self.sizes.items(), *self.kept):
            for (label, _), size in zip(OPERATIONS[name].sizes, sizes, strict=True):
                count(f"{name}, {label}", size, high=LARGEST)

    @property
    def peak(self) -> float:
        """The flat ceiling, FLOP/s."""
        return self.machine.peak(self.dtype)


def preset(device: str | None = None, dtype: str | None = None, operation: str = "GEMM",
           **changes: Any) -> State:
    """A state from a device's name, its usual dtype and the first sizes, with `changes`.

    With neither device nor dtype: the device and format of lab 3, once that was done, and
    `FIRST_DEVICE` before.
    """
    measured = changes.pop("measured", None)
    points = measured_points() if measured is None else measured
    if device is None:
        device = THIS_DEVICE if dtype is None and own_roof(points) else FIRST_DEVICE
    known = known_machine(device, points)
    return State(machine=known, dtype=dtype or known.usual_dtype, operation=operation,
                 measured=points, **changes)


@dataclass(frozen=True)
class Point:
    """One operation under the roof. FLOP/byte, FLOP/s, seconds; `bound` memory or compute."""

    operation: str
    sizes: tuple[int, ...]
    kernel: predict.Kernel
    attainable: float
    bound: str
    seconds: float

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOP per byte."""
        return self.kernel.intensity


@dataclass(frozen=True)
class Outcome:
    """What follows: the ridge in FLOP/byte, a point per operation, the kept ones after them."""

    ridge: float
    points: dict[str, Point]
    kept: tuple[Point, ...]
    chosen: Point

    @property
    def tiling_gain(self) -> float:
        """How many times faster tiled attention could be than materialised, at this shape."""
        return self.points[MATERIALISED].seconds / self.points[TILED].seconds


def compute(state: State) -> Outcome:
    """Put every operation under the roof, from `predict.roofline` and `predict.attention`."""
    def point(name: str, sizes: tuple[int, ...]) -> Point:
        kernel = OPERATIONS[name].kernel(*sizes, bytes_per_value=BYTES_PER_VALUE[state.dtype])
        ceilings = (state.peak, state.machine.bandwidth)
        return Point(name, sizes, kernel, predict.attainable(kernel.intensity, *ceilings),
                     predict.bound(kernel.intensity, *ceilings), kernel.seconds(*ceilings))

    points = {name: point(name, sizes) for name, sizes in state.sizes.items()}
    return Outcome(predict.ridge_point(state.peak, state.machine.bandwidth), points,
                   tuple(point(*kept) for kept in state.kept), points[state.operation])


def shape_in_words(point: Point) -> str:
    """The sizes of a point: "rows (tokens) 4,096, inner 4,096, columns 4,096"."""
    labels = (label for label, _ in OPERATIONS[point.operation].sizes)
    return ", ".join(f"{label} {size:,}" for label, size in zip(labels, point.sizes, strict=True))


def describe(state: State, outcome: Outcome) -> str:
    """The whole outcome in a few plain sentences: what a screen reader announces."""
    here = outcome.chosen
    words = [
        f"On {state.machine.name} in {state.dtype.upper()} the ridge is at "
        f"{significant(outcome.ridge)} FLOP per byte.",
        f"{_capital(here.operation)} ({shape_in_words(here)}) does "
        f"{significant(here.intensity)}: it is {here.bound}-bound and reaches at most "
        f"{si(here.attainable, 'FLOP/s')}, {percent(here.attainable / state.peak)} of the peak, "
        f"in {duration(here.seconds)}.",
    ]
    if here.bound == "memory":
        words.append(f"What would help: {OPERATIONS[here.operation].help}.")
    else:
        words.append("What would help: a higher peak, such as a narrower format, or fewer "
                     "operations. More bandwidth would do nothing.")
    if here.operation in (MATERIALISED, TILED):
        materialised, tiled = (outcome.points[name] for name in (MATERIALISED, TILED))
        gain = outcome.tiling_gain
        words.append(
            f"Tiling moves attention from {significant(materialised.intensity)} to "
            f"{significant(tiled.intensity)} FLOP per byte"
            + (": both are compute-bound already, so it saves memory but no time."
               if materialised.bound == tiled.bound == "compute"
               else f": up to {significant(gain)} times as fast." if gain > 1
               else ": with tiles this small it gains nothing."))
        words.append(
            "Tiled, K and V are read again for every tile of queries; the fused form of lab 3 "
            "counts every operand once, the least that any kernel could move: "
            f"{significant(_least_traffic_intensity(state))} FLOP per byte at this shape.")
    words += [note for note in (OPERATIONS[here.operation].note, _about_squares(state)) if note]
    return " ".join(words)


def _least_traffic_intensity(state: State) -> float:
    """FLOP per byte of attention that reads Q, K and V once and writes its output once."""
    seq, head_width, *_ = state.sizes[TILED]
    return attention.products_flops(seq, head_width) / attention.head_tensors_bytes(
        seq, head_width, bytes_per_value=BYTES_PER_VALUE[state.dtype])


def _about_squares(state: State) -> str:
    if not state.measured:
        return ""
    words = "The square is a measurement" if len(state.measured) == 1 else \
        "Squares are measurements"
    words += " of your own device, from lab 3"
    first = state.measured[0]
    if first.dtype:
        words += f", in {first.dtype.upper()}"
    if (first.device, first.dtype) == (state.machine.name, state.dtype) or not first.device:
        return f"{words}."
    return f"{words} on {first.device}: this is not the roof that they were measured under."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
