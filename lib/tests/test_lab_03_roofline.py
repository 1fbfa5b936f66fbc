"""Lab 3's measurement: kept in the notebook, and as points for the roofline widget."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ironlaw import workspace
from ironlaw.lab import RooflineRun, check, measure_kernels, roofline_run
from ironlaw.lab.checking import CheckError
from ironlaw.lab.recording import NotMeasuredError
from ironlaw.results import load
from ironlaw.widgets.roofline.state import measured_points

RECORDED = (Path(__file__).parents[2] / "autograder" / "ironlaw_autograder" / "simulate"
            / "recorded" / "lab_03_roofline.json")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.setenv("IRONLAW_HOME", str(tmp_path))
    return tmp_path


def test_a_measurement_is_read_back_and_its_points_reach_the_widget() -> None:
    text = RECORDED.read_text(encoding="utf-8")
    run = measure_kernels(text)
    assert isinstance(run, RooflineRun)
    for name, kept in json.loads(text).items():
        assert getattr(run, name) == load(kept)
    shown = measured_points()
    assert [p.name for p in shown] == [k.name for k in run.roofline.kernels]
    assert [(p.intensity, p.flops_per_second) for p in shown] == [
        (k.intensity, k.flops_per_second) for k in run.roofline.kernels]
    assert "attention, fused" in str(run)
    assert "Other programs were running" in str(run)


def test_the_points_carry_the_roofs_that_were_measured_with_them() -> None:
    roof = measure_kernels(RECORDED.read_text(encoding="utf-8")).roofline
    for point in measured_points():
        assert (point.device, point.dtype, point.peak, point.bandwidth) == (
            roof.device, roof.dtype, roof.peak_flops_per_second, roof.bytes_per_second)


def test_a_fresh_measurement_is_kept_as_profile_only_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = RECORDED.read_text(encoding="utf-8")
    run = measure_kernels(text)
    assert workspace.profile() is None, "a record may come from another machine"
    made = {"profile": run.profile, "roofline": run.roofline}
    monkeypatch.setattr(roofline_run, "_measure", lambda model: made)
    measure_kernels("")
    assert workspace.profile() == run.profile
    fresher = dataclasses.replace(run.profile, measured_on="2031-01-01T00:00:00+00:00")
    workspace.save_profile(fresher)
    for recorded in ("", text):
        measure_kernels(recorded)
        assert workspace.profile() == fresher


def test_nothing_is_measured_or_kept_while_a_notebook_is_graded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(NotMeasuredError):
        measure_kernels("\n")
    measure_kernels(RECORDED.read_text(encoding="utf-8"))
    assert workspace.get("labs") == {}


def test_a_disk_that_cannot_be_written_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError("No space left on device")
    monkeypatch.setattr(workspace, "put", full)
    assert len(measure_kernels(RECORDED.read_text(encoding="utf-8")).points()) == 9


def test_the_recorded_operations_keep_below_their_roofs() -> None:
    roof = measure_kernels(RECORDED.read_text(encoding="utf-8")).roofline
    for kernel in roof.kernels:
        best = min(roof.peak_flops_per_second, kernel.intensity * roof.bytes_per_second)
        assert 0 < kernel.flops_per_second <= best, kernel.name
        assert not kernel.cache_resident


def test_the_record_shows_no_ridge_and_no_intensity_before_they_are_worked_out() -> None:
    run = measure_kernels(RECORDED.read_text(encoding="utf-8"))
    assert "ridge" not in str(run)
    assert "FLOP/B" not in str(run)
    table = run.compare(lambda kernel: kernel.intensity, lambda i, peak, bandwidth: peak)
    assert [row.measured for row in table.rows] == [
        kernel.flops_per_second / 1e9 for kernel in run.roofline.kernels]
    assert {row.predicted for row in table.rows} == {run.roofline.peak_flops_per_second / 1e9}


def checked(test: Any, **answers: Any) -> str:
    """What a check says about these answers; '' when it has nothing to say."""
    measured = measure_kernels(RECORDED.read_text(encoding="utf-8"))
    try:
        exec("check(test)", {"check": check, "test": test, "measured": measured, **answers})
    except CheckError as problem:
        return str(problem)
    return ""


def test_the_check_of_bounds_asks_that_one_ridge_can_part_them() -> None:
    kernels = measure_kernels(RECORDED.read_text(encoding="utf-8")).roofline.kernels
    sides = {k.name: "memory" if k.intensity < 5 else "compute" for k in kernels}
    test = roofline_run.names_bounds
    assert checked(test, predicted_bound=sides) == ""
    assert checked(test, predicted_bound=dict.fromkeys(sides, "memory")) == ""
    assert "no ridge" in checked(test, predicted_bound={**sides, "head product": "memory"})
    assert "'memory' or 'compute'" in checked(test, predicted_bound={**sides, "GELU": "cache"})
    assert "dictionary" in checked(test, predicted_bound=list(sides))


def test_the_check_of_shares_asks_for_a_share_of_every_operation() -> None:
    kernels = measure_kernels(RECORDED.read_text(encoding="utf-8")).roofline.kernels
    shares = {k.name: 0.5 for k in kernels}
    test = roofline_run.names_shares
    assert checked(test, reached=shares) == ""
    assert "GELU" in checked(test, reached={**shares, "GELU": 50})
    assert "GELU" in checked(test, reached={k: v for k, v in shares.items() if k != "GELU"})
    assert "dictionary" in checked(test, reached=0.5)
