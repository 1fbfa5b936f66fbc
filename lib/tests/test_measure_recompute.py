"""Recomputation keeps less and changes nothing; accumulation too, weighed by tokens."""

from __future__ import annotations

import json

import pytest
from ironlaw import results
from ironlaw.config import RECOMPUTES, RunConfig
from ironlaw.errors import InputError
from ironlaw.measure.recompute import measure_recompute
from ironlaw.results_instruments import RecomputeMeasurement

TINY = RunConfig(layers=4, width=32, heads=2, vocab=64, batch=4, seq=32, attention="materialised")


@pytest.fixture(scope="module")
def measured() -> RecomputeMeasurement:
    return measure_recompute(TINY, rounds=2, device="cpu")


def test_gradients_do_not_depend_on_what_is_kept(measured: RecomputeMeasurement) -> None:
    assert [p.policy for p in measured.policies] == list(RECOMPUTES)
    assert all(p.gradient_error < 1e-6 for p in measured.policies)


def test_each_policy_keeps_less_than_none_and_computes_more(
        measured: RecomputeMeasurement) -> None:
    none = measured.policy("none")
    assert (none.overhead, none.flop_overhead) == (0.0, 0.0)
    for name in ("selective", "every-block", "sqrt"):
        policy = measured.policy(name)
        assert policy.saved_bytes < none.saved_bytes
        assert policy.peak_bytes < none.peak_bytes
        assert 0.0 < policy.flop_overhead <= 1 / 3
    assert measured.policy("sqrt").saved_bytes < measured.policy("every-block").saved_bytes
    assert measured.policy("every-block").saved_bytes < measured.policy("selective").saved_bytes


def test_every_block_keeps_the_stream_between_blocks(measured: RecomputeMeasurement) -> None:
    """Between "sqrt" (every second block of four) and "every-block" lie two streams of B S d."""
    stream = 4.0 * TINY.batch * TINY.sequence * 32
    difference = measured.policy("every-block").saved_bytes - measured.policy("sqrt").saved_bytes
    assert difference == 2 * stream


def test_parts_weighed_by_tokens_give_the_whole_gradient(measured: RecomputeMeasurement) -> None:
    assert [a.micro_batches for a in measured.accumulation] == [2, 4]
    for parts in measured.accumulation:
        assert sum(parts.tokens) == TINY.batch * TINY.sequence - parts.tokens[0]
        assert parts.tokens[0] * 2 == parts.tokens[1]
        assert parts.gradient_error < 1e-5
        assert parts.mean_of_means_error > 1e-2, "averaging means must be seen to be wrong"
    two, four = measured.accumulation
    assert four.saved_bytes < two.saved_bytes < measured.policy("none").saved_bytes


def test_the_result_travels(measured: RecomputeMeasurement) -> None:
    assert results.load(json.dumps(measured.to_json())) == measured
    assert measured.rule > 0.0
    assert all(len(p.samples) == 2 for p in measured.policies)


def test_under_flash_there_is_nothing_to_select() -> None:
    found = measure_recompute(TINY.replace(attention="flash"), policies=["selective"],
                              accumulate=[], rounds=1, device="cpu")
    assert found.policy("selective").saved_bytes == found.policy("none").saved_bytes
    assert found.policy("selective").flop_overhead == 0.0
    assert "nothing to drop" in found.notes["selective"]


@pytest.mark.parametrize(("bad", "said"), [
    ({"accumulate": [3]}, "divisor of the batch"), ({"policies": ["all"]}, "policies"),
    ({"rounds": 0}, "rounds")])
def test_bad_input_is_refused_in_words(bad: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        measure_recompute(TINY, device="cpu", **bad)  # type: ignore[arg-type]
