"""The fastest matrix product that this device does, per number format.

This is the peak that an MFU divides by, so it must be a ceiling: no training step on
the same device may beat it. Hence the best of many samples (noise only ever lowers a
rate), over squares of growing side *and* over GPT-2's own shapes, with the right-hand
matrix both as it lies and transposed, which is how a linear layer reads its weights.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import choice, positive
from . import timing
from ._torch import torch

DTYPES = ("fp32", "tf32", "bf16", "fp16")
MODES = ("highest", "high", "medium")

CPU_SIDES = (256, 512, 1024, 2048, 4096)
GPU_SIDES = (512, 1024, 2048, 4096, 8192, 16384)
# (rows, inner, columns): tokens x width x feed-forward and back, for nano, 124M and 1558M.
GPT2_PRODUCTS = ((2048, 128, 512), (2048, 512, 128), (1024, 768, 3072), (1024, 3072, 768),
                 (2048, 1600, 6400))
# With exact FP32 a product of this side differs from FP64 by about 3e-7; TF32 and BF16
# keep 10 and 7 bits of mantissa and are off by 1e-4 and more.
_PROBE_SIDE = 512
_EXACT_BELOW = 1e-5


@dataclass(frozen=True)
class Product:
    """An (m x k) by (k x n) matrix product."""

    m: int
    k: int
    n: int

    @property
    def flops(self) -> float:
        """2 m k n: one multiply and one add per term."""
        return 2.0 * self.m * self.k * self.n

    @property
    def elements(self) -> int:
        """Numbers held while it runs, both operands and the result."""
        return self.m * self.k + self.k * self.n + self.m * self.n

    @property
    def name(self) -> str:
        """The side of a square, or m x k x n."""
        square = self.m == self.k == self.n
        return str(self.m) if square else f"{self.m}x{self.k}x{self.n}"


@dataclass(frozen=True)
class Sweep:
    """FLOP/s by product name, and the seconds of each try; `skipped` says why one is missing."""

    rates: dict[str, float]
    skipped: dict[str, str]
    samples: dict[str, list[float]] = field(default_factory=dict)


def products(device: torch.device, sides: tuple[int, ...] | None = None) -> list[Product]:
    """Squares and GPT-2's shapes, the cheapest first so that a slow format stops early."""
    chosen = sides or (CPU_SIDES if device.type == "cpu" else GPU_SIDES)
    found = [Product(n, n, n) for n in chosen] + [Product(*p) for p in GPT2_PRODUCTS]
    return sorted(found, key=lambda p: p.flops)


def sweep(
    device: torch.device,
    dtype: str,
    *,
    seconds: float,
    memory_bytes: float | None = None,
    mode: str = "highest",
    wanted: list[Product] | None = None,
) -> Sweep:
    """Rates of `dtype` products, for about `seconds` in total.

    `mode` is PyTorch's float32 matmul precision while FP32 runs ("tf32" sets its
    own). A product that one eighth of `memory_bytes` cannot hold, or that would
    overrun the time left at the rate seen so far, is skipped and named.
    """
    choice("dtype", dtype, DTYPES)
    positive("seconds", seconds)
    todo = products(device) if wanted is None else wanted
    number = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16,
              "fp16": torch.float16}[dtype]
    rates: dict[str, float] = {}
    skipped: dict[str, str] = {}
    samples: dict[str, list[float]] = {}
    latest = 0.0
    ends = time.perf_counter() + seconds
    with float32_mode("high" if dtype == "tf32" else mode), torch.no_grad():
        for position, product in enumerate(todo):
            left = ends - time.perf_counter()
            # Warm-up, trial and three samples of each layout, at the rate of the product
            # before: on a busy machine the best rate would promise too much.
            need = 10 * product.flops / latest if rates else 0.0
            held = product.elements * number.itemsize
            if memory_bytes is not None and held > memory_bytes / 8:
                skipped[product.name] = "its matrices would take more than an eighth of memory"
            elif rates and need > left:
                skipped[product.name] = "it would not end within the time allowed"
            else:
                share = max(0.01, left / (len(todo) - position))
                try:
                    samples[product.name] = _samples(product, number, device, share)
                    latest = rates[product.name] = product.flops / min(samples[product.name])
                except RuntimeError as problem:
                    if "out of memory" not in str(problem):
                        raise
                    skipped[product.name] = "the device ran out of memory"
    return Sweep(rates, skipped, samples)


def float32_is_exact(device: torch.device) -> bool:
    """Whether FP32 matrix products are computed in FP32 here, under the present settings.

    Decided by a product against FP64 on the CPU, not by reading settings: what
    "medium" means differs from processor to processor.
    """
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(_PROBE_SIDE, _PROBE_SIDE, generator=generator)
    b = torch.randn(_PROBE_SIDE, _PROBE_SIDE, generator=generator)
    exact = a.double() @ b.double()
    got = (a.to(device) @ b.to(device)).cpu().double()
    return bool((got - exact).norm() / exact.norm() < _EXACT_BELOW)


@contextlib.contextmanager
def float32_mode(mode: str) -> Iterator[None]:
    """PyTorch's float32 matmul precision set to `mode`, and put back afterwards."""
    choice("mode", mode, MODES)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(mode)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def exact_float32_products(device: torch.device) -> Iterator[str]:
    """The faster library for FP32 products on a CPU, if it is as exact; yields its mode.

    PyTorch's precision "medium" sends them to oneDNN, which is often quicker. On some
    processors it then rounds to BF16: a probe decides, and "highest" stays in that case.
    Nothing is changed on an accelerator, where "fp32" shall mean FP32.
    """
    if device.type != "cpu":
        yield torch.get_float32_matmul_precision()
        return
    with float32_mode("medium"):
        mode = "medium" if float32_is_exact(device) else "highest"
    with float32_mode(mode):
        yield mode


def _samples(product: Product, number: torch.dtype, device: torch.device,
             seconds: float) -> list[float]:
    """Seconds per product, first with the right-hand matrix as it lies, then transposed."""
    # Random contents: a GPU draws less power on zeros and then clocks higher than in training.
    left = torch.randn(product.m, product.k, device=device).to(number)
    right = torch.randn(product.k, product.n, device=device).to(number)
    turned = right.t().contiguous().t()
    # Written to a buffer that exists: on a CPU, fresh memory costs more than the product.
    result = torch.empty(product.m, product.n, device=device, dtype=number)
    shortest = 10e-3 if device.type != "cpu" else 2e-3
    found: list[float] = []
    for operand in (right, turned):
        def call(operand: torch.Tensor = operand) -> None:
            torch.mm(left, operand, out=result)

        found += timing.sample(call, device, seconds=seconds / 2, shortest=shortest)
    return found
