"""Equation 1 and its inversions: known runs, inverses, scale, and refusals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw.predict import iron_law
from ironlaw.units import DAY, YEAR

POSITIVE = st.floats(1e-3, 1e30)
SHARE = st.floats(1e-3, 1.0)
MACHINES = st.integers(1, 100_000)


def test_llama_70b_on_one_h100_takes_half_a_century() -> None:
    work = iron_law.training_flops(70e9, 2e12)
    assert work == pytest.approx(8.4e23)
    assert iron_law.training_seconds(work, 989e12, 0.5) / YEAR == pytest.approx(53.83, abs=0.01)
    assert iron_law.training_seconds(work, 989e12, 0.5, 1024) / DAY == pytest.approx(19.2, abs=0.01)


@given(POSITIVE, POSITIVE, SHARE, MACHINES)
def test_utilisation_inverts_training_time(work: float, peak: float, eta: float, n: int) -> None:
    seconds = iron_law.training_seconds(work, peak, eta, n)
    assert iron_law.utilisation(work, seconds, peak, n) == pytest.approx(eta)


@given(POSITIVE, POSITIVE, SHARE, st.floats(1.01, 1e3))
def test_each_lever_moves_time_in_proportion(work: float, peak: float, eta: float,
                                             by: float) -> None:
    now = iron_law.training_seconds(work, peak, eta)
    assert iron_law.training_seconds(work / by, peak, eta) == pytest.approx(now / by)
    assert iron_law.training_seconds(work, peak * by, eta) == pytest.approx(now / by)
    assert iron_law.training_seconds(work, peak, eta / by) == pytest.approx(now * by)


@given(st.floats(1e15, 1e25), st.floats(1e12, 1e15), SHARE, st.floats(1.0, 1e9))
def test_deadline_is_met_and_not_with_one_fewer(work: float, peak: float, eta: float,
                                                deadline: float) -> None:
    n = iron_law.accelerators_for_deadline(work, peak, eta, deadline)
    assert iron_law.training_seconds(work, peak, eta) / n <= deadline * (1 + 1e-9)
    if n > 1:
        assert iron_law.training_seconds(work, peak, eta) / (n - 1) > deadline * (1 - 1e-9)


def test_an_exact_multiple_needs_no_extra_machine() -> None:
    for n in range(1, 60):
        work = 0.1 * 3 * n
        assert iron_law.accelerators_for_deadline(work, 3.0, 1.0, 0.1) == n


def test_tokens_for_budget_counts_backward_twice() -> None:
    assert iron_law.tokens_for_budget(9.0, 1.0) == pytest.approx(3.0)
    assert iron_law.tokens_for_budget(9.0, 1.0, backward_over_forward=3.5) == pytest.approx(2.0)


def test_a_rate_above_the_peak_is_returned_for_audit_and_refused_as_a_fact() -> None:
    claim = iron_law.utilisation(90 * 10.0261e12, 1.0, 15.7e12, 32)
    assert claim == pytest.approx(1.796, abs=0.001)
    with pytest.raises(InputError, match="above the peak"):
        iron_law.check_utilisation(claim)
    assert iron_law.check_utilisation(0.46) == 0.46


def test_levers_come_strongest_first_and_ignore_limits_already_passed() -> None:
    found = iron_law.levers(6e21, 100e12, 0.25, least_operations=3e21,
                            best_peak_flops_per_second=50e12, best_utilisation=1.0)
    assert [(x.term, x.speedup) for x in found] == [("eta_hw", 4.0), ("O", 2.0), ("R_peak", 1.0)]


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "3", None, True])
def test_bad_operations_are_refused(bad: object) -> None:
    with pytest.raises(InputError) as caught:
        iron_law.training_seconds(bad, 1e12, 0.5)  # type: ignore[arg-type]  # on purpose
    assert caught.value.argument == "operations"


def test_a_percentage_for_utilisation_is_explained() -> None:
    with pytest.raises(InputError, match=r"0\.38 for 38 %"):
        iron_law.training_seconds(1.0, 1.0, 38)
