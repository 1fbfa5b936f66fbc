"""Formats round as their bits say; gradients that vanish are counted; runs are comparable."""

from __future__ import annotations

import json
import math

import pytest
import torch
from ironlaw import results
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.measure import device, precision
from ironlaw.predict.precision import number_format
from ironlaw.results_instruments import PrecisionMeasurement

TINY = RunConfig(layers=2, width=32, heads=2, batch=2, seq=32)
FRACTION_BITS = {"fp32": 23, "fp16": 10, "bf16": 7, "fp8-e4m3": 3, "fp8-e5m2": 2}


@pytest.fixture(scope="module")
def measured() -> PrecisionMeasurement:
    return precision.measure_precision(TINY, steps=2, device="cpu")


def test_rounding_is_half_a_unit_of_the_last_bit(measured: PrecisionMeasurement) -> None:
    assert {f.format for f in measured.formats} == set(FRACTION_BITS)
    for found in measured.formats:
        half_unit = 2.0 ** -(FRACTION_BITS[found.format] + 1)
        assert 0.8 * half_unit < found.largest <= half_unit
        assert 0.0 < found.rms < found.largest
        if found.product is None:
            assert found.format.startswith("fp8")
            assert f"formats.{found.format}.product" in measured.reasons
        else:
            assert found.product < 10 * half_unit
    products = {f.format: f.product for f in measured.formats}
    assert products["fp32"] < products["fp16"] < products["bf16"]  # type: ignore[operator]


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_a_tally_agrees_with_the_format_value_by_value(name: str) -> None:
    """The predictor's rounding, which knows no torch, decides what is lost and what overflows."""
    form = number_format(name)
    values = [0.0, 1e-9, 2.0 ** -25, 2.1 ** -24, 1e-6, 1e-4, 1.0, 3e4, 6.6e4, 1e5, -1e-8, -5e4]
    tally = precision.Tally("values")
    tally.add(torch.tensor(values))
    for scale in precision.LOSS_SCALES:
        found = next(u for u in tally.underflow() if (u.format, u.loss_scale) == (name, scale))
        scaled = [abs(torch.tensor(v).item()) * scale for v in values if v]
        lost = [s for s in scaled if form.round(s) == 0.0]
        subnormal = [s for s in scaled if 0.0 < form.round(s) < form.smallest_normal]
        assert found.lost == pytest.approx(len(lost) / len(scaled))
        assert found.subnormal == pytest.approx(len(subnormal) / len(scaled))
        assert found.overflowed == sum(s > form.largest for s in scaled)


def test_a_tally_sorts_by_powers_of_two() -> None:
    tally = precision.Tally("values")
    tally.add(torch.tensor([[1.0, 1.5, -2.0], [0.0, 0.24, 0.25]]))
    tally.add(torch.tensor(3.99))
    found = tally.result()
    assert found.exponents == {"-3": 1, "-2": 1, "0": 2, "1": 2}
    assert (found.values, found.zeros) == (7, 1)
    assert found.largest == pytest.approx(3.99)


def test_gradients_are_all_counted(measured: PrecisionMeasurement) -> None:
    parameters, outputs = measured.gradients
    assert parameters.values == TINY.shape.parameters
    # Four linear layers a block: 3 d, d, 4 d and d outputs per token.
    assert outputs.values == 2 * TINY.batch * TINY.sequence * 9 * 32
    for tally in measured.gradients:
        assert sum(tally.exponents.values()) == tally.values - tally.zeros
        assert max(map(int, tally.exponents)) == math.floor(math.log2(tally.largest))


def test_scaling_saves_what_fp16_would_lose(measured: PrecisionMeasurement) -> None:
    lost = {(u.of, u.format, u.loss_scale): u.lost for u in measured.underflow}
    for of in ("parameters", "outputs"):
        plain, some, usual = (lost[of, "fp16", scale] for scale in precision.LOSS_SCALES)
        assert plain >= some >= usual
        assert lost[of, "bf16", 1.0] <= plain, "bf16 has the range of fp32"
        assert lost[of, "fp8-e4m3", 1.0] > lost[of, "fp8-e5m2", 1.0] > plain
    assert lost["outputs", "fp16", 1.0] > 0.0


