"""The judge on small notebooks: each question alone, whatever happens in the others."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from ironlaw.lab.student import LocalStudent, Student, StudentFault
from ironlaw_autograder.judge import sandbox
from ironlaw_autograder.judge.engine import Engine, Graded
from ironlaw_autograder.judge.kernel import Kernel
from ironlaw_autograder.judge.limits import Limits
from nbformat import NotebookNode, v4

pytestmark = pytest.mark.sandbox

QUICK = Limits(cell_seconds=3.0, call_seconds=1.5, test_seconds=6.0, grace_seconds=0.7)


def code(source: str, name: str, **meta: Any) -> NotebookNode:
    record = {"grade": False, "solution": False, "locked": True, "grade_id": name, **meta}
    cell = v4.new_code_cell(source, metadata={"nbgrader": record})
    cell["id"] = name
    return cell


def answer(name: str, source: str) -> NotebookNode:
    return code(source, name, solution=True, locked=False)


def asks(name: str, body: str, worth: float = 2) -> NotebookNode:
    return code(f"def t(student):\n    {body}\n\ncheck(t)", name, grade=True, points=worth)


def grade(engine: Engine, *cells: NotebookNode) -> Graded:
    return engine.grade(v4.new_notebook(cells=list(cells)), {})


def points(graded: Graded) -> dict[str, float | None]:
    return {score.grade_id: score.points for score in graded.scores}


VALUES = """
import numpy as np
from dataclasses import dataclass

@dataclass
class Point:
    x: float

class Sly(float):
    __eq__ = lambda self, other: True
    __hash__ = None

things = dict(number=3, real=0.1, big=10**30, nan=float("nan"), text="grün", nothing=None,
              yes=True, pair=(1, [2.5]), table={"a": {1: 2}}, array=np.arange(6.0).reshape(2, 3),
              scalar=np.float32(1.5), point=Point(2.0), object=object(), sly=Sly(7), group={1, 2},
              imaginary=1 + 2j)

def double(value):
    return [value, value]

def sour():
    raise KeyError("key")
"""


@pytest.fixture(scope="module")
def twins() -> Iterator[tuple[Student, Student]]:
    """The same notebook behind both handles: in this process and in the sandbox."""

    class Remote(Student):
        def _ask(self, question: dict[str, Any], blobs: list[bytes]) -> Any:
            return kernel.ask(question, blobs, 2.0)

    names: dict[str, Any] = {"__name__": "__main__"}
    exec(VALUES, names)
    kernel = Kernel((), QUICK)
    assert kernel.run(VALUES, 10.0).status == "ok"
    yield LocalStudent(names), Remote()
    kernel.close()


def test_both_handles_see_the_same_values(twins: tuple[Student, Student]) -> None:
    local, remote = (twin.value("things") for twin in twins)
    assert list(local) == list(remote)
    for name in local:
        mine, theirs = local[name], remote[name]
        assert type(mine) is type(theirs), name
        if name == "array":
            assert np.array_equal(mine, theirs)
        elif name == "nan":
            assert math.isnan(mine)
            assert math.isnan(theirs)
        else:
            assert mine == theirs, name


def test_both_handles_call_and_fail_alike(twins: tuple[Student, Student]) -> None:
    for twin in twins:
        assert twin.call("double", (1, "a")) == [(1, "a"), (1, "a")]
        assert twin.run("z = double(2) * 2", "z") == [2, 2, 2, 2]
        twin.raises("sour", error="LookupError")
        with pytest.raises(StudentFault, match="sour raised KeyError: 'key'"):
            twin.call("sour")
        with pytest.raises(StudentFault, match="absent is not defined"):
            twin.value("absent")


def test_nothing_of_the_grader_is_within_reach() -> None:
    kernel = Kernel(("ironlaw.predict.iron_law",), QUICK)
    source = """
import os, pathlib, socket
user = os.getuid()
names = sorted(os.listdir("/"))
secret = [str(p) for p in pathlib.Path("/course").rglob("*autograder*")]
environment = sorted(os.environ)
try:
    import ironlaw.predict.iron_law as blocked
except ImportError as problem:
    blocked = str(problem)
