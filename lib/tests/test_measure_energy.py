"""Power integrated over time, with a stand-in for the sensor; and honest without one."""

from __future__ import annotations

import itertools
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ironlaw import results
from ironlaw.config import RunConfig
from ironlaw.errors import InputError, UnavailableError
from ironlaw.measure import device, energy

TINY = RunConfig(layers=1, width=16, heads=2, vocab=64, batch=1, seq=8)
CUDA = device.Device(torch.device("cuda", 1), "GPU", None, 4, None, {})


def test_a_ramp_has_the_area_of_its_triangle() -> None:
    ramp = [(t / 10, 30.0 * t / 10) for t in range(11)]
    assert energy.integrate(ramp) == pytest.approx(15.0)
    assert energy.integrate([(0.0, 100.0), (1.0, 100.0), (4.0, 100.0)]) == pytest.approx(400.0)
    assert energy.integrate([(2.0, 70.0)]) == energy.integrate([]) == 0.0


@given(st.lists(st.tuples(st.floats(0.01, 5), st.floats(0, 700)), min_size=2, max_size=30))
def test_the_integral_of_two_halves_is_that_of_the_whole(pairs: list[tuple[float, float]]) -> None:
    times = list(itertools.accumulate(gap for gap, _ in pairs))
    samples = list(zip(times, (watts for _, watts in pairs), strict=True))
    cut = len(samples) // 2
    parts = energy.integrate(samples[:cut + 1]) + energy.integrate(samples[cut:])
    assert parts == pytest.approx(energy.integrate(samples))
    span = times[-1] - times[0]
    least, most = min(w for _, w in samples), max(w for _, w in samples)
    assert least * span - 1e-6 <= energy.integrate(samples) <= most * span + 1e-6


def test_the_sampler_reads_at_both_ends_and_survives_a_failed_reading() -> None:
    readings = iter([100.0, None, *[200.0] * 10_000])

    def watts() -> float:
        value = next(readings)
        if value is None:
            raise RuntimeError("sensor is busy")
        return value

    with energy.Sampler(watts, period=0.001) as sampler:
        while len(sampler.samples) < 4:
            pass
    assert sampler.failed == 1
    assert sampler.samples[0][1] == 100.0
    times = [t for t, _ in sampler.samples]
    assert times == sorted(times)
    count = len(sampler.samples)
    assert not sampler._thread.is_alive()
    assert len(sampler.samples) == count, "nothing is read after the end"


def test_a_cpu_is_not_measured_and_says_why() -> None:
    found = energy.measure_energy(TINY, seconds=0.1, device="cpu")
    assert (found.joules, found.counter_joules, found.idle_watts) == (None, None, None)
    assert found.joules_per_token is None
    assert found.steps == 0
    assert found.reasons["joules"].startswith("Not measured: ")
    assert "NVML" in found.reasons["joules"]
    assert results.load(json.dumps(found.to_json())) == found


class FakeNvml(SimpleNamespace):
    """The part of pynvml that is used: power in milliwatts, energy in millijoules."""

    class NVMLError(Exception):
        """As the library's own base of errors."""

    def __init__(self, **more: Any) -> None:
        counter = itertools.count(5_000_000, 90_000)
        self.asked: list[Any] = []
        super().__init__(**{
            "nvmlInit": lambda: None, "nvmlShutdown": lambda: self.asked.append("shutdown"),
            "nvmlDeviceGetHandleByUUID": lambda uuid: self.asked.append(uuid) or "handle",
            "nvmlDeviceGetHandleByIndex": lambda index: self.asked.append(index) or "handle",
            "nvmlDeviceGetHandleByPciBusId": lambda bus: self.asked.append(bus) or "handle",
            "nvmlDeviceGetCount": lambda: 1, "nvmlDeviceGetMigMode": lambda handle: (0, 0),
            "nvmlDeviceGetPowerUsage": lambda handle: 250_000,
            "nvmlDeviceGetTotalEnergyConsumption": lambda handle: next(counter), **more})

    def refuse(self, *_: Any) -> Any:
        """What a GPU without the feature does."""
        raise self.NVMLError("Not Supported")


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(torch.cuda, "get_device_properties",
                        lambda device: SimpleNamespace(name="GPU", uuid="1234-abcd"))
    return fake


def test_the_sensor_is_that_of_the_same_gpu_and_speaks_watts_and_joules(nvml: FakeNvml) -> None:
    sensor = energy.nvml_sensor(CUDA)
    assert nvml.asked == [b"GPU-1234-abcd"], "by UUID: NVML counts hidden GPUs, too"
    assert sensor.watts() == 250.0
    assert sensor.counter() == 5000.0


def has(monkeypatch: pytest.MonkeyPatch, **properties: Any) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties",
                        lambda device: SimpleNamespace(**{"name": "GPU", **properties}))


def test_without_a_uuid_the_place_on_the_bus_decides(
        nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, pci_domain_id=0, pci_bus_id=0xC1, pci_device_id=0)
    energy.nvml_sensor(CUDA)
    assert nvml.asked == [b"00000000:C1:00.0"]


