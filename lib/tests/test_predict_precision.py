"""Number formats against the machines that define them: numpy's and PyTorch's own types."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw.predict import precision
from ironlaw.predict.precision import BF16, E4M3, E5M2, FORMATS, FP16, FP32, TF32, NumberFormat

TORCH = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
         "e5m2": "float8_e5m2"}


@pytest.mark.parametrize("name", sorted(TORCH))
def test_range_equals_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    info, ours = torch.finfo(getattr(torch, TORCH[name])), FORMATS[name]
    assert ours.largest == info.max
    assert ours.smallest_normal == info.tiny
    assert ours.epsilon == info.eps
    assert ours.smallest_subnormal == info.tiny * info.eps
    assert ours.bits == info.bits


def test_document_values() -> None:
    assert (FP16.largest, FP16.smallest_normal, FP16.smallest_subnormal) == (
        65504.0, 2.0**-14, 2.0**-24)
    assert BF16.smallest_normal == FP32.smallest_normal == 2.0**-126
    assert (E4M3.largest, E5M2.largest) == (448.0, 57344.0)
    assert TF32.epsilon == FP16.epsilon
    assert TF32.smallest_normal == FP32.smallest_normal


def interesting(fmt: NumberFormat) -> list[float]:
    """Values where rounding is decided: ties, ends of ranges, and a spread of others."""
    draw = random.Random(7)
    values = [0.0, fmt.largest, fmt.largest + fmt.spacing(fmt.largest) / 2.01,
              fmt.smallest_normal, fmt.smallest_subnormal, fmt.smallest_subnormal / 2,
              fmt.smallest_subnormal * 0.51, fmt.smallest_subnormal * 1.5,
              fmt.smallest_normal * (1 - fmt.epsilon / 2)]
    for _ in range(300):
        value = math.ldexp(1 + draw.random(), draw.randint(-30, 15))
        values += [value, 1 + fmt.epsilon * (draw.randint(0, 30) + 0.5)]
    return [sign * v for v in values for sign in (1.0, -1.0) if abs(v) < 3e38]


@pytest.mark.parametrize("name", sorted(TORCH))
def test_rounding_equals_pytorchs_bit_for_bit(name: str) -> None:
    torch = pytest.importorskip("torch")
    fmt = FORMATS[name]
    # Through float32, as PyTorch's own conversions go.
    values = torch.tensor(interesting(fmt), dtype=torch.float64).float()
    theirs = values.to(getattr(torch, TORCH[name])).double().tolist()
    for value, expected in zip(values.double().tolist(), theirs, strict=True):
        if not fmt.ieee and not math.isnan(expected):
            # PyTorch's E4M3 saturated in some versions and gave NaN in others.
            assert fmt.round(value, saturate=True) == expected, value
            continue
        ours = fmt.round(value)
        assert ours == expected or (math.isnan(ours) and math.isnan(expected)), value


def test_infinities_and_their_absence() -> None:
    assert FP16.round(65520.0) == math.inf
    assert FP16.round(65519.0) == 65504.0
    assert FP16.round(-1e9) == -math.inf
    assert math.isnan(E4M3.round(1e9))
    assert math.isnan(E4M3.round(math.inf))
    assert E4M3.round(-1e9, saturate=True) == -448.0
    assert math.isnan(FP16.round(math.nan))


@given(st.floats(-1e30, 1e30), st.sampled_from(sorted(FORMATS)))
def test_rounding_is_idempotent_and_near(value: float, name: str) -> None:
    fmt = FORMATS[name]
    once = fmt.round(value)
    if math.isfinite(once):
        assert fmt.round(once) == once
        assert abs(once - value) <= fmt.spacing(value) / 2
        assert fmt.error(value) <= 1.0
        if abs(value) >= fmt.smallest_normal:
            assert fmt.error(value) <= fmt.epsilon / 2


@given(st.floats(-(2.0**127), 2.0**127, width=32))
def test_fp32_rounding_is_the_machines(value: float) -> None:
    assert FP32.round(value) == struct.unpack("f", struct.pack("f", value))[0]


def test_spacing_doubles_with_each_power_of_two() -> None:
    assert FP16.spacing(1.0) == 2.0**-10
    assert FP16.spacing(2048.0) == 2.0
    assert FP16.spacing(0.0) == FP16.smallest_subnormal
    assert FP16.spacing(65504.0) == 32.0
    with pytest.raises(InputError):
        FP16.spacing(1e6)


def test_loss_scaling_rescues_small_gradients() -> None:
    gradients = [0.0, 2.0**-26, 2.0**-25, 2.0**-20, 2.0**-10, 1.0]
    plain = precision.stored_shares(gradients, FP16)
    assert plain.underflow == pytest.approx(2 / 5)  # half the smallest ties to zero
    assert plain.subnormal == pytest.approx(1 / 5)
    scaled = precision.stored_shares(gradients, FP16, loss_scale=1024)
    assert (scaled.underflow, scaled.overflow) == (0.0, 0.0)
    assert scaled.subnormal == pytest.approx(2 / 5)
    too_much = precision.stored_shares(gradients, FP16, loss_scale=2.0**17)
    assert too_much.overflow == pytest.approx(1 / 5)
    assert precision.stored_shares(gradients, BF16).exact_range == 1.0


@pytest.mark.parametrize("fmt", [FP16, BF16, E4M3, E5M2], ids=lambda fmt: fmt.name)
def test_shares_count_what_rounding_does(fmt: NumberFormat) -> None:
    draw = np.random.default_rng(3)
    values = np.exp2(draw.uniform(-30, 18, 2000)) * draw.choice([-1, 1], 2000)
    shares = precision.stored_shares(values, fmt)
    rounded = np.array([fmt.round(float(v)) for v in values])
    small = np.abs(rounded)
    assert shares.underflow == pytest.approx(float((small == 0).mean()))
    assert shares.overflow == pytest.approx(float((~np.isfinite(rounded)).mean()))
    assert shares.subnormal == pytest.approx(
        float(((small > 0) & (small < fmt.smallest_normal)).mean()))


@given(st.floats(1e-12, 1e3))
def test_the_best_loss_scale_is_the_largest_safe_power_of_two(gradient: float) -> None:
    scale = precision.best_loss_scale(gradient)
    assert math.log2(scale).is_integer()
    assert gradient * scale * 2 <= FP16.largest < gradient * scale * 4


def test_the_scaler_backs_off_and_recovers() -> None:
    scaler = precision.LossScaler(interval=3)
    scaler = scaler.after(True)
    assert scaler.scale == 32768.0
    for _ in range(3):
        scaler = scaler.after(False)
    assert (scaler.scale, scaler.quiet_steps) == (65536.0, 0)


def test_master_weights_are_why_small_updates_survive() -> None:
    assert not precision.update_survives(1.0, 2.0**-12, FP16)
    assert not precision.update_survives(1.0, 2.0**-12, BF16)
    assert precision.update_survives(1.0, 2.0**-12, FP32)
    assert precision.update_survives(1.0, 2.0**-10, FP16)


def test_table_10_and_12() -> None:
    rows = precision.table_10(peaks={"fp32": 19.5e12, "fp16": 312e12, "bf16": 312e12})
    assert [(r.exponent_bits, r.fraction_bits) for r in rows] == [(8, 23), (5, 10), (8, 7)]
    assert [r.peak_ratio for r in rows] == [1.0, 16.0, 16.0]
    v100 = precision.table_12({"fp32": 15.7e12, "fp16": 125e12})
    assert [(a.precision, a.loss_scaling) for a in v100] == [("fp16", True)]
    h100 = precision.table_12({"fp32": 67e12, "fp16": 989e12, "bf16": 989e12, "fp8": 1979e12})
    assert [a.precision for a in h100] == ["bf16", "fp16", "fp8"]
    assert precision.table_12({"fp32": 1e12})[0].precision == "fp32"


@pytest.mark.parametrize(("call", "argument"), [
    (lambda: precision.largest(1, 10), "exponent_bits"),
    (lambda: precision.largest(5, -1), "fraction_bits"),
    (lambda: precision.number_format("fp12"), "name"),
    (lambda: precision.stored_shares([0.0], FP16), "values"),
    (lambda: precision.stored_shares([math.inf], FP16), "values"),
    (lambda: precision.stored_shares([1.0], FP16, loss_scale=0), "loss_scale"),
    (lambda: precision.table_12({}), "peaks"),
])
def test_refusals_name_the_argument(call: object, argument: str) -> None:
    with pytest.raises(InputError) as caught:
        call()  # type: ignore[operator]  # a lambda of the table above
    assert caught.value.argument == argument
