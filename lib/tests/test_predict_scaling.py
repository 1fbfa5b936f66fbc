"""Several accelerators, money and energy: exchanges, bubbles, shards, audits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw.predict import cost, memory, parallel, ratios, scaling, schedule

WORKERS = st.integers(2, 512)


@given(st.floats(1, 1e12), WORKERS)
def test_a_ring_sends_less_than_two_copies(size: float, workers: int) -> None:
    sent = scaling.ring_bytes(size, workers)
    assert size <= sent < 2 * size
    assert sent <= scaling.ring_bytes(size, workers + 1)


def test_one_worker_exchanges_nothing() -> None:
    assert scaling.ring_bytes(1e9, 1) == 0
    assert scaling.ring_all_reduce_seconds(1e9, 1, 1e9, 1e-3) == 0
    assert scaling.tree_all_reduce_seconds(1e9, 1, 1e9, 1e-3) == 0


def test_trees_win_on_latency_and_rings_on_bandwidth() -> None:
    small = {"tensor_bytes": 1e3, "workers": 256, "bytes_per_second": 1e11,
             "latency_seconds": 1e-5}
    assert scaling.tree_all_reduce_seconds(**small) < scaling.ring_all_reduce_seconds(**small)
    large = {**small, "tensor_bytes": 1e10}
    assert scaling.ring_all_reduce_seconds(**large) < scaling.tree_all_reduce_seconds(**large)
    # Enough chunks bring a tree's bandwidth near a ring's.
    piped = scaling.tree_all_reduce_seconds(**large, chunks=1000)
    assert piped < 1.1 * scaling.ring_all_reduce_seconds(**large)


def test_a_hierarchy_keeps_most_bytes_inside_the_node() -> None:
    flat = scaling.ring_all_reduce_seconds(14e9, 64, 12.5e9)
    nested = scaling.hierarchical_all_reduce_seconds(14e9, 8, 8, 300e9, 12.5e9)
    assert nested < flat / 4
    # One node, or one worker a node, is a plain ring.
    assert scaling.hierarchical_all_reduce_seconds(1e9, 1, 8, 300e9, 1e9) == (
        scaling.ring_all_reduce_seconds(1e9, 8, 300e9))
    assert scaling.hierarchical_all_reduce_seconds(1e9, 8, 1, 300e9, 1e9) == (
        scaling.ring_all_reduce_seconds(1e9, 8, 1e9))


def test_overlap_hides_what_fits_behind_the_backward_pass() -> None:
    assert scaling.overlapped_efficiency(1.0, 0.5) == 1.0
    assert scaling.overlapped_efficiency(1.0, 1.0) == pytest.approx(1 / (1 + 1 - 2 / 3))
    assert scaling.overlapped_efficiency(1.0, 1.96, overlap=0.0) == scaling.efficiency(1.0, 1.96)


@given(WORKERS, st.floats(0, 1))
def test_the_communication_tax_has_a_ceiling(workers: int, share: float) -> None:
    gained = scaling.amdahl_speedup(workers, share)
    assert 1 - 1e-9 <= gained <= workers + 1e-9
    if share > 0:
        assert gained <= 1 / share + 1e-9
    assert scaling.amdahl_speedup(workers + 1, share) >= gained - 1e-9


@given(st.floats(1e6, 1e12), WORKERS)
def test_each_zero_stage_keeps_less_and_zero_3_sends_more(parameters: float,
                                                          workers: int) -> None:
    found = [scaling.data_parallel(parameters, workers, kind) for kind in scaling.SHARDINGS]
    totals = [step.state.total for step in found]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] == pytest.approx(16 * parameters)
    assert totals[3] == pytest.approx(16 * parameters / workers)
    sent = [step.sent_bytes for step in found]
    assert sent[0] == pytest.approx(scaling.ring_bytes(2 * parameters, workers))
    assert sent[1] == sent[2] == pytest.approx(sent[0])
    assert sent[3] == pytest.approx(1.5 * sent[0])


def test_zero_formulas_for_7b_on_eight() -> None:
    states = [scaling.data_parallel(7e9, 8, kind).state.total / 1e9
              for kind in scaling.SHARDINGS]
    assert states == pytest.approx([112.0, 28 + 84 / 8, 14 + 98 / 8, 14.0])


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8), st.integers(1, 12), st.sampled_from(["gpipe", "1f1b"]))
def test_a_played_pipeline_has_the_bubble_of_the_formula(stages: int, micro_batches: int,
                                                         kind: str) -> None:
    events = parallel.play(stages, micro_batches, kind)
    assert len(events) == 2 * stages * micro_batches
    busy = 3.0 * micro_batches
    assert schedule.makespan(events) == pytest.approx(
        busy / (1 - parallel.bubble_share(stages, micro_batches)))
    held = most = 0
    for event in sorted((e for e in events if e.stage == "stage 0"), key=lambda e: e.start):
        held += 1 if event.kind == "forward" else -1
        most = max(most, held)
    assert most == parallel.micro_batches_in_flight(stages, micro_batches, kind)


def test_the_naive_split_uses_one_stage_at_a_time() -> None:
    events = parallel.play(4, 3, "naive")
    assert schedule.makespan(events) == pytest.approx(4 * 3 * 3.0)
    assert schedule.utilisation(events, "stage 2") == pytest.approx(1 / 4)


def test_four_micro_batches_per_stage_keep_the_bubble_below_a_fifth() -> None:
    assert parallel.bubble_share(8, 32) < 0.2
    m = parallel.micro_batches_for_bubble(8, 0.1)
    assert parallel.bubble_share(8, m) <= 0.1 < parallel.bubble_share(8, m - 1)


def test_table_20_puts_the_most_frequent_exchange_on_the_fastest_link() -> None:
    rows = parallel.table_20(70e9, 80, 8, 4096, 8192, 8, 4, 16)
    assert [row.strategy for row in rows] == ["tensor", "pipeline", "data"]
    assert rows[0].placed == "inside a node"
    assert [row.exchanges for row in rows] == [80, 2, 1]
    assert rows[0].sent_bytes > 10 * rows[1].sent_bytes


def test_energy_is_the_integral_of_power() -> None:
    assert cost.energy_from_samples([100, 100, 100], [0, 1, 3]) == 300
    assert cost.energy_from_samples([0, 100], [0, 2]) == 100
    steady = cost.energy_joules(1, 400, 3600)
    assert cost.energy_from_samples([400.0] * 10, [400.0 * i for i in range(10)]) == steady
    for watts, seconds in (([1], [0]), ([1, 2], [0]), ([1, 2], [1, 0]), ([-1, 2], [0, 1])):
        with pytest.raises(InputError):
            cost.energy_from_samples(watts, seconds)


def test_renting_breaks_even_with_buying() -> None:
    seconds = cost.break_even_seconds(30_000, 3.0)
    assert seconds / 3600 == 10_000
    assert cost.rent(1024, seconds, 3.0) == pytest.approx(cost.buy(1024, 30_000))
    assert cost.implied_price_per_hour(cost.rent(8, 1e6, 2.5), 8, 1e6) == pytest.approx(2.5)


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_speedup_and_saving_are_two_views_of_one_change(a: float, b: float) -> None:
    before, after = max(a, b), min(a, b)
    gain = ratios.speedup(before, after)
    assert ratios.saved_share(before, after) == pytest.approx(1 - 1 / gain, abs=1e-9)
    assert ratios.seconds_after_speedup(before, gain) == pytest.approx(after)
    assert ratios.saved(before, after) == pytest.approx(before - after)


def test_an_increase_is_not_a_saving() -> None:
    with pytest.raises(InputError) as caught:
        ratios.saved_share(1.0, 2.0)
    assert caught.value.argument == "after"


def test_memory_budget_and_the_batch_that_fits() -> None:
    assert memory.total_bytes(1, 2, 3, 4) == 10
    fits = memory.samples_that_fit(32e9, 24e9, 4e9, 2)
    assert fits == 4.0
    assert math.isclose(memory.share_of_device(24e9 + fits * 2e9, 32e9), 1.0)
    with pytest.raises(InputError) as caught:
        memory.samples_that_fit(16e9, 24e9, 4e9, 2)
    assert caught.value.argument == "device_bytes"
