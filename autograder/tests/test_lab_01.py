"""Lab 1: the reference earns everything, the stub nothing, and no plausible mistake passes.

Each wrong answer is judged twice: in the sandbox, and as plain nbgrader would, in one
namespace. Both must refuse exactly the checks that the mutant names, and no other.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ironlaw.lab import checking
from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.grading.preprocessors import Marking
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.restore import restore
from ironlaw_autograder.mutants import Mutant, load
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode

MUTANTS = load("lab_01_iron_law")


def judged(engine: Engine, marking: Marking, notebook: NotebookNode) -> dict[str, float | None]:
    restored = restore(marking.template, notebook).notebook
    graded = engine.grade(restored, marking.stubs, marking.lab.blocked)
    return {score.grade_id: score.points for score in graded.scores}


def plainly(marking: Marking, notebook: NotebookNode,
            monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Points as one kernel without isolation gives them: a check that raises earns nothing."""
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    names: dict[str, Any] = {"__name__": "__main__"}
    points: dict[str, float] = {}
    for cell in restore(marking.template, notebook).notebook.cells:
        if cell.cell_type != "code":
            continue
        meta = label(cell)
        code = compile(cell.source, meta["grade_id"], "exec")
        if not meta["grade"]:
            with contextlib.suppress(Exception):
                exec(code, names)
            continue
        try:
            exec(code, names)  # any error but a failed check is a broken check
        except checking.CheckError:
            points[meta["grade_id"]] = 0.0
        else:
            points[meta["grade_id"]] = float(meta["points"])
    return points


def expected(desk: Desk, mutant: Mutant) -> dict[str, float]:
    return {name: 0.0 if name in mutant.refused else value
            for name, value in desk.points().items()}


def test_the_points_add_up_to_twenty(desk: Desk) -> None:
    assert desk.lab.points == 20
    assert sum(desk.points().values()) == 18


@pytest.mark.sandbox
def test_the_reference_earns_everything_and_the_stub_nothing(
    engine: Engine, marking: Marking, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judged(engine, marking, desk.reference()) == {**desk.points(), "explain": None}
    nothing = dict.fromkeys([*desk.points(), "explain"], 0.0)
    assert judged(engine, marking, desk.untouched()) == nothing
    assert plainly(marking, desk.reference(), monkeypatch) == desk.points()
    untouched = plainly(marking, desk.untouched(), monkeypatch)
    assert untouched == dict.fromkeys(desk.points(), 0.0)


def test_every_check_refuses_at_least_three_plausible_answers(desk: Desk) -> None:
    refused = {name: sum(name in m.refused for m in MUTANTS) for name in desk.points()}
    assert min(refused.values()) >= 3, refused


@pytest.mark.sandbox
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_a_plausible_mistake_is_refused_where_it_is_made_and_nowhere_else(
    engine: Engine, marking: Marking, desk: Desk, mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = desk.mutant(mutant)
    want = expected(desk, mutant)
    got = judged(engine, marking, notebook)
    assert {name: got[name] for name in want} == want
    assert plainly(marking, notebook, monkeypatch) == want


def test_the_handed_out_notebook_measures_nothing_while_it_is_validated(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ironlaw.lab import measure_training
    from ironlaw.lab.recording import NotMeasuredError

    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(NotMeasuredError, match="run this cell once"):
        measure_training("\n")
