"""Lab 2's measurement: what runs where, that it is kept, and what it tells a reader."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ironlaw.lab import MemoryRun, measure_memory, memory_run
from ironlaw.lab.recording import NotMeasuredError
from ironlaw.measure import memory
from ironlaw.measure.device import Device
from ironlaw.results import load

RECORDED = (Path(__file__).parents[2] / "autograder" / "ironlaw_autograder" / "simulate"
            / "recorded" / "lab_02_memory.json")


def test_a_measurement_is_read_back_as_it_was_made() -> None:
    text = RECORDED.read_text(encoding="utf-8")
    run = measure_memory(text)
    assert isinstance(run, MemoryRun)
    for name, kept in json.loads(text).items():
        assert getattr(run, name) == load(kept)
    assert run.peak_bytes == run.flash.peak_bytes
    assert "159.1 MB" in str(run)
    assert "largest batch is 55" in str(run)


def test_nothing_is_measured_while_a_notebook_is_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(NotMeasuredError):
        measure_memory("\n")


def test_a_gpu_gets_the_full_model_its_allocator_and_most_of_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    kept = measure_memory(RECORDED.read_text(encoding="utf-8"))
    here = Device(torch.device("cuda", 0), "A pretended GPU", 40e9, 1, None, {})
    asked: list[Any] = []

    def counted(config: Any, device: Any = None) -> Any:
        asked.append(config)
        return dataclasses.replace(
            kept.flash, backend="device", device=device.name if device else "fake",
            tracker_peak_bytes=9 * 10**9, reserved_bytes=11 * 10**9,
            context_bytes=5 * 10**8)

    def swept(config: Any, limit: float) -> Any:
        asked.append(limit)
        return kept.sweep

    monkeypatch.setattr("ironlaw.measure.device.find", lambda: here)
    monkeypatch.setattr("ironlaw.measure.device.obstacle", lambda device, dtype: "emulated")
    monkeypatch.setattr(memory, "on_device", counted)
    monkeypatch.setattr(memory, "trace", counted)
    monkeypatch.setattr(memory, "sweep", swept)
    run = measure_memory("")
    first, second, limit = asked
    assert (first.model, first.precision, first.attention) == ("gpt2-124m", "amp-fp16", "flash")
    assert second.attention == "materialised"
    assert limit == 36e9
    assert run.peak_bytes == 9e9
    assert "reserved 11.00 GB" in str(run)
    assert memory_run.configuration("cpu").model == "nano"


def test_the_account_is_compared_on_the_step_that_was_measured() -> None:
    run = measure_memory(RECORDED.read_text(encoding="utf-8"))
    asked: list[tuple[str, tuple[Any, ...]]] = []

    def says(name: str, answer: Any) -> Any:
        def function(*arguments: Any) -> Any:
            asked.append((name, arguments))
            return answer
        return function

    state = {"weights": 1.0, "gradients": 2.0, "master": 0.0, "moments": 3.0}
    table = run.compare(says("count", 10), says("state", state), says("block", 20),
                        says("step", 30), says("batch", 40), predicted_peak=50.0, guess=60.0)
    nano = (4, 128, 4, 4096, 256)
    assert asked == [("count", (4, 128, 4096, 256)), ("state", (10, "autocast")),
                     ("block", (8, 256, 128, 4, "tiled")),
                     ("block", (8, 256, 128, 4, "materialised")),
                     ("step", (*nano, 8, 256, "materialised")), ("batch", (1e9, *nano, 256))]
    found = {row.quantity: (row.guess, row.predicted, row.measured) for row in table.rows}
    assert found["peak, tiled"] == (60.0, 50.0, run.peak_bytes)
    assert found["moments"] == (None, 3.0, run.flash.optimizer_bytes)
    assert "all that it holds" not in found
    flash = dataclasses.replace(run.flash, backend="device", tracker_peak_bytes=9 * 10**9,
                                reserved_bytes=11 * 10**9, context_bytes=5 * 10**8)
    on_gpu = dataclasses.replace(run, flash=flash).compare(
        says("count", 10), says("state", state), says("block", 20), says("step", 30),
        says("batch", 40), predicted_peak=50.0).rows[-1]
    assert on_gpu.quantity == "all that it holds"
    assert (on_gpu.predicted, on_gpu.measured) == (9e9, 11.5e9)
