"""GPT-2's own operations under the two roofs of this device.

Each operation takes its turn with the probes that find the roofs (copy, read, a large
square product), round after round, so that a busy moment hits all alike. Roofs are best
samples, because they are ceilings; operations are medians, because that is what a step
gets. Traffic is stated, not measured: each input read once, each output written once.
The memory roof is the best of three ways to stream: a plain read, an update in place, and a
copy, which on most CPUs also reads the lines that it will overwrite and so moves uncounted
bytes. Buffers are several times the last cache, so that memory is what is read: what counts
for that is an operation's footprint, all distinct bytes that it touches, and not its traffic,
in which an operand that is read and written appears twice.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from ..errors import InputError, choice, number
from ..results import KernelTiming, RooflineMeasurement
from ..transformer import Shape, model
from ..units import MIB, memory
from . import calibration, host, matmul, timing
from ._torch import torch
from .device import DTYPES, Device, find, obstacle, usual_dtype

FLOPS_PER_VALUE = {"softmax": 5.0, "layer norm": 8.0, "GELU": 9.0, "residual addition": 1.0,
                   "cross-entropy": 4.0, "AdamW update": 15.0}
"""Element-wise work by the stated formulas: softmax compares, subtracts, takes exp, adds,
divides; layer norm: mean 1, variance 3, normalise 2, scale and shift 2; GELU in its tanh
form: 9 with tanh as one; cross-entropy: softmax without the division. AdamW's update of one
parameter: decay 1, first moment 3, second moment 4, both corrections 2, root, epsilon,
quotient, rate and difference 5."""

_ROUNDS = 7
STREAMS = ("read", "in place", "copy")
"""The probes of the memory roof."""


@dataclass(frozen=True)
class Operation:
    """A call, the bytes that it moves, its FLOP, and where that number comes from.

    `footprint` is the distinct bytes that it touches: what a cache would have to hold.
    """

    name: str
    shape: str
    call: Callable[[], Any]
    traffic: float
    footprint: float
    flops: float
    source: str
    samples: list[float] = field(default_factory=list)


def measure_roofline(
    device: str | Device | None = None,
    model_name: str | None = None,
    dtype: str | None = None,
    *,
    seconds: float = 30.0,
    training: bool = False,
) -> RooflineMeasurement:
    """Time the operations of one block of GPT-2, and the roofs above them.

    With `training` also what only a training step has: the gradients of a layer's product,
    cross-entropy, and the optimizer's update.

    `model_name` defaults to gpt2-124m on CUDA and nano elsewhere; `dtype` (fp32, bf16,
    fp16) to bf16, or fp16 where that is emulated, on CUDA, and fp32 elsewhere. `seconds`
    is about how long it may take. Raises `InputError` for a dtype that does not run here.
    """
    here = find(device)
    budget = number("seconds", seconds, low=0.2, high=600.0, unit="s")
    shape = model(model_name or ("gpt2-124m" if here.type == "cuda" else "nano"))
    chosen = dtype or usual_dtype(here)
    why = obstacle(here.torch_device, choice("dtype", chosen, DTYPES))
    if why:
        raise InputError("dtype", chosen, "a format that this device computes in", why)
    busy = timing.processor_share() if here.type == "cpu" else None
    with (timing.on(here.torch_device), torch.inference_mode(),
          matmul.exact_float32_products(here.torch_device) as mode):
        probes = _probes(here, DTYPES[chosen])
        todo = operations(shape, here, DTYPES[chosen])
        if training:
            todo += training_operations(shape, here, DTYPES[chosen])
        everything = [*probes, *todo]
        share = budget / _ROUNDS / len(everything)
        for _ in range(_ROUNDS):
            for one in everything:
                # A ceiling wants many tries, a median only a fair few.
                most = 20 if one in probes else 5
                one.samples.extend(timing.sample(one.call, here.torch_device, seconds=share,
                                                 least=1, most=most))
    cache = _cache_bytes(here)
    kernels = [_timed(one, cache) for one in todo]
    streams = {p.name: p for p in probes if p.name in STREAMS}
    bandwidths = {name: p.traffic / min(p.samples) for name, p in streams.items()}
    widest = max(bandwidths, key=lambda name: bandwidths[name])
    products = [one for one in everything if one.source.startswith("counted")]
    best = max(products, key=lambda one: one.flops / min(one.samples))
    return RooflineMeasurement(
        device=here.name, device_type=here.type, threads=here.threads, model=shape.name,
        dtype=chosen, bytes_per_value=float(DTYPES[chosen].itemsize),
        peak_flops_per_second=best.flops / min(best.samples),
        peak_source=f"best sample of any product: {best.name}, {best.shape}",
        bytes_per_second=bandwidths[widest], bandwidths=bandwidths, kernels=kernels,
        bytes_source=f"best sample of any stream: {widest}, {streams[widest].shape}",
        stream_samples={name: p.samples for name, p in streams.items()},
        versions=calibration.versions(here),
        measured_on=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        notes={**host.circumstances(here.threads, busy),
               "float32_matmul": mode,
               "traffic": "Stated: inputs read once, outputs written once. A kernel that reads "
                          "more than that shows a lower rate, never a higher one.",
               **_cache_note(cache, kernels)})


def operations(shape: Shape, here: Device, dtype: torch.dtype) -> list[Operation]:
    """The operations of one block and of the head, at sizes that fit this device.

    Rows are as many as it takes to leave the last cache behind, and on an accelerator at
    least 8 sequences of the whole context. Attention has no causal mask here, so that both forms
    compute all S x S scores and can be compared.
    """
    make = _Maker(here.torch_device, dtype)
    d, s = shape.width, shape.context
    heads, dh = shape.heads, shape.head_width
    spill, size = _spill_bytes(here), float(dtype.itemsize)
    least = 1 if here.type == "cpu" else 8

    def rows(bytes_per_row: float, wanted: float = spill) -> int:
        """Whole sequences of rows, so many that they come to `wanted` bytes."""
        return s * max(least, math.ceil(wanted / bytes_per_row / s))

    scores = max(least, math.ceil(0.8 * spill / (heads * s * s * size)))
    fused = rows(4 * d * size, spill / 2) // s
    return [
        make.product("QKV product", rows(4 * d * size, spill / 2), d, 3 * d),
        make.product("feed-forward product", rows(5 * d * size, spill / 2), d, 4 * d),
        make.product("head product", min(rows(shape.vocab * size), 8 * s), d, shape.vocab),
        make.vector("matrix times vector", *_vector_shape(d, spill, size)),
        make.softmax(rows(2 * heads * s * size) * heads, s),
        make.layer_norm(rows(2 * d * size), d),
        make.gelu(rows(8 * d * size), 4 * d),
        make.materialised(scores, heads, s, dh),
        make.fused(fused, heads, s, dh),
    ]


def training_operations(shape: Shape, here: Device, dtype: torch.dtype) -> list[Operation]:
    """What a training step adds: both gradients of a product, the loss, and the update."""
    make = _Maker(here.torch_device, dtype)
    d, s, spill, size = shape.width, shape.context, _spill_bytes(here), float(dtype.itemsize)
    least = 1 if here.type == "cpu" else 8
    rows = s * max(least, math.ceil(spill / 2 / (5 * d * size) / s))
    wide = s * max(least, math.ceil(spill / (3 * d * size) / s))
    logits = min(s * max(least, math.ceil(spill / (shape.vocab * size) / s)), 8 * s)
    return [
        make.input_gradient("feed-forward, gradient of x", rows, d, 4 * d),
        make.weight_gradient("feed-forward, gradient of W", rows, d, 4 * d),
        make.addition(wide, d),
        make.cross_entropy(logits, shape.vocab),
        make.adamw(math.ceil(spill / 16)),
    ]


class _Maker:
    """Makes operations on one device in one format: tensors once, then calls that reuse them."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype, self.size = device, dtype, float(dtype.itemsize)
        self._random = torch.Generator().manual_seed(0)

    def random(self, *shape: int) -> torch.Tensor:
        """Standard normal values; zeros would let a GPU clock higher than training does."""
        made = torch.empty(shape, dtype=torch.float32).normal_(generator=self._random)
        return made.to(device=self.device, dtype=self.dtype)

    def empty(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, device=self.device, dtype=self.dtype)

    def product(self, name: str, rows: int, inner: int, columns: int) -> Operation:
        """A linear layer's product: the weight is read transposed, as a layer stores it."""
        x, weight = self.random(rows, inner), self.random(columns, inner)
        out = self.empty(rows, columns)
        traffic = self.size * (x.numel() + weight.numel() + out.numel())
        return Operation(name, f"{rows} x {inner} x {columns}",
                         lambda: torch.mm(x, weight.t(), out=out), traffic, traffic,
                         counted(lambda a, b: torch.mm(a, b.t()), x, weight), "counted on meta")

    def vector(self, name: str, rows: int, columns: int) -> Operation:
        """One token through a layer, as when text is generated: each weight is used once."""
        weight, x = self.random(rows, columns), self.random(columns)
        out = self.empty(rows)
        traffic = self.size * (weight.numel() + x.numel() + out.numel())
        return Operation(name, f"{rows} x {columns}", lambda: torch.mv(weight, x, out=out),
                         traffic, traffic, 2.0 * weight.numel(), "2 FLOP per weight")

    def input_gradient(self, name: str, rows: int, inner: int, columns: int) -> Operation:
        """dy W: what a layer of `inner` inputs hands back to the layer before it."""
        dy, weight = self.random(rows, columns), self.random(columns, inner)
        return self._product(name, f"{rows} x {columns} x {inner}", dy, weight)

    def weight_gradient(self, name: str, rows: int, inner: int, columns: int) -> Operation:
        """dy^T x: the long side is summed over, and the result is as small as the weight."""
        dy, x = self.random(rows, columns), self.random(rows, inner)
        return self._product(name, f"{columns} x {rows} x {inner}", dy.t(), x)

    def _product(self, name: str, shape: str, a: torch.Tensor, b: torch.Tensor) -> Operation:
        out = self.empty(a.shape[0], b.shape[1])
        traffic = self.size * (a.numel() + b.numel() + out.numel())
        return Operation(name, shape, lambda: torch.mm(a, b, out=out), traffic, traffic,
                         counted(torch.mm, a, b), "counted on meta")

    def addition(self, rows: int, width: int) -> Operation:
        """x + f(x): the stream that every block adds to."""
        x, y, out = self.random(rows, width), self.random(rows, width), self.empty(rows, width)
        return self._element_wise("residual addition", x, lambda: torch.add(x, y, out=out),
                                  self.size * x.numel())

    def cross_entropy(self, rows: int, vocab: int) -> Operation:
        """The mean loss of `rows` rows of logits; one number comes out."""
        x = self.random(rows, vocab)
        targets = torch.zeros(rows, dtype=torch.int64, device=self.device)
        return self._element_wise("cross-entropy", x,
                                  lambda: functional.cross_entropy(x, targets),
                                  8.0 * rows + self.size * (1 - x.numel()))

    def adamw(self, parameters: int) -> Operation:
        """One fused update in float32: 16 bytes a parameter are read and 12 of them written."""
        weight = torch.zeros(parameters, device=self.device)
        weight.grad = torch.ones_like(weight)
        rule = torch.optim.AdamW([weight], lr=1e-6, fused=True)
        per_value = FLOPS_PER_VALUE["AdamW update"]
        return Operation("AdamW update", f"{parameters} parameters, float32", rule.step,
                         28.0 * parameters, 16.0 * parameters, per_value * parameters,
                         f"{per_value:g} FLOP per parameter, stated")

    def softmax(self, rows: int, columns: int) -> Operation:
        x, out = self.random(rows, columns), self.empty(rows, columns)
        return self._element_wise(
            "softmax", x, lambda: torch.ops.aten._softmax.out(x, -1, False, out=out))

    def layer_norm(self, rows: int, width: int) -> Operation:
        x, gain, shift = self.random(rows, width), self.random(width), self.random(width)
        return self._element_wise("layer norm", x, lambda: functional.layer_norm(
            x, (width,), gain, shift), 2.0 * width * self.size)

    def gelu(self, rows: int, width: int) -> Operation:
        x, out = self.random(rows, width), self.empty(rows, width)
        return self._element_wise(
            "GELU", x, lambda: torch.ops.aten.gelu.out(x, approximate="tanh", out=out))

    def _element_wise(self, name: str, x: torch.Tensor, call: Callable[[], Any],
                      besides: float = 0.0) -> Operation:
        per_value = FLOPS_PER_VALUE[name]
        traffic = 2.0 * self.size * x.numel() + besides  # no byte of it twice
        return Operation(name, " x ".join(map(str, x.shape)), call, traffic, traffic,
                         per_value * x.numel(),
                         f"{per_value:g} FLOP per value, stated")

    def materialised(self, batch: int, heads: int, seq: int, head_width: int) -> Operation:
        """softmax(q k^T / sqrt(d_head)) v in three kernels, the scores in memory between them."""
        n = batch * heads
        q, k, v = (self.random(n, seq, head_width) for _ in range(3))
        scores, weights = self.empty(n, seq, seq), self.empty(n, seq, seq)
        out = self.empty(n, seq, head_width)
        scale = 1.0 / math.sqrt(head_width)

        def call() -> torch.Tensor:
            torch.baddbmm(scores, q, k.transpose(1, 2), beta=0.0, alpha=scale, out=scores)
            torch.ops.aten._softmax.out(scores, -1, False, out=weights)
            return torch.bmm(weights, v, out=out)

        flops = counted(lambda a, b, c: torch.bmm(torch.bmm(a, b.transpose(1, 2)), c), q, k, v)
        traffic = self.size * 4.0 * n * seq * (seq + head_width)
        held = self.size * (2.0 * n * seq * seq + 4.0 * n * seq * head_width)
        return Operation("attention, materialised", f"{batch} x {heads} x {seq} x {head_width}",
                         call, traffic, held, flops, "counted on meta, products only")

    def fused(self, batch: int, heads: int, seq: int, head_width: int) -> Operation:
        """The same in one kernel, whose scores stay on the chip."""
        q, k, v = (self.random(batch, heads, seq, head_width) for _ in range(3))
        flops = counted(functional.scaled_dot_product_attention, q, k, v)
        traffic = self.size * 4.0 * q.numel()
        return Operation("attention, fused", f"{batch} x {heads} x {seq} x {head_width}",
                         lambda: functional.scaled_dot_product_attention(q, k, v),
                         traffic, traffic, flops, "counted on meta, products only")


