"""FLOPs counted on meta, steps timed on the device, and the peak that an MFU divides by."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest
import torch
from ironlaw.config import RECOMPUTES, RunConfig
from ironlaw.errors import InputError
from ironlaw.measure import device as devices
from ironlaw.measure import flops, matmul
from ironlaw.measure import step as steps
from ironlaw.predict import flops as predicted
from ironlaw.results import DeviceProfile, MatmulRate, StepMeasurement, load

TINY = RunConfig(layers=2, width=32, heads=2, vocab=96, batch=2, seq=16)
CPU = torch.device("cpu")


def profile(here: devices.Device, **rates: float) -> DeviceProfile:
    matmuls = {d: MatmulRate(dtype=d, flops_per_second=r, size=64, by_size={"64": r})
               for d, r in rates.items()}
    return DeviceProfile(
        name=here.name, device_type=here.type, threads=here.threads, memory_bytes=None,
        matmul=matmuls, copy_bytes_per_second=None, launch_seconds=None,
        host_to_device_bytes_per_second=None, catalogue_name=None, versions={}, measured_on="")


@pytest.mark.parametrize(("config", "attention"), [
    (TINY, "flash"), (TINY.replace(accumulate=3), "materialised"), (RunConfig(), "materialised"),
    (RunConfig(model="gpt2-124m", batch=3), "materialised"),
    (RunConfig(model="gpt2-1558m", batch=1, seq=512), "flash"),
], ids=lambda v: v if isinstance(v, str) else f"{v.model}-{v.batch}x{v.sequence}x{v.accumulate}")
def test_counted_flops_equal_the_predicted_ones_exactly(config: RunConfig, attention: str) -> None:
    found = flops.count(config.replace(attention=attention))
    assert found.per_token == predicted.per_token(config.shape, config.sequence)
    assert found.model == predicted.per_step(
        config.shape, config.batch, config.sequence) * config.accumulate
    assert found.hardware == found.model
    assert found.tokens == config.tokens_per_step


@pytest.mark.parametrize("recompute", RECOMPUTES)
def test_recomputation_is_hardware_work_and_never_model_work(recompute: str) -> None:
    config = TINY.replace(attention="materialised", recompute=recompute)
    found = flops.count(config)
    assert found.model == flops.count(config.replace(recompute="none")).model
    if recompute == "none":
        assert found.hardware == found.model
    else:
        forward = predicted.forward_per_step(config.shape, config.batch, config.sequence)
        assert found.model < found.hardware <= found.model + forward


def test_selective_recomputation_changes_nothing_under_flash() -> None:
    found = flops.count(TINY.replace(attention="flash", recompute="selective"))
    assert found.hardware == found.model


def test_a_step_is_measured_whole() -> None:
    here = devices.find("cpu")
    before = torch.get_rng_state()
    found = steps.measure_step(TINY, steps=4, warmup=1, device="cpu",
                               profile=profile(here, fp32=1e15))
    assert torch.equal(torch.get_rng_state(), before)
    assert len(found.samples) == 4
    assert min(found.samples) > 0
    assert min(found.samples) <= found.step_seconds <= max(found.samples)
    assert found.tokens_per_step == 32
    assert found.tokens_per_second == 32 / found.step_seconds
    assert found.flops_per_token == predicted.per_token(TINY.shape, 16)
    assert found.parameters == TINY.shape.parameters
    assert found.mfu == found.flops_per_step / found.step_seconds / 1e15
    assert found.peak is not None
    assert found.peak.source.startswith("calibrated on")
    assert RunConfig.from_json(found.config) == TINY
    assert StepMeasurement.from_json(json.dumps(found.to_json())) == found
    assert "tokens/s" in str(found)
    assert "MFU not had: why" in str(dataclasses.replace(found, mfu=None, reasons={"mfu": "why"}))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("precision", ["fp32", "amp-bf16"])
def test_no_nano_step_beats_the_peak_of_its_own_products(precision: str) -> None:
    config = RunConfig(seq=64, batch=4, precision=precision)
    here = devices.find("cpu")
    small = [p for p in matmul.products(CPU) if p.flops <= 2 * 512**3]
    with matmul.exact_float32_products(CPU) as mode:
        swept = {dtype: matmul.sweep(CPU, dtype, seconds=1.0, mode=mode, wanted=small)
                 for dtype in steps.dtypes_used(precision, CPU)}
    best = {dtype: max(sweep.rates.values()) for dtype, sweep in swept.items()}
    found = steps.measure_step(config, steps=3, warmup=1, device=here,
                               profile=profile(here, **best))
    assert found.mfu is not None, found.reasons
    assert 0 < found.mfu <= 1


def test_several_shapes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[int] = []
    warm = 2

    class Step:
        model = torch.nn.Linear(2, 2)

        def __call__(self, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
            order.append(batches[0][0].numel())

    def clock(call: Callable[[int], None], device: torch.device, turns: int) -> list[float]:
        for turn in range(turns):
            call(turn)
        return [0.01 * order[len(batches) * warm + turn] for turn in range(turns)]

    monkeypatch.setattr(steps.gpt2_step, "build", lambda config, device, **_: Step())
    monkeypatch.setattr(steps, "_by_the_wall_clock", clock)
    batches = few, many = TINY, TINY.replace(batch=5)
    said: list[str] = []
    found = steps.measure_steps([few, many], steps=3, warmup=warm, device="cpu",
                                progress=said.append)
    assert len(said) == 1
    assert said[0].startswith("warmed up; 3 steps of each take about")
    assert order == [32, 80] * (warm + 3)
    assert [m.tokens_per_step for m in found] == [32, 80]
    assert [m.samples for m in found] == [pytest.approx([0.32] * 3), pytest.approx([0.8] * 3)]
    assert found[0].parameters == 6


def test_shapes_that_take_turns_must_share_a_model() -> None:
    with pytest.raises(InputError, match="batch and seq"):
        steps.measure_steps([TINY, TINY.replace(precision="amp-bf16")], device="cpu")
    for bad in ({"steps": 0}, {"warmup": -1}):
        with pytest.raises(InputError):
            steps.measure_step(TINY, device="cpu", **bad)  # type: ignore[arg-type]


def test_gpu_steps_are_stamped_without_waiting_in_between(
        monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.at = 0.0

        def record(self) -> None:
            self.at = float(len(log)) * 1e3  # milliseconds
            log.append("record")

        def synchronize(self) -> None:
            log.append("wait")

        def elapsed_time(self, other: Event) -> float:
            return other.at - self.at

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("idle"))
    samples = steps._stamped_by_the_gpu(lambda turn: log.append(f"step {turn}"),
                                        torch.device("cuda", 0), 2)
    assert log == ["idle", "record", "step 0", "record", "step 1", "record", "wait"]
    assert samples == [2.0, 2.0]


def test_the_wall_clock_waits_for_the_device_after_every_step(
        monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(steps.timing, "synchronise", lambda device: log.append("idle"))
    steps._by_the_wall_clock(lambda turn: log.append("step"), torch.device("mps"), 2)
    assert log == ["idle", "step", "idle", "step", "idle"]


@pytest.mark.parametrize(("precision", "kind", "exact", "dtypes"), [
    ("fp32", "cpu", True, ("fp32",)),
    ("fp32", "cuda", True, ("fp32",)),
    ("fp32", "cuda", False, ("tf32", "fp32")),
    ("fp32", "cpu", False, ("bf16", "fp32")),
    ("amp-bf16", "cuda", True, ("bf16", "fp32")),
    ("amp-bf16", "cuda", False, ("bf16", "tf32", "fp32")),
    ("pure-bf16", "cpu", True, ("bf16", "fp32")),
    ("amp-fp16", "cuda", False, ("fp16", "tf32", "fp32")),
])
def test_the_formats_of_a_step_decide_its_peak(
        monkeypatch: pytest.MonkeyPatch, precision: str, kind: str, exact: bool,
        dtypes: tuple[str, ...]) -> None:
    monkeypatch.setattr(matmul, "float32_is_exact", lambda device: exact)
    assert steps.dtypes_used(precision, torch.device(kind)) == dtypes


def gpu(name: str, entry: str | None) -> devices.Device:
    return devices.Device(torch.device("cuda", 0), name, 80e9, 8, entry, {})


def test_a_known_gpu_is_measured_against_its_data_sheet() -> None:
    here = gpu("NVIDIA A100-SXM4-80GB", "A100 80GB SXM")
    peak, reason = steps.peak_for(here, profile(here, bf16=250e12), ("bf16", "fp32"))
    assert peak is not None
    assert (peak.flops_per_second, reason) == (312e12, "")
    assert "A100" in peak.source
    assert "dense" in peak.source


def test_a_t4_has_no_bf16_peak_but_an_fp16_one() -> None:
    here = gpu("Tesla T4", "T4")
    peak, reason = steps.peak_for(here, None, ("bf16", "fp32"))
    assert peak is None
    assert "calibrate" in reason
    peak, _ = steps.peak_for(here, None, ("fp16", "fp32"))
    assert peak is not None
    assert peak.flops_per_second == 65e12


def test_an_unknown_gpu_is_measured_against_its_own_calibration() -> None:
    here = gpu("NVIDIA H20", None)
    peak, _ = steps.peak_for(here, profile(here, bf16=100e12, fp32=40e12), ("bf16", "fp32"))
    assert peak is not None
    assert peak.flops_per_second == 100e12
    assert "calibrated" in peak.source


def test_an_emulated_format_does_not_lower_the_ceiling() -> None:
    here = devices.find("cpu")
    peak, _ = steps.peak_for(here, profile(here, fp16=2e9, fp32=200e9), ("fp16", "fp32"))
    assert peak is not None
    assert peak.flops_per_second == 200e9


def test_a_profile_that_does_not_fit_is_refused_with_the_reason() -> None:
    here = devices.find("cpu")
    good = profile(here, fp32=200e9)
    cases = {
        "Run `ironlaw calibrate` first": None,
        "measured on Another": dataclasses.replace(good, name="Another"),
        "threads": dataclasses.replace(good, threads=here.threads - 1),
        "no fp32 peak": profile(here, bf16=1e12),
    }
    for words, given in cases.items():
        peak, reason = steps.peak_for(here, given, ("fp32",))
        assert peak is None
        assert words in reason
    assert steps.peak_for(here, good, ("fp32",))[0] == good.peak("fp32")


def test_more_than_the_peak_is_refused_never_reported() -> None:
    peak = profile(devices.find("cpu"), fp32=100.0).peak("fp32")
    assert steps.share_of_peak(38.0, peak) == (0.38, "")
    assert steps.share_of_peak(100.0, peak) == (1.0, "")
    share, reason = steps.share_of_peak(101.0, peak)
    assert share is None
    assert "impossible" in reason
    assert steps.share_of_peak(1.0, None, "no peak") == (None, "no peak")


def test_the_clock_runs_in_the_trainers_own_float32_mode(
        monkeypatch: pytest.MonkeyPatch) -> None:
    for exact, mode in ((True, "medium"), (False, "highest")):
        monkeypatch.setattr(matmul, "float32_is_exact", lambda device, exact=exact: exact)
        with matmul.exact_float32_products(CPU) as chosen:
            assert chosen == torch.get_float32_matmul_precision() == mode
        assert torch.get_float32_matmul_precision() == "highest"
    with matmul.exact_float32_products(torch.device("cuda", 0)) as chosen:
        assert chosen == "highest"


def test_padding_and_compiling_change_how_a_step_runs_and_not_what_it_counts(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps.gpt2_step.compiling, "obstacle", lambda *_: "no compiler here")
    odd = TINY.replace(vocab=97)
    plain = steps.measure_step(odd, steps=1, warmup=1, device="cpu")
    other = steps.measure_step(odd, steps=1, warmup=1, device="cpu", pad_vocab=True, compile=True)
    assert (other.parameters, other.flops_per_step) == (plain.parameters, plain.flops_per_step)
    assert plain.parameters == odd.shape.parameters
    assert "97 has 128 rows" in other.notes["pad_vocab"]
    assert other.notes["compile"] == "Not compiled: no compiler here."
    assert not {"pad_vocab", "compile"} & set(plain.notes)


def test_a_step_says_when_and_with_what_it_was_measured_and_older_files_load() -> None:
    found = steps.measure_step(TINY, steps=2, warmup=0, device="cpu")
    assert found.versions["torch"] == torch.__version__
    assert found.measured_on.endswith("+00:00")
    old = found.to_json()
    del old["versions"], old["measured_on"]
    held = load(json.dumps(old))
    assert held == dataclasses.replace(found, versions={}, measured_on="")
    assert str(held) == str(found)
