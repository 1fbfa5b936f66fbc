"""Every lab: the reference earns everything, the stub nothing, and no plausible mistake passes.

A wrong answer is judged as plain nbgrader would, in one namespace, and in the sandbox: all
of lab 1's, a few of the others'. Both ways must refuse exactly the checks that the mutant
names, and no other.
"""

from __future__ import annotations

import functools

import pytest
from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.course import find
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.mutants import Mutant, load
from lab_trial import Trial

LABS = sorted(file.stem for file in find(__file__).solutions.glob("lab_*.py"))
MISTAKES = [(lab, mutant) for lab in LABS for mutant in load(lab)]
ISOLATED = [(lab, mutant) for lab in LABS
            for mutant in (load(lab) if lab == LABS[0] else (load(lab)[0], load(lab)[-2]))]


@functools.cache
def trial_of(lab: str) -> Trial:
    return Trial(find(__file__), lab)


def named(value: str | Mutant) -> str:
    return (value if isinstance(value, str) else value.name).replace(" ", "-")


@pytest.mark.sandbox
@pytest.mark.parametrize("lab", LABS)
def test_the_reference_earns_everything_and_the_stub_nothing(
    engine: Engine, lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial_of(lab).holds(engine, monkeypatch)


@pytest.mark.parametrize("lab", LABS)
def test_every_check_refuses_at_least_three_plausible_answers(lab: str) -> None:
    refused = trial_of(lab).fewest_refusals()
    assert min(refused.values()) >= 3, refused


@pytest.mark.parametrize("lab", LABS)
def test_every_hidden_test_refuses_an_answer_that_the_visible_one_lets_pass(
    lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught = trial_of(lab).caught_by_hidden_tests_alone(monkeypatch)
    assert min(caught.values()) >= 1, caught


@pytest.mark.parametrize(("lab", "mutant"), MISTAKES, ids=named)
def test_a_plausible_mistake_is_refused_where_it_is_made_and_nowhere_else(
    lab: str, mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial_of(lab).refuses(mutant, monkeypatch)


@pytest.mark.sandbox
@pytest.mark.parametrize(("lab", "mutant"), ISOLATED, ids=named)
def test_the_judge_agrees_in_isolation(engine: Engine, lab: str, mutant: Mutant) -> None:
    trial = trial_of(lab)
    got = trial.judged(engine, trial.desk.mutant(mutant))
    assert {name: got[name] for name in trial.desk.points()} == trial.expected(mutant)


def test_the_handed_out_notebook_measures_nothing_while_it_is_validated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ironlaw.lab import measure_training
    from ironlaw.lab.recording import NotMeasuredError

    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(NotMeasuredError, match="run this cell once"):
        measure_training("\n")


@pytest.mark.sandbox
def test_the_library_does_not_count_lab_2s_parameters_for_the_student(engine: Engine) -> None:
    trial = trial_of("lab_02_memory")
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
