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

import math

from ..errors import InputError, choice, number
from ..results import KernelTiming, RooflineMeasurement
from ..transformer import Shape, model
from ..units import MIB, memory
from . import host, matmul, timing
from ._torch import torch
from .device import DTYPES, Device, find, obstacle, usual_dtype
from .kernels import Maker, Operation, Plan, build
from .origin import origin

_ROUNDS = 7
STREAMS = ("read", "in place", "copy")
"""The probes of the memory roof."""


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
        todo = operations(shape, here, DTYPES[chosen], training=training)
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
        **origin(here), model=shape.name, dtype=chosen,
        bytes_per_value=float(DTYPES[chosen].itemsize),
        peak_flops_per_second=best.flops / min(best.samples),
        peak_source=f"best sample of any product: {best.name}, {best.shape}",
        bytes_per_second=bandwidths[widest], bandwidths=bandwidths, kernels=kernels,
        bytes_source=f"best sample of any stream: {widest}, {streams[widest].shape}",
        stream_samples={name: p.samples for name, p in streams.items()},
        notes={**host.circumstances(here.threads, busy),
               "float32_matmul": mode,
               "traffic": "Stated: inputs read once, outputs written once. A kernel that reads "
                          "more than that shows a lower rate, never a higher one.",
               **_cache_note(cache, kernels)})


def operations(shape: Shape, here: Device, dtype: torch.dtype, *,
               training: bool = False) -> list[Operation]:
    """The operations of one block and of the head, at sizes that fit this device.

    Rows are as many as it takes to leave the last cache behind, and on an accelerator at
    least 8 sequences of the whole context. Attention has no causal mask here, so that both forms
    compute all S x S scores and can be compared. `training` adds what only a step has.
    """
    plans = _forward(shape, here, float(dtype.itemsize))
    if training:
        plans += _training(shape, here, float(dtype.itemsize))
    return build(here.torch_device, dtype, plans)


def _forward(shape: Shape, here: Device, size: float) -> list[Plan]:
    d, s = shape.width, shape.context
    heads, dh = shape.heads, shape.head_width
    spill = _spill_bytes(here)
    least = 1 if here.type == "cpu" else 8

    def rows(bytes_per_row: float, wanted: float = spill) -> int:
        """Whole sequences of rows, so many that they come to `wanted` bytes."""
        return s * max(least, math.ceil(wanted / bytes_per_row / s))

    scores = max(least, math.ceil(0.8 * spill / (heads * s * s * size)))
    fused = rows(4 * d * size, spill / 2) // s
    return [
        lambda make: make.product("QKV product", rows(4 * d * size, spill / 2), d, 3 * d),
        lambda make: make.product("feed-forward product", rows(5 * d * size, spill / 2), d, 4 * d),
        lambda make: make.product("head product", min(rows(shape.vocab * size), 8 * s), d,
                                  shape.vocab),
        lambda make: make.vector("matrix times vector", *_vector_shape(d, spill, size)),
        lambda make: make.softmax(rows(2 * heads * s * size) * heads, s),
        lambda make: make.layer_norm(rows(2 * d * size), d),
        lambda make: make.gelu(rows(8 * d * size), 4 * d),
        lambda make: make.materialised(scores, heads, s, dh),
        lambda make: make.fused(fused, heads, s, dh),
    ]


def _training(shape: Shape, here: Device, size: float) -> list[Plan]:
    """What a training step adds: both gradients of a product, the loss, and the update."""
    d, s, spill = shape.width, shape.context, _spill_bytes(here)
    least = 1 if here.type == "cpu" else 8
    rows = s * max(least, math.ceil(spill / 2 / (5 * d * size) / s))
    wide = s * max(least, math.ceil(spill / (3 * d * size) / s))
    logits = min(s * max(least, math.ceil(spill / (shape.vocab * size) / s)), 8 * s)
    return [
        lambda make: make.input_gradient("feed-forward, gradient of x", rows, d, 4 * d),
        lambda make: make.weight_gradient("feed-forward, gradient of W", rows, d, 4 * d),
        lambda make: make.addition(wide, d),
        lambda make: make.cross_entropy(logits, shape.vocab),
        lambda make: make.adamw(math.ceil(spill / 16)),
    ]


def _probes(here: Device, dtype: torch.dtype) -> list[Operation]:
    """What finds the roofs: three ways to stream through memory, and a square product."""
    make = Maker(here.torch_device, dtype)
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
