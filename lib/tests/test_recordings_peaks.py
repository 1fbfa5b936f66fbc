"""Recordings that come with the course respect the hardware that they were made on."""

from __future__ import annotations

import statistics

import pytest
from ironlaw import recordings
from ironlaw.results import DeviceProfile, RooflineMeasurement, StepMeasurement

NOISE = 1.05
"""A roof is the best of several tries and an operation a median, on a machine with other work."""


@pytest.mark.parametrize("name", recordings.names())
def test_no_recorded_rate_beats_its_peak(name: str) -> None:
    device, step, roof = (recordings.load(name, i) for i in ("device", "step", "roofline"))
    assert isinstance(device, DeviceProfile)
    assert isinstance(step, StepMeasurement)
    assert isinstance(roof, RooflineMeasurement)
    assert step.mfu is None or 0 < step.mfu <= 1
    assert step.peak is not None
    reached = step.flops_per_step / step.step_seconds
    assert reached <= step.peak.flops_per_second
    assert step.tokens_per_second == pytest.approx(step.tokens_per_step / step.step_seconds)
    for kernel in roof.kernels:
        assert kernel.flops_per_second <= NOISE * roof.peak_flops_per_second, kernel.name
        if not kernel.cache_resident:
            moved = kernel.traffic_bytes / kernel.seconds
            assert moved <= NOISE * max(roof.bytes_per_second, *roof.bandwidths.values()), kernel
    for rate in device.matmul.values():
        assert rate.flops_per_second >= max(rate.by_size.values()) / NOISE


@pytest.mark.parametrize("name", recordings.names())
def test_every_recorded_result_can_be_read_by_a_person(name: str) -> None:
    for instrument, entry in recordings.index(name).instruments.items():
        held = recordings.load(name, instrument)
        shown = str(held)
        assert type(held).__name__ not in shown, f"{instrument} prints as Python"
        assert len(shown.splitlines()) >= 3
        if entry.kind == "memory":
            assert "MB" in shown
            assert "at the peak" in shown
        if entry.kind == "roofline":
            assert "of its roof" in shown


def test_every_recorded_file_says_where_when_and_with_what_it_was_made() -> None:
    for name in recordings.names():
        index = recordings.index(name)
        for instrument, entry in index.instruments.items():
            data = recordings.load(name, instrument).to_json()
            assert data.get("device") or data["name"] == index.device, instrument
            assert data["versions"]["torch"] == entry.versions["torch"], instrument
            assert data["measured_on"][:10] == entry.measured_on[:10], instrument


@pytest.mark.parametrize("name", recordings.names())
def test_a_recorded_profile_keeps_the_samples_behind_every_rate(name: str) -> None:
    device = recordings.load(name, "device")
    assert isinstance(device, DeviceProfile)
    assert device.launch_seconds == pytest.approx(
        statistics.median(device.samples["launch"]), rel=1e-4)
    assert min(device.samples["copy"]) > 0
    for rate in device.matmul.values():
        for product, reached in rate.by_size.items():
            sizes = [int(n) for n in product.split("x")]
            m, k, n = sizes if len(sizes) == 3 else sizes * 3
            assert 2 * m * k * n / min(rate.samples[product]) == pytest.approx(reached, rel=1e-4)
