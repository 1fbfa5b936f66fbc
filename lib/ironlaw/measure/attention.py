"""Three ways to compute the same attention: what each takes in time and in memory, by length.

"materialised" writes the S x S scores to memory, as the model's own switch does; "fused" is
PyTorch's scaled_dot_product_attention, which picks the device's best kernel; "tiled" is the
version to read in `gpt2.tiled_attention`. All are causal. They take turns at each length,
and each is held against float64, its output and its gradients.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from torch.nn import functional

from ..errors import InputError, choice, count, number
from ..gpt2.tiled_attention import tiled_attention
from ..results_instruments import AttentionError, AttentionMeasurement, AttentionTiming
from ..units import memory
from . import host, matmul, timing
from ._torch import torch
from .device import DTYPES, Device, find, obstacle, usual_dtype
from .ledger import Ledger
from .origin import origin, refusal, relative_error, saved_bytes
from .step import own_random_state

Inputs: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Method: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

METHODS = ("materialised", "fused", "tiled")
LENGTHS = {"cpu": (128, 256, 512, 1024), "mps": (256, 512, 1024, 2048),
           "cuda": (512, 1024, 2048, 4096, 8192, 16384)}
_ROUNDS = 3
_ERROR_LENGTH = 256


def measure_attention(
    lengths: Sequence[int] | None = None,
    *,
    batch: int = 1,
    heads: int = 4,
    head_width: int = 64,
    tile: int = 128,
    dtype: str | None = None,
    device: str | Device | None = None,
    seconds: float = 30.0,
) -> AttentionMeasurement:
    """Time and memory of each method at each of `lengths`, and errors in float32.

    `dtype` (fp32, bf16, fp16) defaults to bf16 on CUDA where it is native, else fp16 there,
    and fp32 elsewhere. `seconds` is about how long all of it takes. A length at which the
    scores would take more than an eighth of the memory is left out, with the reason.
    """
    here = find(device)
    target = here.torch_device
    budget = number("seconds", seconds, low=0.1, high=3600.0, unit="s")
    for name, value in (("batch", batch), ("heads", heads), ("head_width", head_width),
                        ("tile", tile)):
        count(name, value)
    wanted = sorted({count("lengths", n) for n in (lengths or LENGTHS[here.type])})
    chosen = choice("dtype", dtype or usual_dtype(here), DTYPES)
    why = obstacle(target, chosen)
    if why:
        raise InputError("dtype", chosen, "a format that this device computes in", why)
    share = timing.processor_share() if here.type == "cpu" else None
    reasons: dict[str, str] = {}
    methods = ways(tile)
    found: list[AttentionTiming] = []
    # PyTorch's default: a CPU's fused kernel is several times slower under "medium", and on
    # CUDA "high" would turn FP32 into TF32.
    with timing.on(target), own_random_state(target), matmul.float32_mode("highest"):
        errors = _errors(methods, batch, heads, head_width, min(wanted[-1], _ERROR_LENGTH), here,
                         reasons)
        # The longer, the slower: time is shared out in proportion to S^2.
        weight = budget / sum(n * n for n in wanted)
        for n in wanted:
            shape = (batch, heads, n, head_width)
            runnable = dict(methods)
            # In forward and backward three matrices of scores exist at once, one in float32.
            needed = 12.0 * batch * heads * n * n
            if here.memory_bytes is not None and needed > here.memory_bytes / 8:
                del runnable["materialised"]
                reasons[f"materialised at {n}"] = (
                    f"Its scores would take {memory(needed)}, more than an eighth of memory.")
            found += _at_length(runnable, shape, DTYPES[chosen], target, weight * n * n, reasons)
    notes = {**host.circumstances(here.threads, share), "float32_matmul": "highest",
             "peak_bytes": "CUDA's allocator." if here.type == "cuda" else
             "Storage that PyTorch's operations hold; what a kernel keeps inside is not seen."}
    return AttentionMeasurement(
        **origin(here), batch=batch, heads=heads, head_width=head_width, dtype=chosen, tile=tile,
        timings=found, errors=errors, reasons=reasons, notes=notes)


def ways(tile: int) -> dict[str, Method]:
    """The three methods by name, each a causal attention of q, k, v [B, H, S, D]."""
    return {
        "materialised": materialised,
        "fused": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        "tiled": lambda q, k, v: tiled_attention(q, k, v, causal=True, tile=tile),
    }


def materialised(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention with all S x S scores in memory; softmax in float32 or wider."""
    scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    length = q.shape[-2]
    scores = scores + torch.full((length, length), -math.inf, device=q.device,
                                 dtype=q.dtype).triu(1)
    wide = torch.promote_types(q.dtype, torch.float32)
    return torch.softmax(scores, dim=-1, dtype=wide).to(v.dtype) @ v