def counted(function: Callable[..., Any], *inputs: torch.Tensor) -> float:
    """FLOP of `function` on tensors like `inputs`, by PyTorch's counter on `meta`."""
    shadows = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in inputs]
    counter = FlopCounterMode(display=False)
    with counter:
        function(*shadows)
    return float(counter.get_total_flops())


def _probes(here: Device, dtype: torch.dtype) -> list[Operation]:
    """What finds the roofs: three ways to stream through memory, and a square product."""
    make = _Maker(here.torch_device, dtype)
    values = int(_spill_bytes(here) * (1 if here.type == "cpu" else 4)) // dtype.itemsize
    source, target = make.empty(values), make.empty(values)
    moved, named = float(values) * dtype.itemsize, f"{values} values"
    side = 1024 if here.type == "cpu" else 8192
    return [
        Operation("copy", named, lambda: target.copy_(source), 2.0 * moved, 2.0 * moved, 0.0, ""),
        Operation("read", named, lambda: torch.max(source), moved, moved, 0.0, ""),
        # Written where it was read: no line is fetched only to be overwritten.
        Operation("in place", named, target.neg_, 2.0 * moved, moved, 0.0, ""),
        make.product("square product", side, side, side),
    ]


def _cache_bytes(here: Device) -> float | None:
    """The last cache before memory, None where nothing tells its size."""
    if here.type == "cpu":
        return host.last_level_cache_bytes()
    if here.type == "cuda":
        properties = torch.cuda.get_device_properties(here.torch_device)
        return float(getattr(properties, "L2_cache_size", 0)) or None
    return None


