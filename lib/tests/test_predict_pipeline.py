"""Data pipeline, timelines, waves: equations 7 to 15, and schedules that obey them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw.predict import pipeline, schedule, waves
from ironlaw.predict.schedule import Stage

TIMES = st.lists(st.floats(1e-3, 10), min_size=1, max_size=5)


def test_equations_7_to_12_take_the_slowest() -> None:
    assert pipeline.storage_rate(7e9, 1e9) == 1e9
    assert pipeline.bottleneck_rate([4.0, 32.0, 12.0]) == 4.0
    assert pipeline.preprocessing_rate(4, 0.040) == pytest.approx(100.0)
    # 100 batches/s prepared, 50 transferred, 25 computed.
    assert pipeline.training_rate(100.0, 5e9, 1e8, 1e15, 4e13) == pytest.approx(25.0)
    assert pipeline.training_rate(100.0, 1e9, 1e8, 1e15, 4e13) == pytest.approx(10.0)
    assert pipeline.training_rate(5.0, 1e9, 1e8, 1e15, 4e13) == pytest.approx(5.0)


def test_a_faster_accelerator_does_not_help_a_starved_one() -> None:
    assert pipeline.utilisation(200, 1000) == 0.2
    assert pipeline.utilisation(200, 2000) == 0.1
    assert pipeline.utilisation(2000, 1000) == 1.0


@given(TIMES)
def test_overlap_pays_the_slowest_and_serial_pays_all(times: list[float]) -> None:
    assert pipeline.iteration_seconds(times) <= pipeline.serial_seconds(times)
    assert 1.0 <= pipeline.overlap_speedup(times) <= len(times) + 1e-9
    saving = 1 - 1 / pipeline.overlap_speedup(times)
    assert pipeline.overlap_saving(times) == pytest.approx(saving)


@given(st.floats(1e-3, 10), st.floats(1e-3, 10))
def test_enough_workers_is_the_fewest(prepare: float, compute: float) -> None:
    n = pipeline.workers_needed(prepare, compute)
    assert pipeline.keeps_up(prepare / n, compute * (1 + 1e-9))
    if n > 1:
        assert not pipeline.keeps_up(prepare / (n - 1), compute * (1 - 1e-9))


def test_a_stage_behind_another_gains_only_down_to_it() -> None:
    assert pipeline.stage_saving(0.1, 0.2, 0.05) == pytest.approx(0.02)
    assert pipeline.stage_saving(0.1, 0.8, 0.05) == pytest.approx(0.05)
    assert pipeline.stage_saving(0.04, 0.5, 0.05) == 0.0


def test_self_check_5_6_holds_only_with_an_exposed_stage() -> None:
    assert pipeline.exposed_stage_seconds(0.1, 0.1, 0.055) == pytest.approx(0.09)
    with pytest.raises(InputError) as caught:
        pipeline.exposed_stage_seconds(0.1, 0.45, 0.055)
    assert caught.value.argument == "compute_seconds"


def test_serial_and_overlapped_utilisation_differ() -> None:
    assert pipeline.serial_utilisation(12, 250) == pytest.approx(0.0458, abs=1e-4)
    assert pipeline.overlapped_utilisation(12, 250) == pytest.approx(0.048)
    assert pipeline.overlapped_utilisation(250, 12) == 1.0


@pytest.mark.parametrize("bad", [[], [1.0, -1.0], [1.0, float("nan")], "12", 3.0, [None]])
def test_bad_stage_times_are_refused(bad: object) -> None:
    with pytest.raises(InputError) as caught:
        pipeline.serial_seconds(bad)  # type: ignore[arg-type]  # on purpose
    assert caught.value.argument.startswith("stage_seconds")


STAGES = [Stage("load", 3.0), Stage("prepare", 2.0), Stage("compute", 4.0)]


def test_the_serial_timeline_is_the_sum() -> None:
    events = schedule.serial(STAGES, 5)
    assert schedule.makespan(events) == pytest.approx(5 * 9.0)
    assert schedule.utilisation(events, "compute") == pytest.approx(4 / 9)
    gaps = schedule.gaps(events, "compute")
    assert [gap.seconds for gap in gaps] == pytest.approx([5.0] * 5)


def test_the_overlapped_timeline_settles_at_the_slowest_stage() -> None:
    events = schedule.overlapped(STAGES, 20)
    assert schedule.interval(events, "compute") == pytest.approx(4.0)
    # Filling the pipe costs the other stages once.
    assert schedule.makespan(events) == pytest.approx(3 + 2 + 20 * 4)
    assert len(schedule.gaps(events, "compute")) == 1


def test_a_slow_loader_leaves_bubbles_that_workers_close() -> None:
    slow = [Stage("load", 10.0), Stage("compute", 4.0)]
    starved = schedule.overlapped(slow, 12)
    assert schedule.utilisation(starved, "compute") < 0.45
    fed = schedule.overlapped([Stage("load", 10.0, workers=3), slow[1]], 40)
    assert schedule.interval(fed, "compute") == pytest.approx(4.0)
    assert schedule.utilisation(fed, "compute") > 0.9


@settings(max_examples=60)
@given(TIMES, st.integers(2, 12), st.integers(1, 4))
def test_timelines_obey_their_rules(times: list[float], batches: int, buffer: int) -> None:
    stages = [Stage(str(i), t) for i, t in enumerate(times)]
    events = schedule.overlapped(stages, batches, buffer)
    assert len(events) == batches * len(stages)
    by = {(e.stage, e.batch): e for e in events}
    for (stage, batch), event in by.items():
        k = int(stage)
        assert event.seconds == pytest.approx(times[k])
        if k:
            assert event.start >= by[(str(k - 1), batch)].end - 1e-9
        if batch:
            assert event.start >= by[(stage, batch - 1)].end - 1e-9
        if k + 1 < len(stages) and batch >= buffer:
            assert event.start >= by[(str(k + 1), batch - buffer)].start - 1e-9
    slowest = max(times)
    whole = schedule.makespan(events)
    assert batches * slowest - 1e-6 <= whole
    assert whole <= schedule.makespan(schedule.serial(stages, batches)) + 1e-6


def test_schedules_refuse_doubled_names_and_unknown_stages() -> None:
    with pytest.raises(InputError):
        schedule.serial([Stage("a", 1), Stage("a", 2)], 2)
    with pytest.raises(InputError):
        schedule.utilisation(schedule.serial(STAGES, 1), "train")
    with pytest.raises(InputError):
        Stage("load", -1.0)
    with pytest.raises(InputError):
        schedule.makespan([])


def test_table_6() -> None:
    rows = waves.table_6()
    assert [(r.items, r.warps) for r in rows] == [(32, 1), (33, 2), (64, 2), (65, 3)]
    assert [round(100 * r.lane_utilisation, 1) for r in rows] == [100.0, 51.6, 100.0, 67.7]


@given(st.integers(1, 10_000), st.integers(1, 512))
def test_units_are_the_fewest_that_hold_the_items(items: int, unit: int) -> None:
    n = waves.units(items, unit)
    assert (n - 1) * unit < items <= n * unit
    share = waves.lane_utilisation(items, unit)
    assert waves.relative_time(items, unit) == pytest.approx(1 / share)


def test_one_tile_past_a_wave_costs_a_wave() -> None:
    # 132 processors, 128 x 128 tiles: 132 tiles fill one wave exactly.
    assert waves.matmul_waves(128 * 132, 128, 132) == 1
    assert waves.matmul_utilisation(128 * 132, 128, 132) == 1.0
    assert waves.matmul_waves(128 * 132 + 1, 128, 132) == 2
    assert waves.matmul_utilisation(128 * 132 + 1, 128, 132) == pytest.approx(0.5, abs=0.01)
