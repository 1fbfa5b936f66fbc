"""The loss in slices: the same numbers, fewer bytes, nothing twice, gradients once."""

from __future__ import annotations

import pytest
import torch
from ironlaw.gpt2.loss import IGNORED, summed_in_slices
from ironlaw.gpt2.model import GPT
from ironlaw.transformer import Shape
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

ROWS, WIDTH, VOCAB = 60, 16, 97


def drawn(scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = scale * torch.randn(ROWS, WIDTH, generator=generator)
    weight = torch.randn(VOCAB, WIDTH, generator=generator)
    targets = torch.randint(VOCAB, (ROWS,), generator=generator)
    targets[::7] = IGNORED
    return x.requires_grad_(), weight.requires_grad_(), targets


def whole(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(functional.linear(x, weight).float(), targets,
                                    ignore_index=IGNORED, reduction="sum")


@pytest.mark.parametrize("rows", [1, 7, 60, 1000])
@pytest.mark.parametrize("scale", [1.0, 40.0])  # logits in the hundreds: exp alone overflows
def test_loss_and_gradients_are_those_of_cross_entropy(rows: int, scale: float) -> None:
    results = []
    for function in (lambda *given: summed_in_slices(*given[:2], None, given[2], rows), whole):
        x, weight, targets = drawn(scale)
        loss = function(x, weight, targets)
        (loss * 0.25).backward()
        results.append((loss, x.grad, weight.grad))
    for ours, theirs in zip(*results, strict=True):
        assert ours is not None
        assert theirs is not None
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-4 * scale)
    assert not results[0][1][::7].any()  # type: ignore[index]  # no gradient from ignored rows


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_products_run_in_16_bit_and_the_loss_in_32(dtype: torch.dtype) -> None:
    x, weight, targets = drawn()
    with torch.autocast("cpu", dtype=dtype):
        loss = summed_in_slices(x, weight, None, targets, 16)
        usual = whole(*(t.detach().requires_grad_() for t in (x, weight)), targets)
    loss.backward()
    assert loss.dtype == torch.float32
    assert x.grad is not None
    assert weight.grad is not None
    assert x.grad.dtype == weight.grad.dtype == torch.float32
    assert loss.item() == pytest.approx(usual.item(), rel=0.01)
    a, b, _ = drawn()
    whole(a, b, targets).backward()
    for ours, exact in ((x.grad, a.grad), (weight.grad, b.grad)):
        assert exact is not None
        assert (ours - exact).norm() < 0.03 * exact.norm()


def test_a_gradient_is_given_once() -> None:
    x, weight, targets = drawn()
    loss = summed_in_slices(x, weight, None, targets, 16)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute the loss again"):
        loss.backward()


def test_without_any_target_nothing_is_learnt() -> None:
    model = GPT(Shape("some", 1, 16, 2, 16, 50), loss_rows=5)
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    loss = model.loss(tokens, torch.full_like(tokens, IGNORED))
    loss.backward()
    assert loss.item() == 0.0
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)


class Largest(TorchDispatchMode):
    """Notes the largest result of any operation."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return result


def test_no_tensor_is_larger_than_a_slice_and_the_head_runs_once() -> None:
    tokens = torch.randint(2000, (2, 64))
    largest, work = {}, {}
    for rows in (0, 16):
        torch.manual_seed(0)
        model = GPT(Shape("some", 1, 16, 2, 64, 2000), loss_rows=rows)
        counter = FlopCounterMode(display=False)
        with Largest() as watch, counter:
            model.loss(tokens, tokens).backward()
        largest[rows], work[rows] = watch.bytes, counter.get_total_flops()
    assert largest[0] >= 4 * 128 * 2000
    assert largest[16] == max(4 * 16 * 2000, 4 * 2000 * 16)  # a slice; the embedding's gradient
    assert work[16] == work[0]


def test_evaluation_makes_no_gradients() -> None:
    x, weight, targets = drawn()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        loss = summed_in_slices(x, weight, None, targets, 16)
    assert not loss.requires_grad
    assert counter.get_total_flops() == 2 * ROWS * WIDTH * VOCAB  # one product, not three


@pytest.mark.parametrize("rows", [64, 16384])
@pytest.mark.parametrize("half", ["autocast", "weights"])
def test_in_float16_one_word_that_is_every_target_does_not_overflow(rows: int, half: str) -> None:
    """Every row pulls one row of dW the same way: 16,384 inputs near 10 add up to 160,000."""
    generator = torch.Generator().manual_seed(0)
    x = 10.0 + torch.randn(16384, 8, generator=generator)
    weight = torch.randn(40, 8, generator=generator)
    targets = torch.full((len(x),), 7)
    exact = []
    for function in (lambda a, b: whole(a, b, targets), lambda a, b: summed_in_slices(
            a, b, None, targets, rows)):
        a, b = x.clone(), weight.clone()
        with torch.autocast("cpu", dtype=torch.float16, enabled=half == "autocast" and
                            bool(exact)):
            if exact and half == "weights":
                a, b = a.half(), b.half()
            loss = function(a.requires_grad_(), b.requires_grad_()) / len(x)
        loss.backward()
        exact.append((loss, a.grad, b.grad))
    assert exact[0][2].abs().max() * len(x) > torch.finfo(torch.float16).max
    for ours, theirs in zip(exact[1], exact[0], strict=True):
        assert torch.isfinite(ours).all()
        assert (ours.float() - theirs).norm() < 0.02 * theirs.norm()


def test_in_float16_what_is_infinite_stays_so_and_loss_scaling_sees_it() -> None:
    x, weight, targets = drawn()
    with torch.no_grad():
        x[3, 2] = float("inf")
    with torch.autocast("cpu", dtype=torch.float16):
        summed_in_slices(x, weight, None, targets, 16).backward()
    assert weight.grad is not None
    assert not torch.isfinite(weight.grad).all()
