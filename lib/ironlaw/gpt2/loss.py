"""The loss in slices: the head, cross-entropy and both their gradients, a few rows at a time.

The logits of a step are its largest tensor: B S rows of V numbers. Written the usual way
they exist three times at the fullest moment (themselves, their log-softmax, their
gradient), and every pass over them is a pass over main memory. But the gradient of
cross-entropy needs nothing from later on: it is softmax(logits) minus one at the target, known
as soon as a row's logits are. So each slice of rows goes all the way at once, in one
buffer that every slice uses again:

    logits -> exp(logits - max) -> loss of the rows
                                -> their part of dx = p W and of dW = p^T x

What stays for backward is dx and dW, each as large as its tensor and no larger. Unlike
recomputation this computes nothing twice.

Source: the identity is textbook; doing it in the forward pass follows Hsu et al. 2024,
"Liger Kernel: Efficient Triton Kernels for LLM Training".
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .precision import no_autocast

IGNORED = -100
"""A target of this value is not predicted and does not count in the loss."""


def summed_in_slices(x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor,
                     rows: int) -> Tensor:
    """Cross-entropy in nats of softmax(x weight^T + bias), summed over `targets`: a scalar.

    `x` [N, d], `weight` [V, d], `bias` [V] or None (it gets no gradient), `targets` [N], of
    which those equal to `IGNORED` do not count. At most `rows` rows of logits exist at a time.
    Products run in autocast's format where it is on; the rest is float32. Gradients are
    computed at once and can be asked for once only.
    """
    kind, compute = x.device.type, x.dtype
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        compute = torch.get_autocast_dtype(kind)
    with no_autocast(kind):  # formats are spelled out below
        result: Tensor = _Slices.apply(x, weight, bias, targets, rows, compute,
                                       torch.is_grad_enabled())
    return result


class _Slices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor,
                rows: int, compute: torch.dtype, with_gradients: bool) -> Tensor:
        wanted = with_gradients and any(ctx.needs_input_grad[:2])
        shrink = _shrink(x) if wanted and compute == torch.float16 else None
        total, dx, dw = _sliced(x, weight, bias, targets, rows, compute, wanted, shrink)
        # Kept as they are rather than saved: backward then owns them and can scale them where
        # they lie, and autograd can add the embedding's gradient to dw without a copy.
        ctx.gradients, ctx.x_dtype, ctx.shrink = (dx, dw), x.dtype, shrink
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("The gradient of a loss in slices can be asked for once only: "
                               "compute the loss again, or take it whole (loss_rows 0).")
        (dx, dw), ctx.gradients = ctx.gradients, None
        if dx is None or dw is None:
            return (None,) * 7
        grown = upstream if ctx.shrink is None else upstream.float() / ctx.shrink
        return (dx.to(ctx.x_dtype).mul_(upstream), dw.mul_(grown), None, None, None, None, None)


def _shrink(x: Tensor) -> Tensor:
    """A power of two, at most 1, by which `x` is multiplied before it goes into dW = p^T x.

    The loss is a sum here and becomes a mean only upstream, so dW can grow to N times the
    largest |x| (|p| is at most 1), and float16 ends at 65,504. With this factor every sum
    stays below half of that. A power of two only shifts exponents: no digit is lost, and
    backward divides by it in float32. A tensor, so that nothing waits for the device.
    """
    most = torch.finfo(torch.float16).max / (2 * len(x))
    highest = torch.linalg.vector_norm(x.detach(), math.inf).float()
    return torch.exp2(torch.floor(torch.log2(most / highest))).clamp(max=1.0)


def _sliced(x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, rows: int,
            compute: torch.dtype, wanted: bool,
            shrink: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The summed loss, and its gradients for `x` (in `compute`) and `weight` when `wanted`.

    The gradient of `weight` comes times `shrink`, where there is one.
    """
    xs, ws = x.to(compute), weight.to(compute)
    narrow = compute.itemsize < 4
    buffer = x.new_empty((min(rows, len(x)), len(weight)), dtype=compute)
    total = x.new_zeros((), dtype=torch.float32)
    dx = torch.empty_like(xs) if wanted else None
    dw = torch.empty_like(weight) if wanted else None
    for first in range(0, len(x), rows):
        part = slice(first, min(first + rows, len(x)))
        inputs, counts = xs[part], targets[part] != IGNORED
        places = targets[part].clamp(min=0).unsqueeze(1)  # an ignored one may be any
        product = torch.mm(inputs, ws.t(), out=buffer[:len(inputs)])
        logits = product.float() if narrow else product
        if bias is not None:
            logits += bias
        highest = logits.amax(-1, keepdim=True)
        right = logits.gather(1, places)
        logits.sub_(highest).exp_()
        sums = logits.sum(-1, keepdim=True)
        losses = sums.log().add_(highest).sub_(right).squeeze(1)
        total += losses.masked_fill_(~counts, 0.0).sum()
        if dx is None or dw is None:
            continue
        # p - 1 at the target, still times `sums`: dividing [rows, d] numbers by them is
        # cheaper than dividing [rows, V]. In 16 bit a copy is due anyway.
        logits.scatter_add_(1, places, -sums)
        share = counts.unsqueeze(1) / sums
        if narrow:
            slopes = torch.mul(logits, share, out=product)
            del logits
            torch.mm(slopes, ws, out=dx[part])
        else:
            slopes = logits
            torch.mm(slopes, ws, out=dx[part]).mul_(share)
            inputs = inputs * share
        if shrink is not None:
            inputs = (inputs * shrink).to(compute)
        if dw.dtype != compute:
            _put(dw, torch.mm(slopes.t(), inputs), first == 0)
        elif first == 0:
            torch.mm(slopes.t(), inputs, out=dw)
        else:
            torch.addmm(dw, slopes.t(), inputs, out=dw)
    return total, dx, dw


def _put(target: Tensor, value: Tensor, new: bool) -> None:
    """Copy or add `value` to `target`, which may be of another format."""
    if new:
        target.copy_(value)
    else:
        target += value