def test_runs_start_from_the_same_weights_and_text(measured: PrecisionMeasurement) -> None:
    runs = {(r.precision, r.loss_scaling): r for r in measured.runs}
    assert set(runs) == {("fp32", False), ("amp-bf16", False), ("amp-fp16", True),
                         ("amp-fp16", False), ("pure-bf16", False)}
    first = runs["fp32", False].losses[0]
    for run in measured.runs:
        assert run.losses[0] == pytest.approx(first, rel=5e-3)
        assert len(run.samples) == 2
        assert len(run.losses) == len(run.non_finite) == len(run.zero_share) == 3
    assert runs["amp-fp16", True].loss_scale[0] == 2.0 ** 16
    assert set(runs["amp-fp16", False].loss_scale) == {1.0}
    assert runs["fp32", False].non_finite == [0, 0, 0]


def test_an_overflow_is_seen_skipped_and_answered_by_a_smaller_scale(
        monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.amp.GradScaler
    monkeypatch.setattr(torch.amp, "GradScaler", lambda kind, enabled=True: real(
        kind, enabled=enabled, init_scale=2.0 ** 40))
    found = precision.measure_precision(TINY, runs=["amp-fp16"], steps=3, device="cpu")
    run = found.runs[0]
    assert run.non_finite[0] > 0
    assert run.skipped == 4
    assert run.loss_scale == [2.0 ** 40, 2.0 ** 39, 2.0 ** 38, 2.0 ** 37]


def test_a_precision_that_cannot_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = precision.gpt2_step.build

    def build(config: RunConfig, *rest: object, **more: object) -> object:
        if config.precision == "amp-bf16":
            raise RuntimeError("no BFloat16 kernel\nand a long trace")
        return real(config, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(precision.gpt2_step, "build", build)
    found = precision.measure_precision(TINY, runs=["amp-bf16", "fp32"], steps=1, device="cpu")
    assert [r.precision for r in found.runs] == ["fp32"]
    assert found.reasons["runs.amp-bf16"] == "PyTorch refused: no BFloat16 kernel"


def test_a_precision_that_would_be_emulated_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU below compute capability 8.0, or a Mac before macOS 14."""
    monkeypatch.setattr(precision, "obstacle",
                        lambda device, dtype: "emulated" if dtype == "bf16" else "")
    found = precision.measure_precision(TINY, runs=["amp-bf16", "pure-bf16", "fp32"], steps=1,
                                        device="cpu")
    assert [r.precision for r in found.runs] == ["fp32"]
    assert found.reasons["runs.amp-bf16"] == found.reasons["runs.pure-bf16"] == "emulated"


def test_a_format_that_is_emulated_gets_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "obstacle",
                        lambda device, dtype: "emulated" if dtype == "bf16" else "")
    reasons: dict[str, str] = {}
    found = {f.format: f for f in precision.format_errors(device.find("cpu"), reasons)}
    assert found["bf16"].product is None
    assert reasons["formats.bf16.product"] == "emulated"
    assert found["bf16"].largest > 0.0, "rounding is a property of the format"


def test_the_result_travels_and_random_numbers_outside_stay(
        measured: PrecisionMeasurement) -> None:
    assert results.load(json.dumps(measured.to_json())) == measured
    torch.manual_seed(5)
    before = torch.get_rng_state()
    precision.measure_precision(TINY, runs=["fp32"], steps=1, device="cpu")
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("bad", [{"runs": ["fp64"]}, {"steps": 0}, {"learning_rate": -1.0}])
def test_bad_input_is_refused_by_name(bad: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        precision.measure_precision(TINY, device="cpu", **bad)  # type: ignore[arg-type]
