"""The operations of a transformer one by one: calls, with the work and the traffic of each.

Traffic is stated, not measured: each input read once, each output written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from ._torch import torch

FLOPS_PER_VALUE = {"softmax": 5.0, "layer norm": 8.0, "GELU": 9.0, "residual addition": 1.0,
                   "cross-entropy": 4.0, "AdamW update": 15.0}
"""Element-wise work by the stated formulas: softmax compares, subtracts, takes exp, adds,
divides; layer norm: mean 1, variance 3, normalise 2, scale and shift 2; GELU in its tanh
form: 9 with tanh as one; cross-entropy: softmax without the division. AdamW's update of one
parameter: decay 1, first moment 3, second moment 4, both corrections 2, root, epsilon,
quotient, rate and difference 5."""

_ALIGNED_VALUES = 64
"""A multiple of a cache line in every format."""


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


class Maker:
    """Makes operations on one device in one format: tensors once, then calls that reuse them.

    `inputs` and `outputs` are one-dimensional tensors from which every operand is cut, the
    first read and never written; left out, each operand has memory of its own. `used` says
    how many values of each were asked for.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype,
                 inputs: torch.Tensor | None = None,
                 outputs: torch.Tensor | None = None) -> None:
        self.device, self.dtype, self.size = device, dtype, float(dtype.itemsize)
        self._memory = {"inputs": inputs, "outputs": outputs}
        self.used = dict.fromkeys(self._memory, 0)
        self._random = torch.Generator().manual_seed(0)

    def random(self, *shape: int) -> torch.Tensor:
        """Standard normal values; zeros would let a GPU clock higher than training does."""
        shared = self._cut("inputs", shape)
        if shared is not None:
            return shared
        if self.device.type == "meta":  # has sizes and no values
            return torch.empty(shape, device=self.device, dtype=self.dtype)
        made = torch.empty(shape, dtype=torch.float32).normal_(generator=self._random)
        return made.to(device=self.device, dtype=self.dtype)

    def empty(self, *shape: int) -> torch.Tensor:
        """A place for a result."""
        shared = self._cut("outputs", shape)
        if shared is not None:
            return shared
        return torch.zeros(shape, device=self.device, dtype=self.dtype)

    def _cut(self, which: str, shape: tuple[int, ...]) -> torch.Tensor | None:
        start, values = self.used[which], math.prod(shape)
        # Every operand starts where an allocation of its own would: at whole cache lines.
        self.used[which] = start + math.ceil(values / _ALIGNED_VALUES) * _ALIGNED_VALUES
        memory = self._memory[which]
        return None if memory is None else memory[start:start + values].view(shape)

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


Plan: TypeAlias = Callable[[Maker], Operation]


def build(device: torch.device, dtype: torch.dtype, plans: Sequence[Plan]) -> list[Operation]:
    """The planned operations, which take turns in one and the same memory.

    Side by side they would need several times the memory of the largest, more than a small
    machine has. Sharing it favours none: each touches several last caches' worth of bytes, and
    what it finds cached is what a repetition of its own would have left. They are planned on
    `meta` first, to learn how much the largest needs. What an operation allocates by itself,
    its result where PyTorch offers no place for it, comes on top.
    """
    most = {"inputs": 0, "outputs": 0}
    for plan in plans:
        sizes = Maker(torch.device("meta"), dtype)
        plan(sizes)
        most = {which: max(values, sizes.used[which]) for which, values in most.items()}
    whole = Maker(device, dtype)
    inputs, outputs = whole.random(most["inputs"]), whole.empty(most["outputs"])
    return [plan(Maker(device, dtype, inputs, outputs)) for plan in plans]


def counted(function: Callable[..., Any], *inputs: torch.Tensor) -> float:
    """FLOP of `function` on tensors like `inputs`, by PyTorch's counter on `meta`."""
    shadows = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in inputs]
    counter = FlopCounterMode(display=False)
    with counter:
        function(*shadows)
    return float(counter.get_total_flops())