def test_a_number_is_trusted_with_a_single_gpu_only(
        nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA puts the fastest first and hides some; NVML's numbers are others."""
    has(monkeypatch)
    energy.nvml_sensor(CUDA)
    assert nvml.asked == [0]
    nvml.nvmlDeviceGetCount = lambda: 2
    with pytest.raises(UnavailableError, match="UUID"):
        energy.nvml_sensor(CUDA)
    assert nvml.asked[-1] == "shutdown", "the library is let go of"


def test_a_slice_of_a_gpu_does_not_get_the_whole_gpus_power(
        nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", uuid="1234")
    with pytest.raises(UnavailableError, match="MIG"):
        energy.nvml_sensor(CUDA)
    has(monkeypatch, name="NVIDIA A100-SXM4-40GB", uuid="GPU-1234")
    energy.nvml_sensor(CUDA)
    assert nvml.asked[-1] == b"GPU-1234"
    nvml.nvmlDeviceGetMigMode = lambda handle: (1, 1)
    with pytest.raises(UnavailableError, match="MIG"):
        energy.nvml_sensor(CUDA)
    nvml.nvmlDeviceGetMigMode = nvml.refuse  # a GPU that cannot be sliced
    assert energy.nvml_sensor(CUDA).watts() == 250.0


def test_an_amd_gpu_is_not_asked_through_nvml(nvml: FakeNvml,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.2")
    with pytest.raises(UnavailableError, match="AMD"):
        energy.nvml_sensor(CUDA)
    assert nvml.asked == []


def test_stretches_without_a_reading_are_named() -> None:
    samples = [(0.3, 1.0), (0.35, 1.0), (1.35, 1.0), (1.4, 1.0)]
    assert energy.gaps(samples, 1.45) == [(0.0, 0.3), (0.35, 1.0)]
    assert energy.gaps(samples, 2.0)[-1] == (1.4, pytest.approx(0.6))
    assert energy.gaps([], 1.0) == [(0.0, 1.0)]
    assert energy.gaps([(k * energy.PERIOD, 1.0) for k in range(21)], 1.0) == []


def test_a_sensor_that_falls_silent_leaves_its_gap_in_the_result(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reading after the third fails, but for the last: most of the time was not seen."""
    monkeypatch.setattr(energy, "GAP", 0.02)
    monkeypatch.setattr(energy, "_IDLE_SECONDS", 0.01)
    monkeypatch.setattr(energy, "_SENSOR_SECONDS", 0.0)
    readings = itertools.count()

    def watts() -> float:
        if next(readings) > 5:
            raise RuntimeError("gone")
        return 50.0

    sensor = energy.Sensor(watts=watts, counter=lambda: None)
    monkeypatch.setattr(energy, "nvml_sensor", lambda here: sensor)
    found = energy.measure_energy(TINY, seconds=0.5, device="cpu")
    assert found.gaps
    assert found.gaps[-1][1] > 0.1
    assert "without a reading" in found.notes["gaps"]
    assert "failed" in found.notes
    assert found.joules is not None
    assert found.joules < 50.0 * found.seconds
    assert results.load(json.dumps(found.to_json())) == found


def test_a_gpu_without_sensor_or_counter_says_so(nvml: FakeNvml) -> None:
    nvml.nvmlDeviceGetTotalEnergyConsumption = nvml.refuse
    assert energy.nvml_sensor(CUDA).counter() is None
    nvml.nvmlDeviceGetPowerUsage = nvml.refuse
    with pytest.raises(UnavailableError, match="Not Supported"):
        energy.nvml_sensor(CUDA)


def test_without_the_library_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(UnavailableError, match="nvidia-ml-py"):
        energy.nvml_sensor(CUDA)


def test_steps_are_run_and_their_energy_divided_by_their_tokens(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole path on a CPU with a sensor of constant 80 W."""
    counter = iter([10.0, 34.0])
    closed: list[bool] = []
    sensor = energy.Sensor(watts=lambda: 80.0, counter=lambda: next(counter),
                           close=lambda: closed.append(True))
    monkeypatch.setattr(energy, "nvml_sensor", lambda here: sensor)
    monkeypatch.setattr(energy, "_IDLE_SECONDS", 0.01)
    monkeypatch.setattr(energy, "_SENSOR_SECONDS", 0.01)
    found = energy.measure_energy(TINY, seconds=0.15, device="cpu")
    assert found.steps >= 1
    assert found.tokens == found.steps * 8
    assert found.joules == pytest.approx(80.0 * (found.power[-1][0] - found.power[0][0]))
    assert found.joules_per_token == pytest.approx(found.joules / found.tokens)
    assert (found.counter_joules, found.idle_watts) == (24.0, 80.0)
    assert closed == [True]
    assert results.load(json.dumps(found.to_json())) == found


def test_a_dead_sensor_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> float:
        raise RuntimeError("gone")

    sensor = energy.Sensor(watts=broken, counter=lambda: None)
    monkeypatch.setattr(energy, "nvml_sensor", lambda here: sensor)
    monkeypatch.setattr(energy, "_IDLE_SECONDS", 0.01)
    monkeypatch.setattr(energy, "_SENSOR_SECONDS", 0.01)
    found = energy.measure_energy(TINY, seconds=0.05, device="cpu")
    assert (found.joules, found.counter_joules, found.idle_watts) == (None, None, None)
    assert set(found.reasons) == {"joules", "counter_joules", "idle_watts"}


def test_seconds_must_be_positive() -> None:
    with pytest.raises(InputError, match="seconds"):
        energy.measure_energy(TINY, seconds=0.0, device="cpu")
