"""What a residual consists of: parts that were measured, and that sum to it."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from comparing import CONFIG, PEAK, anchors, measurement, memory_of, parts_of
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw import compare
from ironlaw.errors import InputError
from ironlaw.predict.peak import step_memory
from ironlaw.results import MemoryMeasurement, load


@settings(deadline=None)
@given(line=st.tuples(st.floats(0, 0.05), st.floats(1e-6, 1e-4)), seconds=st.floats(0.01, 1.0),
       few=st.floats(0, 0.1), more=st.floats(0, 0.1), head=st.floats(0, 0.3),
       update=st.floats(0, 0.1), busy=st.none() | st.floats(0, 0.5))
def test_measured_parts_sum_to_both_residuals(
        line: tuple[float, float], seconds: float, few: float, more: float, head: float,
        update: float, busy: float | None) -> None:
    smaller = compare.anchor_configs(CONFIG)
    parts = [parts_of(smaller[0], head=few, update=update / 2),
             parts_of(smaller[1], head=more, update=update),
             parts_of(CONFIG, head=head, update=update, busy=busy)]
    laid = compare.lay(measurement(seconds=seconds), anchors=anchors(*line), parts=parts)
    for key in ("floor_seconds", "step_seconds"):
        row = laid.row(key)
        assert [p.name for p in row.parts] == ["launch", "optimizer", "loss head", "rest"]
        assert row.measured is not None
        assert row.predicted is not None
        assert sum(p.amount for p in row.parts) == pytest.approx(
            row.measured - row.predicted, abs=1e-9)
    assert load(json.dumps(laid.to_json())) == laid


def test_each_part_is_what_was_measured_of_it() -> None:
    laid = compare.lay(measurement(seconds=0.12), parts=[parts_of()])
    launch, update, head, rest = (p.amount for p in laid.row("floor_seconds").parts)
    floor = laid.row("floor_seconds").predicted
    assert floor is not None
    products = 6 * CONFIG.shape.width * CONFIG.shape.vocab * 1024 / PEAK
    assert (launch, update) == (pytest.approx(800 * 2e-6), 0.01)
    assert head == pytest.approx(0.03 - products), "the floor holds the head's products already"
    assert rest == pytest.approx(0.12 - floor - launch - update - head)
    shown = str(laid)
    for words in ("800 operations", "loss head", "4,096 tokens of vocabulary", "900 launches"):
        assert words in shown


def test_steps_on_the_line_whose_parts_are_not() -> None:
    """The head is 6 ms over its line and the update 1 ms; the step is 5 ms over: 2 ms less."""
    smaller = compare.anchor_configs(CONFIG)
    parts = [parts_of(smaller[0], head=0.010), parts_of(smaller[1], head=0.015),
             parts_of(CONFIG, head=0.031, update=0.011)]
    laid = compare.lay(measurement(seconds=0.02 + 8e-5 * 1024 + 0.005),
                       anchors=anchors(0.02, 8e-5), parts=parts)
    found = {p.name: p.amount for p in laid.row("step_seconds").parts}
    assert found == pytest.approx(
        {"launch": 0.0, "optimizer": 0.001, "loss head": 0.006, "rest": -0.002}, abs=1e-12)


def test_on_a_gpu_only_idle_time_is_due_to_launches() -> None:
    for busy, due in ((None, 1.6e-3), (0.11, 1.6e-3), (0.1195, 0.5e-3), (0.13, 0.0)):
        laid = compare.lay(measurement(seconds=0.12), parts=[parts_of(busy=busy)])
        part = laid.row("floor_seconds").parts[0]
        assert part.amount == pytest.approx(due)
        assert ("was idle" in part.why) == (due < 1.6e-3)


def test_on_a_mac_launches_count_at_most() -> None:
    mac = dataclasses.replace(parts_of(), device_type="mps")
    part = compare.lay(measurement(seconds=0.12), parts=[mac]).row("floor_seconds").parts[0]
    assert part.amount == pytest.approx(1.6e-3)
    assert "at most" in part.why
    assert "at most" not in compare.lay(measurement(), parts=[parts_of()]).row(
        "floor_seconds").parts[0].why


def test_parts_of_another_step_are_refused() -> None:
    with pytest.raises(InputError, match="parts"):
        compare.lay(measurement(), parts=[parts_of(CONFIG.replace(batch=2))])


def test_memory_stands_beside_its_prediction_kind_by_kind() -> None:
    laid = compare.lay(measurement(), memory=memory_of(activations=5e6, beyond=1e6))
    row = laid.row("memory_bytes")
    assert row.predicted == step_memory(CONFIG).peak
    assert row.measured is not None
    assert row.measured - row.predicted == pytest.approx(6e6, abs=1)
    amounts = {p.name: p.amount for p in row.parts}
    assert sum(amounts.values()) == pytest.approx(row.measured - row.predicted)
    assert amounts["activations"] == pytest.approx(5e6, abs=1)
    assert amounts["allocator"] == pytest.approx(1e6, abs=1)
    shown = str(laid)
    assert re.search(r"5\.0 MB  activations \(predicted .*MB \(.*MiB\), measured", shown)
    assert "cast copies" not in shown, "a kind that was right needs no line"
    unknown = compare.lay(measurement())
    assert unknown.row("memory_bytes").measured is None
    assert "not measured" in unknown.row("memory_bytes").reason
    assert "Memory was not measured" in str(unknown)


def test_a_split_that_the_tracker_withdrew_leaves_one_part() -> None:
    whole = memory_of(activations=5e6)
    withdrawn = MemoryMeasurement.from_json(whole.to_json() | {
        "memory_bytes": dict.fromkeys(whole.memory_bytes) | {"peak": whole.peak_bytes},
        "reasons": {"memory_bytes": "The split adds up to less."}})
    parts = compare.lay(measurement(), memory=withdrawn).row("memory_bytes").parts
    assert [(p.name, p.why) for p in parts] == [
        ("all kinds together", "The split adds up to less.")]