def _inputs(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> list[torch.Tensor]:
    """q, k, v and the gradient of the output, standard normal, the same on every device."""
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(*shape, generator=generator).to(device=device, dtype=dtype)
             for _ in range(4)]
    for tensor in drawn[:3]:
        tensor.requires_grad_()
    return drawn


def _errors(methods: dict[str, Method], batch: int, heads: int, width: int, length: int,
            here: Device, reasons: dict[str, str]) -> list[AttentionError]:
    """Each method in float32 against the formula in float64 on the CPU."""
    shape = (batch, heads, length, width)
    exact = _inputs(shape, torch.float32, torch.device("cpu"))
    wide = [t.detach().double().requires_grad_() for t in exact[:3]]
    wanted = materialised(*wide)
    wanted_gradients = torch.autograd.grad(wanted, wide, exact[3].double())
    found = []
    for name, method in methods.items():
        q, k, v, above = _inputs(shape, torch.float32, here.torch_device)
        try:
            out = method(q, k, v)
            gradients = torch.autograd.grad(out, (q, k, v), above)
        except RuntimeError as problem:
            reasons[f"errors.{name}"] = refusal(problem)
            continue
        found.append(AttentionError(
            method=name, seq=length, output=relative_error([out], [wanted]),
            gradients={label: relative_error([g], [w]) for label, g, w in
                       zip("qkv", gradients, wanted_gradients, strict=True)}))
    return found


def _at_length(methods: dict[str, Method], shape: tuple[int, ...], dtype: torch.dtype,
               device: torch.device, seconds: float,
               reasons: dict[str, str]) -> list[AttentionTiming]:
    q, k, v, above = _inputs(shape, dtype, device)
    forward: dict[str, list[float]] = {}
    both: dict[str, list[float]] = {}
    sizes: dict[str, tuple[float, float]] = {}

    def once(method: Method) -> None:
        torch.autograd.grad(method(q, k, v), (q, k, v), above)

    for name, method in methods.items():
        try:
            sizes[name] = (saved_bytes(partial(method, q, k, v)),
                           _peak_beyond(partial(once, method), (q, k, v, above), device))
            forward[name], both[name] = [], []
        except RuntimeError as problem:  # out of memory, or a kernel that is missing
            reasons[f"{name} at {shape[-2]}"] = refusal(problem)
            _release(device)
    share = max(1e-3, seconds / _ROUNDS / max(1, 2 * len(sizes)))
    for _ in range(_ROUNDS):
        for name in sizes:
            method = methods[name]
            with torch.no_grad():
                forward[name] += timing.sample(partial(method, q, k, v), device, seconds=share,
                                               least=1, most=10)
            both[name] += timing.sample(partial(once, method), device, seconds=share,
                                        least=1, most=10)
    return [AttentionTiming(
        method=name, seq=shape[-2], samples=forward[name],
        seconds=timing.spread(forward[name]).median, both_samples=both[name],
        both_seconds=timing.spread(both[name]).median, saved_bytes=saved, peak_bytes=peak)
        for name, (saved, peak) in sizes.items()]


def _peak_beyond(call: Callable[[], None], inputs: Sequence[torch.Tensor],
                 device: torch.device) -> float:
    """The most bytes held at once while `call` runs, `inputs` not counted."""
    if device.type == "cuda":
        call()  # workspaces of libraries come with the first call and stay
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return float(torch.cuda.max_memory_allocated(device) - before)
    ledger = Ledger()
    ledger.hold(inputs, "parameters")
    with ledger:
        call()
    return ledger.peak()[1] - sum(float(t.untyped_storage().nbytes()) for t in inputs)


def _release(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
