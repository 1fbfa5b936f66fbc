"""The memory instrument against predictions, PyTorch's tracker, and a pretended GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any

import pytest
from ironlaw import cli
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.predict import peak
from ironlaw.results import MemoryMeasurement, load

torch = pytest.importorskip("torch")
from ironlaw.gpt2.out_of_memory import OutOfMemoryError  # noqa: E402  # after the skip
from ironlaw.measure import memory  # noqa: E402
from ironlaw.measure.device import Device  # noqa: E402
from ironlaw.measure.ledger import Ledger  # noqa: E402

SMALL: dict[str, Any] = {"model": "nano", "layers": 2, "batch": 2, "seq": 128}
TINY: dict[str, Any] = {"model": "nano", "layers": 1, "batch": 1, "seq": 8, "vocab": 64}


@pytest.fixture(scope="module")
def mixed() -> MemoryMeasurement:
    return memory.trace(RunConfig(**SMALL, precision="amp-bf16"))


def test_the_split_adds_up_and_agrees_with_the_prediction_kind_by_kind(
    mixed: MemoryMeasurement,
) -> None:
    predicted = peak.step_memory(RunConfig.from_json(mixed.config))
    parts = {k: v for k, v in mixed.memory_bytes.items() if k != "peak"}
    assert sum(v for v in parts.values() if v is not None) == pytest.approx(mixed.peak_bytes,
                                                                            rel=1e-3)
    for kind, size in predicted.to_json().items():
        assert mixed.memory_bytes[kind] == pytest.approx(size, abs=2e-3 * predicted.peak), kind
    assert mixed.moment == "backward"
    assert mixed.versions["torch"] == torch.__version__
    assert mixed.measured_on.endswith("+00:00")
    old = mixed.to_json()
    del old["versions"], old["measured_on"]
    assert load(json.dumps(old)) == dataclasses.replace(mixed, versions={}, measured_on="")


@pytest.mark.parametrize("changes", [
    {"precision": "fp32", "attention": "materialised", "recompute": "selective", "vocab": 64,
     "optimizer": "sgd"},
    {"precision": "amp-fp16", "recompute": "every-block", "accumulate": 2},
    {"precision": "pure-bf16", "recompute": "sqrt", "seq": 16, "batch": 1},
    {"precision": "fp32", "attention": "materialised", "loss_rows": 100},
    {"precision": "amp-bf16", "loss_rows": 64},
], ids=lambda changes: "-".join(str(v) for v in changes.values()))
def test_the_peak_is_the_predicted_one(changes: dict[str, Any]) -> None:
    config = RunConfig(**{**SMALL, **changes})
    found, predicted = memory.trace(config), peak.step_memory(config)
    assert found.peak_bytes == pytest.approx(predicted.peak, rel=0.01)
    for kind, size in predicted.to_json().items():  # what is computed again is told from waste
        assert found.memory_bytes[kind] == pytest.approx(size, abs=0.01 * predicted.peak), kind


def test_state_is_sixteen_bytes_a_parameter_with_adam(mixed: MemoryMeasurement) -> None:
    p = mixed.parameters
    assert mixed.parameter_bytes == mixed.gradient_bytes == 4 * p
    assert mixed.optimizer_bytes == pytest.approx(8 * p, rel=1e-3)  # and a counter per tensor


@pytest.mark.parametrize("precision", ["fp32", "amp-bf16", "pure-bf16"])
@pytest.mark.parametrize("attention", ["flash", "materialised"])
def test_one_block_saves_what_the_table_says(precision: str, attention: str) -> None:
    b, s, h, a = 3, 128, 128, 4
    config = RunConfig(model="nano", batch=b, seq=s, precision=precision, attention=attention)
    saved = sum(t.bytes for t in memory.saved_tensors(config))
    want = {"fp32": 64, "amp-bf16": 36, "pure-bf16": 32}[precision] * b * s * h + 16 * b * s
    want += 4 * a * b * s if attention == "flash" else (
        4 if precision == "fp32" else 6) * a * b * s * s
    assert saved == pytest.approx(want, rel=2e-3)  # a CPU keeps a norm's statistics narrower
    assert saved == pytest.approx(peak.block_bytes(b, s, h, a, precision, attention), rel=2e-3)


def test_what_recomputation_leaves_in_a_block() -> None:
    config = RunConfig(model="nano", batch=2, seq=64, precision="amp-bf16")
    every = memory.saved_tensors(config.replace(recompute="every-block"))
    assert [t.bytes for t in every] == [4 * 2 * 64 * 128]  # the block's input, nothing else
    materialised = config.replace(attention="materialised")
    whole = memory.saved_tensors(materialised)
    lean = memory.saved_tensors(materialised.replace(recompute="selective"))
    assert any(t.shape[-2:] == [64, 64] for t in whole)
    assert not any(t.shape[-2:] == [64, 64] for t in lean)
    assert memory.saved_tensors(config.replace(recompute="sqrt")) == []


def test_the_sweep_ends_between_a_batch_that_fits_and_one_that_does_not() -> None:
    config = RunConfig(model="nano", layers=1, seq=64, vocab=512)
    limit = 1.02 * memory.trace(config.replace(batch=11)).peak_bytes
    swept = memory.sweep(config, limit)
    peaks = dict(swept.peaks)
    assert peaks[swept.largest_batch] <= limit < peaks[swept.largest_batch + 1]
    assert swept.largest_batch == 11
    assert len(swept.peaks) <= 7
    assert load(json.dumps(swept.to_json())) == swept
    assert memory.sweep(config, limit, most=4).largest_batch == 4
    with pytest.raises(InputError, match="One sequence needs that much"):
        memory.sweep(config, 1e6)


def test_what_pytorch_cannot_run_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="precision"):
        memory.trace(RunConfig(**SMALL, precision="document"))
    with pytest.raises(InputError, match="adafactor"):
        memory.trace(RunConfig(**SMALL, optimizer="adafactor"))
    with pytest.raises(InputError, match="backend"):
        memory.measure_memory(RunConfig(**SMALL), "guess")


def test_a_trace_leaves_no_trace(mixed: MemoryMeasurement) -> None:
    torch.manual_seed(3)
    want = torch.rand(4)
    torch.manual_seed(3)
    memory.saved_tensors(RunConfig(**SMALL, precision="pure-bf16"))
    assert torch.equal(torch.rand(4), want)
    assert torch.get_default_dtype() == torch.float32
    assert load(json.dumps(mixed.to_json())) == mixed


def test_a_disagreement_with_the_tracker_withdraws_the_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = Ledger.peak
    monkeypatch.setattr(Ledger, "peak", lambda self: (
        honest(self)[0], 2 * honest(self)[1], "backward"))
    found = memory.trace(RunConfig(**TINY))
    assert all(v is None for k, v in found.memory_bytes.items() if k != "peak")
    assert "no part of it is reported" in found.reasons["memory_bytes"]
    assert found.peak_bytes > 0


def test_the_ledger_follows_views_frees_and_the_fullest_moment() -> None:
    ledger = Ledger()
    with ledger, torch.no_grad():
        ledger.phase = "first"
        a = torch.zeros(1000)
        view = a[10:20]
        ledger.hold([view], "parameters")
        b = torch.zeros(500)
        ledger.phase = "second"
        del b
        c = torch.zeros(100)
    kinds, most, phase = ledger.peak()
    assert (most, phase) == (6000.0, "first")
    assert kinds["parameters"] == 4000.0
    assert kinds["transient"] == 2000.0
    assert c.numel() == 100


def test_on_a_cpu_the_tracker_stands_and_says_so() -> None:
    found = memory.measure_memory(RunConfig(**TINY), "device", "cpu")
    assert found.backend == "device"
    assert "tracker" in found.notes["backend"]
    assert found.reserved_bytes is None
    assert found.reasons["reserved_bytes"]
    assert found.tracker_peak_bytes == found.peak_bytes


def test_a_gpu_is_asked_for_its_allocators_count(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Device(torch.device("cuda", 0), "A pretended GPU", 16e9, 1, None, {})
    order: list[str] = []
    pretend = {"empty_cache": None, "memory_allocated": 1000, "synchronize": None,
               "reset_peak_memory_stats": None, "max_memory_allocated": 501_000,
               "memory_reserved": 600_000, "mem_get_info": (15_000_000, 16_000_000),
               "get_device_capability": (9, 0)}
    for name, answer in pretend.items():
        monkeypatch.setattr(torch.cuda, name,
                            lambda *_, name=name, answer=answer: order.append(name) or answer)
    build, batches = memory.gpt2_step.build, memory.gpt2_step.random_batches
    monkeypatch.setattr(memory.gpt2_step, "build", lambda config, target: build(config, "cpu"))
    monkeypatch.setattr(memory.gpt2_step, "random_batches",
                        lambda config, target: batches(config, "cpu"))
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    config = RunConfig(**TINY)
    found = memory.on_device(config, here)
    assert found.peak_bytes == 500_000
    assert found.reserved_bytes == 600_000
    assert found.context_bytes == 400_000
    assert found.tracker_peak_bytes == memory.trace(config).peak_bytes
    assert found.overhead_bytes == 500_000 - found.tracker_peak_bytes
    assert memory.trace(config).overhead_bytes is None
    measured = order.index("reset_peak_memory_stats"), order.index("max_memory_allocated")
    assert "synchronize" in order[measured[0]:measured[1]]

    def full(config: RunConfig, target: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
    monkeypatch.setattr(memory.gpt2_step, "build", full)
    with pytest.raises(OutOfMemoryError, match="Halve --batch") as caught:
        memory.on_device(config, here)
    assert caught.value.run == config
    assert caught.value.there == 15_600_000


def test_measure_and_predict_print_the_same_keys(
    capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRONLAW_HOME", str(tmp_path))
    flags = ["--model", "nano", "--layers", "1", "--seq", "32", "--batch", "2", "--json"]
    assert cli.main(["predict", *flags]) == 0
    predicted = json.loads(capsys.readouterr().out)
    assert cli.main(["measure", *flags]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert set(predicted) <= set(measured)
    assert set(predicted["memory_bytes"]) == set(measured["memory_bytes"])
    for name in ("config", "flops_per_token", "flops_per_step", "hardware_flops_per_step"):
        assert measured[name] == predicted[name]
    assert measured["memory_bytes"]["peak"] == pytest.approx(
        predicted["memory_bytes"]["peak"], rel=0.01)
    assert measured["step_seconds"] is None
    assert "--backend device" in measured["reasons"]["step_seconds"]
    assert cli.main(["measure", *flags[:-1], "--backend", "device", "--on", "cpu",
                     "--steps", "2"]) == 0
    said = capsys.readouterr().out
    assert "tokens per second" in said
    assert "A CPU keeps no count of its tensors" in said
    assert cli.main(["measure", "--backend", "device", "--device", "H100 80GB SXM"]) == 2


