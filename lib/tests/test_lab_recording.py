"""A measurement is made once, kept in the notebook's own cell, and read back anywhere."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.lab import Residuals, measure_training, recording, training_run
from ironlaw.lab.recording import NotMeasuredError
from ironlaw.results import Result

CELL = 'measured = measure_training(r"""\n""")\nprint(measured)'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """A real measurement, as small as it can be."""
    text = tmp_path_factory.mktemp("corpus") / "text.txt"
    text.write_text("The iron law of training has three terms. " * 400, encoding="utf-8")
    small = training_run.Plan(RunConfig(model="nano", batch=1, seq=16), timed_steps=5, steps=3,
                              seconds=0.5, corpus=str(text))
    return training_run.measure(chosen=small)


@pytest.fixture(scope="module")
def text(made: dict[str, Result]) -> str:
    return json.dumps({name: result.to_json() for name, result in made.items()})


def test_a_real_measurement_survives_the_notebook(made: dict[str, Result], text: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_run, "measure", lambda *_: pytest.fail("it measured again"))
    names: dict[str, Any] = {"measure_training": measure_training}
    filled = recording.fill(CELL, text)
    assert filled is not None
    exec(filled, names)
    run = names["measured"]
    assert {f.name: getattr(run, f.name) for f in dataclasses.fields(run)} == made
    assert 0 < run.step.mfu <= 1
    assert run.training.checkpoint is None
    assert "tokens/s" in str(run)


def test_a_filled_cell_is_not_filled_again(text: str) -> None:
    filled = recording.fill(CELL, text)
    assert filled is not None
    assert recording.fill(filled, text) is None
    assert recording.fill(CELL, 'a """ b') is None


@pytest.mark.parametrize("execution", ["validate", "autograde"])
def test_nothing_is_measured_while_a_notebook_is_graded(
    execution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", execution)
    monkeypatch.setattr(training_run, "measure", lambda *_: pytest.fail("it measured"))
    with pytest.raises(NotMeasuredError, match="run this cell once"):
        measure_training("  \n")


@pytest.mark.parametrize("damage", [
    lambda data: "not json", lambda data: "[1]",
    lambda data: json.dumps({**data, "step": data["profile"]}),
    lambda data: json.dumps({**data, "step": {"kind": "step", "schema": 1}}),
    lambda data: json.dumps({**data, "profile": None}),
    lambda data: json.dumps({"step": data["step"]}),
])
def test_a_damaged_record_is_named_with_the_way_out(text: str, damage: Any) -> None:
    with pytest.raises(InputError, match="Empty the quotes"):
        measure_training(damage(json.loads(text)))


def test_floats_are_kept_to_seven_digits() -> None:
    assert recording._short({"a": [1 / 3, 2], "b": "x"}) == {"a": [0.3333333, 2], "b": "x"}


def test_the_plan_fits_the_device() -> None:
    assert training_run.plan("cpu").config.model == "nano"
    assert training_run.plan("cuda").config.model == "gpt2-124m"
    assert training_run.plan("cuda", "nano").config.model == "nano"


def test_the_table_shows_every_column_and_signs_its_residuals() -> None:
    table = Residuals().add("one step", "s", guess=1.0, predicted=2.0, measured=3.0)
    table.add("speed", "tokens/s", measured=10.0).add("none", "", predicted=0.0, measured=1.0)
    shown = str(table).splitlines()
    assert shown[0].split() == ["quantity", "guess", "predicted", "measured", "residual"]
    assert shown[1].split() == ["one", "step", "(s)", "1.000", "2.000", "3.000", "+50%"]
    assert shown[2].endswith("–")
    assert "<td>+50%</td>" in table._repr_html_()
    with pytest.raises(InputError, match="one step: guess"):
        table.add("one step", "s", guess=float("nan"))


def test_the_running_cell_is_offered_its_measurement(
    text: str, monkeypatch: pytest.MonkeyPatch, made: dict[str, Result], tmp_path: Path
) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    offered: list[tuple[str, bool]] = []
    monkeypatch.setattr(type(shell), "set_next_input",
                        lambda self, source, replace=False: offered.append((source, replace)))
    monkeypatch.setattr(training_run, "measure", lambda *_: made)
    shell.user_ns["measure_training"] = measure_training
    try:
        assert shell.run_cell(CELL, store_history=True).success
    finally:
        InteractiveShell.clear_instance()
    ((source, replace),) = offered
    assert replace
    assert source.startswith('measured = measure_training(r"""\n{')
    assert source.endswith('""")\nprint(measured)')