processes = [p for p in os.listdir("/proc") if p.isdigit()]
"""
    try:
        assert kernel.run(source, 10.0).status == "ok"
        values = {name: kernel.ask({"op": "value", "name": name}, [], 2.0)[0]["value"]
                  for name in ("user", "secret", "blocked")}
        count = kernel.ask({"op": "run", "source": "n = len(processes)", "name": "n"}, [], 2.0)
        leaked = kernel.ask({"op": "run", "name": "l", "source": "l = [name for name in "
                             f"environment if name not in {sorted(sandbox.environment())!r}]"},
                            [], 2.0)
    finally:
        kernel.close()
    if os.getuid() == 0:
        assert values["user"] != 0
    assert values["secret"] == {"t": "list", "v": []}
    assert "closed while this lab is graded" in values["blocked"]
    assert count[0]["value"] <= 3
    assert set(leaked[0]["value"]["v"]) <= {"PWD"}


def test_a_death_costs_its_own_question_and_earlier_work_is_run_again(engine: Engine) -> None:
    graded = grade(
        engine,
        answer("a", "import random\nx = random.random()\ny = x"), asks("t-a", "student.value('x')"),
        answer("b", "def b():\n    import os; os._exit(3)"), asks("t-b", "student.call('b')"),
        asks("t-b2", "student.call('b')"),
        answer("c", "z = (x == y)"), asks("t-c", "student.require(student.value('z'), 'no')"))
    assert points(graded) == {"t-a": 2, "t-b": 0, "t-b2": 0, "t-c": 2}
    assert "ended the Python process" in graded.scores[1].message
    assert "in an earlier check" in graded.scores[2].message
    assert not any(score.timed_out for score in graded.scores)


def test_a_kernel_that_starts_again_draws_the_same_random_numbers(engine: Engine) -> None:
    source = "import random\nimport numpy as np\nr = (random.random(), float(np.random.rand()))"
    seen = []
    for _ in range(2):
        kernel = Kernel((), QUICK)
        kernel.run(source, 10.0)
        seen.append(kernel.ask({"op": "value", "name": "r"}, [], 2.0)[0])
        kernel.close()
    assert seen[0] == seen[1]


def test_a_broken_test_waits_for_a_person_and_harms_nobody(engine: Engine) -> None:
    graded = grade(engine, answer("a", "x = 1"),
                   asks("typo", "student.valeu('x')"), asks("nonsense", "return 7"),
                   code("1 + 1", "empty", grade=True, points=2),
                   asks("fine", "student.close('x', student.value('x'), 1)"))
    assert points(graded) == {"typo": None, "nonsense": None, "empty": None, "fine": 2}
    assert any("valeu" in event for event in graded.events)


def test_a_test_that_hangs_or_dies_is_broken_and_the_next_one_runs() -> None:
    engine = Engine(dataclasses.replace(QUICK, test_seconds=2.0))
    try:
        graded = grade(engine, answer("a", "x = 1"), asks("hangs", "import time; time.sleep(60)"),
                       asks("dies", "import os; os._exit(9)"),
                       asks("fine", "student.close('x', student.value('x'), 1)"))
    finally:
        engine.close()
    assert points(graded) == {"hangs": None, "dies": None, "fine": 2}


def test_shares_words_and_notes_reach_the_notebook(engine: Engine) -> None:
    body = "student.say('<b>half</b>'); return 0.5"
    graded = grade(engine, answer("a", "x = 1"), asks("half", body, worth=3))
    assert points(graded) == {"half": 1.5}
    shown, result = graded.notebook.cells[1].outputs
    assert "&lt;b&gt;half" in shown["data"]["text/html"]
    assert result["data"]["text/plain"] == "1.5"


def test_a_notebook_that_uses_up_its_time_is_told_and_ended() -> None:
    engine = Engine(dataclasses.replace(QUICK, total_seconds=2.0, cell_seconds=1.0))
    slow = "import time\ntime.sleep(30)"
    try:
        graded = grade(engine, *(answer(f"a{i}", slow) for i in range(5)),
                       asks("late", "student.value('x')"))
    finally:
        engine.close()
    assert points(graded) == {"late": 0}
    assert "time was used up" in graded.scores[0].message
    assert graded.scores[0].timed_out
    assert graded.seconds < 20


def test_an_interrupted_cell_keeps_what_ran_before(engine: Engine) -> None:
    graded = grade(engine, answer("a", "x = 5\nwhile True:\n    pass"),
                   asks("kept", "student.close('x', student.value('x'), 5)"))
    assert points(graded) == {"kept": 2}
    assert not graded.scores[0].timed_out  # nothing was lost
    assert any("limit of" in event for event in graded.events)


def test_what_is_done_about_a_lost_process_hangs_on_no_words(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kernel, "_why", lambda *_: "stopped")
    deaf = "import signal, time\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\ntime.sleep(99)"
    deaf_call = deaf.replace("\n", "; ")
    engine = Engine(dataclasses.replace(QUICK, cell_seconds=0.5, call_seconds=0.5,
                                        grace_seconds=0.5))
    try:
        graded = grade(
            engine, answer("a", "x = 1"), asks("t-a", "student.value('x')"),
            answer("b", deaf), asks("t-b", "student.value('y')"),
            answer("c", f"def c():\n    {deaf_call}"), asks("t-c", "student.call('c')"),
            asks("t-c2", "student.call('c')"),
            answer("d", "z = x"), asks("t-d", "student.close('z', student.value('z'), 1)"))
    finally:
        engine.close()
    assert [(s.points, s.timed_out) for s in graded.scores] == [
        (2, False), (0, True), (0, True), (0, True), (2, False)]


def test_rich_output_survives_and_html_of_a_student_does_not(engine: Engine) -> None:
    graded = grade(engine, answer("a", "from IPython.display import HTML, display\n"
                                  "display(HTML('<script>x</script>'))\nprint('said')\n41 + 1"))
    outputs = graded.notebook.cells[0].outputs
    assert outputs[0]["text"] == "said\n"
    kinds = {mime for output in outputs for mime in output.get("data", {})}
    assert kinds == {"text/plain"}
    assert any(output.get("data", {}).get("text/plain") == "42" for output in outputs)
