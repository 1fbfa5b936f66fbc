"""Tiled attention is attention; the instrument's figures for it hold together."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw import results
from ironlaw.errors import InputError
from ironlaw.gpt2.tiled_attention import tiled_attention
from ironlaw.measure import attention
from ironlaw.measure.origin import relative_error, saved_bytes
from ironlaw.predict import attention as predicted
from torch.nn.functional import scaled_dot_product_attention


def tensors(length: int, width: int, seed: int = 0, dtype: torch.dtype = torch.float64,
            spread: float = 1.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [(spread * torch.randn(2, 3, length, width, generator=generator, dtype=torch.float64)
             ).to(dtype).requires_grad_() for _ in range(3)]


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 40), width=st.integers(1, 9), tile=st.integers(1, 48),
       causal=st.booleans(), seed=st.integers(0, 1000))
def test_tiled_attention_equals_pytorchs_forward_and_backward(
        length: int, width: int, tile: int, causal: bool, seed: int) -> None:
    ours, theirs = tensors(length, width, seed), tensors(length, width, seed)
    got = tiled_attention(*ours, causal=causal, tile=tile)
    wanted = scaled_dot_product_attention(*theirs, is_causal=causal)
    torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-12)
    above = torch.randn(got.shape, dtype=got.dtype, generator=torch.Generator().manual_seed(seed))
    for mine, reference in zip(torch.autograd.grad(got, ours, above),
                               torch.autograd.grad(wanted, theirs, above), strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-10, atol=1e-11)


def test_its_backward_is_the_derivative_of_its_forward() -> None:
    assert torch.autograd.gradcheck(
        lambda q, k, v: tiled_attention(q, k, v, tile=3), tensors(7, 4))


def test_scores_that_overflow_a_plain_exponential_are_no_trouble() -> None:
    q, k, v = tensors(33, 8, spread=60.0)
    assert (q @ k.transpose(-2, -1)).abs().max() / math.sqrt(8) > 709  # exp of it is infinite
    got = tiled_attention(q, k, v, tile=8)
    torch.testing.assert_close(got, scaled_dot_product_attention(q, k, v, is_causal=True))
    assert torch.isfinite(torch.autograd.grad(got.sum(), q)[0]).all()


def test_a_query_sees_nothing_ahead_of_it() -> None:
    q, k, v = tensors(20, 4)
    before = tiled_attention(q, k, v, tile=6)
    with torch.no_grad():
        k[..., 11:, :] += 100.0
        v[..., 11:, :] -= 7.0
    after = tiled_attention(q, k, v, tile=6)
    assert torch.equal(before[..., :11, :], after[..., :11, :])
    assert not torch.allclose(before[..., 11:, :], after[..., 11:, :])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_sixteen_bit_inputs_give_sixteen_bit_results_from_wide_sums(dtype: torch.dtype) -> None:
    q, k, v = tensors(64, 16, dtype=dtype)
    got = tiled_attention(q, k, v, tile=16)
    exact = scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    gradients = torch.autograd.grad(got.sum(), (q, k, v))
    assert got.dtype == dtype
    assert all(g.dtype == dtype for g in gradients)
    error = (got.double() - exact).abs().max() / exact.abs().max()
    assert error < 4 * torch.finfo(dtype).eps, "only the last rounding is in 16 bit"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_inside_autocast_sums_stay_wide(dtype: torch.dtype) -> None:
    """Autocast turns products of float32 tensors to 16 bit, in whatever they were cast before."""
    plain, ours = (tensors(64, 16, dtype=dtype) for _ in range(2))
    expected = tiled_attention(*plain, tile=16)
    above = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    with torch.autocast("cpu", dtype=dtype):
        got = tiled_attention(*ours, tile=16)
        gradients = torch.autograd.grad(got, ours, above)
    assert torch.equal(got, expected)
    for mine, wanted in zip(gradients, torch.autograd.grad(expected, plain, above), strict=True):
        assert torch.equal(mine, wanted)


@pytest.mark.parametrize(("shapes", "tile"), [(((2, 4), (3, 4), (3, 4)), 2),
                                              (((2, 4), (2, 4), (3, 4)), 2),
                                              (((2, 4), (2, 4), (2, 4)), 0)])
def test_it_refuses_what_is_no_attention(shapes: tuple[tuple[int, int], ...], tile: int) -> None:
    with pytest.raises(InputError):
        tiled_attention(*(torch.zeros(shape) for shape in shapes), tile=tile)


def test_tiles_leave_one_number_per_query_and_the_formula_leaves_the_matrix() -> None:
    q, k, v = tensors(64, 8, dtype=torch.float32)
    inputs = sum(t.untyped_storage().nbytes() for t in (q, k, v))
    output = v.untyped_storage().nbytes()
    tiled = saved_bytes(lambda: tiled_attention(q, k, v, tile=16))
    assert tiled == inputs + output + 4 * 2 * 3 * 64
    matrix = saved_bytes(lambda: attention.materialised(q, k, v))
    assert matrix >= predicted.score_matrix_bytes(64, 2, 3, bytes_per_value=4.0) + 2 * output


@pytest.fixture(scope="module")
def measured() -> attention.AttentionMeasurement:
    return attention.measure_attention([32, 64, 128], batch=1, heads=2, head_width=8, tile=32,
                                       device="cpu", seconds=0.3)


def test_every_method_is_exact_to_float32(measured: attention.AttentionMeasurement) -> None:
    assert [e.method for e in measured.errors] == list(attention.METHODS)
    for error in measured.errors:
        assert set(error.gradients) == set("qkv")
        assert max(error.output, *error.gradients.values()) < 1e-5
        assert error.output > 0.0, "float32 rounds: no error at all means nothing was compared"


def test_memory_grows_with_the_square_only_where_the_matrix_is(
        measured: attention.AttentionMeasurement) -> None:
    for name, growth in (("materialised", 3.0), ("fused", 2.1), ("tiled", 2.1)):
        short, long = measured.at(name, 64), measured.at(name, 128)
        ratio = long.saved_bytes / short.saved_bytes
        assert ratio > growth if name == "materialised" else ratio <= growth
        assert long.peak_bytes > short.peak_bytes
    assert measured.at("materialised", 128).peak_bytes >= 2 * 4 * 2 * 128 * 128
    assert measured.at("fused", 128).peak_bytes < measured.at("materialised", 128).peak_bytes


def test_the_result_travels_and_every_sample_is_there(
        measured: attention.AttentionMeasurement) -> None:
    assert results.load(json.dumps(measured.to_json())) == measured
    assert len(measured.timings) == 9
    for timing in measured.timings:
        assert len(timing.samples) >= 3
        assert min(timing.samples) <= timing.seconds <= max(timing.samples)
        assert min(timing.both_samples) <= timing.both_seconds <= max(timing.both_samples)


def test_a_matrix_that_would_not_fit_is_left_out_and_named(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention.host, "memory_bytes", lambda: 1e6)
    found = attention.measure_attention([16, 256], heads=2, head_width=4, device="cpu",
                                        seconds=0.1)
    assert "eighth of memory" in found.reasons["materialised at 256"]
    assert {(t.method, t.seq) for t in found.timings} == {
        ("materialised", 16), ("fused", 16), ("tiled", 16), ("fused", 256), ("tiled", 256)}
    with pytest.raises(InputError, match="fused at 256"):
        found.at("materialised", 256)


@pytest.mark.parametrize("bad", [{"lengths": [0]}, {"heads": 0}, {"tile": 1.5}, {"seconds": 0},
                                 {"dtype": "fp64"}])
def test_bad_input_is_refused_by_name(bad: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        attention.measure_attention(device="cpu", **bad)  # type: ignore[arg-type]


def test_saved_bytes_count_each_storage_once_and_leave_parameters_out() -> None:
    layer = torch.nn.Linear(8, 8, bias=False)
    x = torch.randn(4, 8, requires_grad=True)
    # The product keeps x and the weight; sin and cos keep the product's result, one storage.
    made = saved_bytes(lambda: (lambda y: y.sin() + y.view(-1).cos().view_as(y))(layer(x)),
                       layer.parameters())
    assert made == 2 * 4 * 8 * 4.0
    assert saved_bytes(lambda: layer(x)) == 4 * 8 * 4.0 + 8 * 8 * 4.0


def test_relative_error_is_of_the_largest_value() -> None:
    wanted = [torch.tensor([1.0, -4.0]), torch.tensor([0.5])]
    assert relative_error(wanted, wanted) == 0.0
    assert relative_error([wanted[0], torch.tensor([1.5])], wanted) == pytest.approx(0.25)
