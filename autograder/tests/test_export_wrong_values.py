"""The value that a check refused: the same text from both handles, the student's own, no leak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ironlaw.lab.student import LocalStudent, Student, StudentFault, WrongAnswerError
from ironlaw_autograder.exports import marks
from ironlaw_autograder.judge import referee
from ironlaw_autograder.judge.engine import NO_ANSWER, Engine, Score
from nbformat import NotebookNode, v4

SOURCE = """
import numpy as np
from dataclasses import dataclass

@dataclass
class Sly:
    shape: tuple = ()
    item: int = 3

half, scalar, text, many, sly = 0.5, np.float32(0.25), "B", [1] * 100, Sly()
twice = lambda x: x * 2
def endless():
    while True:
        pass
"""


def names() -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "__main__"}
    exec(SOURCE, found)
    return found


CASES: list[tuple[str, str]] = [
    ("student.close('half', student.value('half'), 0.4)", "0.50000"),
    ("student.close('half', student.value('half'), 0.4, tell=False)", "0.50000"),
    ("student.number('half', student.value('half'), 2, 3)", "0.50000"),
    ("student.close('text', student.value('text'), 0.4)", "'B'"),
    ("student.close('many', student.value('many'), 0.4)", "[1, 1, 1,"),
    ("student.require(student.value('scalar') > 1, 'no')", "0.25"),
    ("student.require(student.value('text') == 'A', 'not A')", "'B'"),
    ("student.value('text'); student.require(student.value('text') == 'A', 'not A')", "'B'"),
    ("student.require(student.call('twice', 3) == 7, 'no')", "6"),
    ("student.raises('twice', 3)", "6"),
    ("student.raises('twice', 'a', error='KeyError')", "'aa'"),
    ("student.record('half', 'Run')", "0.5"),
    ("student.value('half'); student.fail('no', got=student.value('text'))", "'B'"),
    ("student.value('sly'); student.fail('no')", "an object of type Sly"),
    # Two answers and no word on which was wrong: nothing is claimed.
    ("student.value('half'); student.value('text'); student.fail('no')", ""),
    ("student.call('twice', 1); student.call('twice', 2); student.fail('no')", ""),
    ("student.fail('no')", ""),
    ("return 0.5 if student.value('text') == 'B' else 0", "'B'"),
    ("student.value('text')", "")]


def check(body: str) -> str:
    return f"def t(student):\n    {body}\n\ncheck(t)"


@pytest.mark.parametrize(("body", "got"), CASES)
def test_the_judge_says_which_value_was_wrong(body: str, got: str) -> None:
    outcome = referee.judge(check(body), "q", LocalStudent(names()))
    assert not outcome["broken"]
    assert outcome["got"].startswith(got)
    assert bool(outcome["got"]) is bool(got)
    assert len(outcome["got"]) <= 80


def test_the_error_itself_carries_it_where_nothing_is_isolated() -> None:
    student = LocalStudent(names())
    with pytest.raises(WrongAnswerError) as wrong:
        student.close("half", student.value("half"), 0.4)
    assert wrong.value.got == "0.50000"
    assert "0.50000" in str(wrong.value)
    with pytest.raises(StudentFault):
        student.value("absent")


@pytest.mark.parametrize("value", [3, 3.0, np.float64(3), np.int64(3), np.array(3)])
def test_equal_values_of_any_type_count_as_one(value: Any) -> None:
    with pytest.raises(WrongAnswerError) as wrong:
        Student().close("x", value, 4.0)
    assert wrong.value.got == "3.0000"


def code(source: str, name: str, **meta: Any) -> NotebookNode:
    record = {"grade": False, "solution": False, "locked": True, "grade_id": name, **meta}
    cell = v4.new_code_cell(source, metadata={"nbgrader": record})
    cell["id"] = name
    return cell


@pytest.fixture(scope="module")
def judged(engine: Engine) -> Callable[[str], Score]:
    """Every case of `CASES` judged in the sandbox in one notebook, and one that hangs."""
    cells = [code(SOURCE, "a", solution=True, locked=False)]
    cells += [code(check(body), f"t{place}", grade=True, points=2)
              for place, (body, _) in enumerate([*CASES, ("student.call('endless')", "")])]
    scores = engine.grade(v4.new_notebook(cells=cells), {}).scores
    return lambda name: next(score for score in scores if score.grade_id == name)


@pytest.mark.sandbox
def test_the_sandbox_hands_on_the_same(judged: Callable[[str], Score]) -> None:
    for place, (body, _) in enumerate(CASES):
        alone = referee.judge(check(body), "q", LocalStudent(names()))
        assert judged(f"t{place}").got == alone["got"], body


@pytest.mark.sandbox
def test_a_time_out_and_an_empty_answer_are_known_again(
    judged: Callable[[str], Score], engine: Engine
) -> None:
    class Row:
        needs_manual_grade, score = False, 0.0

    late = marks._mark(Row(), vars(judged(f"t{len(CASES)}")))
    assert (late.timed_out, late.blank) == (True, False)
    # Words alone say nothing: a student's own message may hold any.
    said = {"message": "The call ran past its limit.", "notes": ["time is used up"]}
    assert not marks._mark(Row(), said).timed_out
    cells = [code("x = 1", "a", solution=True, locked=False),
             code(check("student.value('x')"), "t", grade=True, points=2)]
    (empty,) = engine.grade(v4.new_notebook(cells=cells), {"a": "x = 1"}).scores
    assert empty.message == NO_ANSWER
    assert (marks._mark(Row(), vars(empty)).timed_out, marks._mark(Row(), vars(empty)).blank) == (
        False, True)