def _spill_bytes(here: Device) -> float:
    """Bytes that one operation must touch to leave the last cache behind."""
    if here.type != "cpu":
        return 256 * MIB
    # A cache that does not simply drop the oldest line still helps at two or three times its
    # size, most of all an update in place, and would pass for memory.
    cache = _cache_bytes(here) or 32 * MIB
    memory = here.memory_bytes or 2048 * MIB
    return min(max(4 * cache, 64 * MIB), memory / 24, 192 * MIB)


def _vector_shape(width: int, spill: float, size: float) -> tuple[int, int]:
    """A feed-forward matrix, or as many stacked as it takes to leave the cache."""
    columns = 4 * width
    return max(width, math.ceil(spill / size / columns)), columns


def _timed(one: Operation, cache: float | None) -> KernelTiming:
    return KernelTiming(
        name=one.name, shape=one.shape, flops=one.flops, flops_source=one.source,
        traffic_bytes=one.traffic, footprint_bytes=one.footprint,
        seconds=timing.spread(one.samples).median, samples=one.samples,
        cache_resident=cache is not None and one.footprint <= cache)


def _cache_note(cache: float | None, kernels: list[KernelTiming]) -> dict[str, str]:
    small = [k.name for k in kernels if k.cache_resident]
    if not small:
        return {}
    return {"cache": f"The last cache ({memory(cache or 0)}) could hold "
                     + ", ".join(small) + ": they may pass the roof of main memory."}
