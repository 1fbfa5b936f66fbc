"""Lab 2: the reference earns everything, the stub nothing, and no plausible mistake passes."""

from __future__ import annotations

import pytest
from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.course import find
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.mutants import Mutant, load
from lab_trial import Trial

NAME = "lab_02_memory"
MUTANTS = load(NAME)


@pytest.fixture(scope="module")
def trial() -> Trial:
    return Trial(find(__file__), NAME)


@pytest.mark.sandbox
def test_the_reference_earns_everything_and_the_stub_nothing(
    engine: Engine, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.holds(engine, monkeypatch)


def test_every_check_refuses_at_least_three_plausible_answers(trial: Trial) -> None:
    assert min(trial.fewest_refusals().values()) >= 3, trial.fewest_refusals()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_a_plausible_mistake_is_refused_where_it_is_made_and_nowhere_else(
    trial: Trial, mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.refuses(mutant, monkeypatch)


@pytest.mark.sandbox
def test_the_judge_agrees_in_isolation(engine: Engine, trial: Trial) -> None:
    for mutant in (MUTANTS[0], MUTANTS[-2]):
        got = trial.judged(engine, trial.desk.mutant(mutant))
        assert {name: got[name] for name in trial.desk.points()} == trial.expected(mutant)


@pytest.mark.sandbox
def test_the_library_does_not_count_the_parameters_for_the_student(
    engine: Engine, trial: Trial
) -> None:
    borrowed = trial.desk.reference()
    for cell in borrowed.cells:
        if label(cell).get("grade_id") == "parameter-count":
            cell.source = (
                "def parameter_count(layers, width, vocab, context):\n"
                "    from ironlaw.transformer import Shape\n"
                "    return Shape('x', layers, width, 1, context, vocab).parameters\n")
    points = trial.judged(engine, borrowed)
    assert points["check-parameter-count"] == 0.0
    assert points["check-state-bytes"] == 2.0
