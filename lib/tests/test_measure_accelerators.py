"""Accelerators that are not here: every fallback is said, and nothing is guessed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ironlaw import compare
from ironlaw.config import RunConfig
from ironlaw.errors import UnavailableError
from ironlaw.measure import (
    calibration,
    device,
    matmul,
    memory,
    parts,
    roofline,
    timing,
    trace,
)
from ironlaw.transformer import Shape

TINY = RunConfig(layers=1, width=16, heads=2, vocab=64, batch=4, seq=8)
CPU = torch.device("cpu")
MPS = torch.device("mps")


class PretendedGpu(device.Device):
    """Takes every path of a CUDA device, and computes on the CPU."""

    @property
    def type(self) -> str:
        return "cuda"


GPU = PretendedGpu(CPU, "NVIDIA Something", 8e9, 4, None, {})


@pytest.mark.parametrize("problem", [
    TypeError("BFloat16 is not supported on MPS\nand more"), RuntimeError("no BFloat16\n")])
def test_a_mac_without_bfloat16_says_so_instead_of_failing(
        monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    real = torch.zeros

    def zeros(*size: int, **more: Any) -> torch.Tensor:
        if more.get("dtype") == torch.bfloat16:
            raise problem
        return real(*size, dtype=more.get("dtype"))

    monkeypatch.setattr(torch, "zeros", zeros)
    said = device.obstacle(MPS, "bf16")
    assert "BF16" in said
    assert "more" not in said
    assert device.obstacle(MPS, "fp16") == device.obstacle(MPS, "fp32") == ""


def test_no_value_reaches_a_mac_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPS has no float64: errors are computed on the CPU, wherever the product ran."""
    wide: list[str] = []
    real = torch.Tensor.to

    def to(tensor: torch.Tensor, *where: Any, **more: Any) -> torch.Tensor:
        target = more.get("device", where[0] if where else None)
        if getattr(target, "type", None) == "mps":
            if tensor.dtype == torch.float64 and torch.float64 in (*where, tensor.dtype):
                wide.append("float64 to MPS")
            more["device"] = CPU
            return real(tensor, *where[1:], **more)
        return real(tensor, *where, **more)

    monkeypatch.setattr(torch.Tensor, "to", to)
    assert matmul.float32_is_exact(MPS)
    assert wide == []


@pytest.mark.parametrize(("where", "repeats"), [(CPU, 2), (MPS, 10)])
def test_samples_on_a_mac_are_long_enough_to_hide_the_wait(
        monkeypatch: pytest.MonkeyPatch, where: torch.device, repeats: int) -> None:
    asked: list[int] = []

    def clock(call: Any, device: torch.device, repeats: int = 1) -> float:
        asked.append(repeats)
        return 1e-3

    monkeypatch.setattr(timing, "seconds_per_call", clock)
    timing.sample(lambda: None, where, seconds=1e-6, least=1)
    assert asked[:2] == [1, repeats]
    timing.sample(lambda: None, where, seconds=1e-6, least=1, shortest=0.0)
    assert asked.pop() == 1, "one call a sample where that is asked for"


@pytest.mark.parametrize(("exact", "noted"), [(True, "matmul.tf32"), (False, "matmul.fp32")])
def test_tf32_that_is_forced_or_forbidden_from_outside_is_noticed(
        monkeypatch: pytest.MonkeyPatch, exact: bool, noted: str) -> None:
    monkeypatch.setattr(matmul, "float32_is_exact", lambda where: exact)
    monkeypatch.setattr(matmul, "_samples", lambda product, *_: [product.flops / 1e12])
    monkeypatch.setattr(calibration, "obstacle", lambda where, dtype: "")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    found = calibration.calibrate(GPU, ["fp32", "tf32"], 0.5)
    assert {k for k in found.notes if k in ("matmul.fp32", "matmul.tf32")} == {noted}
    assert "NVIDIA_TF32_OVERRIDE" in found.notes[noted]
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_gpu_that_must_not_be_profiled_is_not_taken_for_an_idle_one(
        monkeypatch: pytest.MonkeyPatch) -> None:
    real = trace.profile

    def without_kernels(activities: list[Any], **more: Any) -> Any:
        assert trace.ProfilerActivity.CUDA in activities
        return real(activities=[trace.ProfilerActivity.CPU], **more)

    monkeypatch.setattr(trace, "profile", without_kernels)
    monkeypatch.setattr(trace.timing, "synchronise", lambda where: None)
    with pytest.raises(UnavailableError, match="not one of its kernels"):
        trace.measure_trace(TINY, steps=1, device=GPU)
    with pytest.raises(UnavailableError, match="not one of its kernels"):
        trace.launches(lambda: torch.ones(2) + 1, torch.device("cuda"))


def test_then_the_comparison_goes_on_with_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise UnavailableError("What the GPU ran", "the profiler saw not one of its kernels.",
                               "Allow profiling.")

    monkeypatch.setattr(parts, "measure_parts", refused)
    lines: list[str] = []
    laid, _ = compare.run(TINY, steps=3, warmup=1, device="cpu", progress=lines.append)
    assert laid.parts == []
    assert any("estimated instead" in line for line in lines)
    assert laid.row("memory_bytes").measured


def test_macs_and_cpus_say_whose_memory_figures_these_are(monkeypatch: pytest.MonkeyPatch) -> None:
    mac = device.Device(MPS, "Apple M2", 1e10, 8, None, {})
    assert "holds now" in memory.on_device(TINY, mac).notes["backend"]
    note = memory.on_device(TINY, device.find("cpu")).notes["backend"]
    assert "A CPU keeps no count" in note
    assert "'adamw' takes in an accelerator's multi-tensor kernels and not on a CPU" in note
    fused = TINY.replace(optimizer="adamw-fused")
    assert "kernels" not in memory.on_device(fused, device.find("cpu")).notes["backend"]


@pytest.mark.parametrize(("supported", "usual"), [(True, "bf16"), (False, "fp16")])
def test_where_bfloat16_is_emulated_instruments_take_float16(
        monkeypatch: pytest.MonkeyPatch, supported: bool, usual: str) -> None:
    monkeypatch.setattr(device, "obstacle", lambda where, dtype: "" if supported else "emulated")
    assert device.usual_dtype(GPU) == usual
    assert device.usual_dtype(device.find("cpu")) == "fp32"


def test_a_gpus_roofline_takes_its_own_format_cache_and_sizes(
        monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (device, roofline):
        monkeypatch.setattr(module, "obstacle", lambda where, dtype: "")
    monkeypatch.setattr(torch.cuda, "get_device_properties",
                        lambda where: SimpleNamespace(L2_cache_size=10_000_000))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda where: (7, 5))
    monkeypatch.setattr(roofline, "_spill_bytes", lambda here: 1e5)
    real = roofline._probes
    monkeypatch.setattr(roofline, "_probes", lambda here, number: real(
        device.Device(CPU, "CPU", 1e9, 1, None, {}), number))
    small = Shape("small", layers=1, width=16, heads=2, context=16, vocab=64)
    monkeypatch.setattr(roofline, "model", lambda name: small)
    found = roofline.measure_roofline(GPU, seconds=0.2)
    assert (found.dtype, found.device_type) == ("bf16", "cuda")
    assert all(k.cache_resident == ((k.footprint_bytes or 0) <= 10_000_000)
               for k in found.kernels)
    assert found.versions["capability"] == "7.5"
    sequences = int(found.kernel("attention, fused").shape.split(" x ")[0])
    assert sequences >= 8, "a GPU gets eight sequences at the least"
