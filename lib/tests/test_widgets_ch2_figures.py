"""Figures of chapter 2, and the instrument and recording behind one of them."""

from __future__ import annotations

import json
import re
from importlib import resources

import pytest
import torch
from ironlaw import document, recordings, results
from ironlaw.errors import InputError
from ironlaw.measure import activations as instrument
from ironlaw.measure import device
from ironlaw.units import gigabytes, significant
from ironlaw.widgets import figures, figures_mathematics

REFERENCE = {
    "copy": lambda x: x, "ReLU": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "GELU": torch.nn.functional.gelu,
    "GELU, tanh form": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "softmax": lambda x: torch.softmax(x, -1),
}


def test_adam_state_says_the_documents_numbers() -> None:
    caption = figures.adam_state(1.5e9).caption
    assert gigabytes(document.value("nap12.static") * 1e9) in caption
    assert caption.count("24.0 GB") == 2, "FP32 and mixed precision keep the same"
    assert "4.00 times the weights" in caption


@pytest.mark.parametrize("parameters", [1e6, 1.5e9, 1e12])
def test_adam_state_draws_any_size(parameters: float) -> None:
    assert figures.adam_state(parameters).png.startswith(b"\x89PNG")
    with pytest.raises(InputError, match="parameters"):
        figures.adam_state(0)


def test_ladder_is_computed_from_its_inputs() -> None:
    still = figures.activation_ladder()
    assert gigabytes(document.value("nap13.act") * 1e9) in still.caption
    assert gigabytes(4.0 * 2 * (128 + 64 + 10)) in still.caption
    assert "more than the 32.0 GB" in still.caption
    assert "less than the 32.0 GB" in figures.activation_ladder(batch=1).caption
    assert gigabytes(4.0 * 2 * 10) in figures.activation_ladder((784, 10)).caption


@pytest.mark.parametrize("dtype", device.DTYPES)
def test_the_instrument_times_what_it_names(dtype: str) -> None:
    x = torch.randn(6, 40, dtype=device.DTYPES[dtype])
    for name, call in instrument.functions(x, out := torch.empty_like(x)).items():
        call()
        assert torch.equal(out, REFERENCE[name](x)), name


def test_a_measurement_travels_as_json() -> None:
    run = instrument.measure_activations((8, 64), device="cpu", seconds=0.1)
    assert set(run.samples) == set(REFERENCE)
    assert all(len(times) >= 10 and min(times) > 0 for times in run.samples.values())
    for name, times in run.samples.items():
        assert min(times) <= run.medians[name] <= max(times)
    again = results.load(json.loads(json.dumps(run.to_json())))
    assert again == run


def test_the_instrument_refuses_in_words() -> None:
    with pytest.raises(InputError, match="shape"):
        instrument.measure_activations((), device="cpu")
    with pytest.raises(InputError, match="fp64"):
        instrument.measure_activations((8, 8), "fp64", "cpu")


def test_a_recording_is_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--shape", "4", "32", "--device", "cpu", "--seconds", "0.1"]
    assert instrument.main(arguments) == 0
    run = results.load(capsys.readouterr().out)
    assert isinstance(run, results.ActivationTimings)
    assert run.shape == [4, 32]
    assert instrument.main([*arguments, "--shape", "0"]) == 2
    assert "shape[0] = 0" in capsys.readouterr().err


def test_recordings_hold_together() -> None:
    assert {"cpu_2core"} <= set(figures_mathematics.recordings()) <= set(recordings.names())
    for name in figures_mathematics.recordings():
        run = figures_mathematics.recorded(name)
        for function, times in run.samples.items():
            ordered = sorted(times)
            assert ordered[0] <= run.medians[function] <= ordered[-1]
        assert set(run.medians) == set(run.samples) == set(run.spreads) == set(REFERENCE)
        text = resources.files("ironlaw").joinpath(
            "recordings", name, "activations.json").read_text("utf-8")
        assert not re.search(r"/(home|root|tmp|Users)/", text)
        assert len(text) < 50_000


def test_timings_start_at_zero_and_say_where_they_come_from() -> None:
    run = figures_mathematics.recorded("cpu_2core")
    still = figures.activation_timings()
    for part in (run.device, run.dtype.upper(), run.measured_on[:10], "8 × 1,024 × 3,072"):
        assert part in still.caption
    compared = {name: min(times) for name, times in run.samples.items()} \
        if "busy" in run.notes else run.medians
    slowest = max(compared, key=compared.__getitem__)
    assert f"“{slowest}” {significant(compared[slowest] / compared['copy'], 2)} times" \
        in still.caption
    assert significant(1e3 * run.medians[slowest]) in still.alt
    with pytest.raises(InputError, match="recording"):
        figures.activation_timings("abacus")
