"""Workers: what they give, what their deaths cost, and that none outlives its grader."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ironlaw.errors import UnavailableError
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import pool, work
from ironlaw_autograder.grading.work import Marking, Outcome, Task
from ironlaw_autograder.intake import read_notebook
from ironlaw_autograder.judge import slots, watch
from ironlaw_autograder.judge.kernel import Kernel
from ironlaw_autograder.judge.limits import Limits
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode

LAB = "lab_01_iron_law"


class Quick:
    """A worker without a sandbox; a task's text says what it does."""

    def __init__(self, *ignored: Any, **ignored_too: Any) -> None:
        """Ready at once."""

    def grade(self, task: Task) -> Outcome:
        deed, _, rest = task.notebook.partition(" ")
        if deed == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if deed == "once" and not Path(rest).exists():
            Path(rest).touch()
            os._exit(7)
        if deed == "sleep":
            time.sleep(60)
        return Outcome(task.student, task.notebook + "x" * (2_000_000 if deed == "long" else 0),
                       events=[str(os.getpid())])

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def quickly(course: Course, marking: Marking,
            monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs tasks given as texts on quick workers."""
    monkeypatch.setattr(pool, "Worker", Quick)
    work.use_marking(course, marking)

    def run(texts: list[str], **options: Any) -> Any:
        tasks = [Task(f"s{place}", LAB, text) for place, text in enumerate(texts)]
        return pool.run(tasks, course, LAB, **options)

    return run


def task(name: str, notebook: NotebookNode) -> Task:
    return Task.of(name, LAB, read_notebook(json.dumps(notebook).encode()))


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all of these have ended, or do within a while."""
    return not psutil.wait_procs(processes, timeout=10)[1]


def until(there: Callable[[], Any]) -> Any:
    """What `there` gives once it gives something."""
    end = time.monotonic() + 60
    while not (found := there()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_every_task_comes_back_once_whatever_the_number_of_workers(
    quickly: Callable[..., Any]
) -> None:
    for workers in (1, 3, 20):
        found = list(quickly([f"text {n}" for n in range(12)], workers=workers))
        assert {o.student: o.notebook for o in found} == {f"s{n}": f"text {n}" for n in range(12)}
        assert len(found) == 12
        assert 1 <= len({o.events[0] for o in found}) <= workers
    assert list(quickly([], workers=2)) == []


def test_outcomes_larger_than_any_buffer_come_through(quickly: Callable[..., Any]) -> None:
    assert [len(o.notebook) for o in quickly(["long"] * 6, workers=2)] == [2_000_004] * 6


def test_a_worker_that_dies_costs_nothing(quickly: Callable[..., Any], tmp_path: Path) -> None:
    texts = [f"text {n}" for n in range(8)]
    texts[2] = f"once {tmp_path / 'died'}"
    found = {o.student: o.problem for o in quickly(texts, workers=2)}
    assert found == {f"s{n}": "" for n in range(8)}
    assert (tmp_path / "died").exists()


def test_a_submission_that_kills_its_worker_twice_is_named_and_no_other_suffers(
    quickly: Callable[..., Any]
) -> None:
    found = {o.student: o.problem for o in quickly(["a", "kill", "b", "c", "kill"], workers=2)}
    assert found.pop("s1") == found.pop("s4") == (
        "could not be graded: the process that judged it ended 2 times (SIGKILL)")
    assert found == {"s0": "", "s2": "", "s3": ""}


def test_a_worker_that_answers_nothing_is_replaced_and_the_submission_named(
    quickly: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quickly(["sleep", "a", "b"], workers=2, limits=Limits(total_seconds=-19.8))
    assert run._patience == pytest.approx(0.6)
    found = {o.student: o.problem for o in run}
    assert found.pop("s0").endswith("ended 2 times (SIGKILL)")
    assert found == {"s1": "", "s2": ""}


def test_a_worker_that_cannot_start_tells_why(
    quickly: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*ignored: Any, **ignored_too: Any) -> None:
        raise UnavailableError("A slot", "all are taken.", "Use fewer workers.")

    monkeypatch.setattr(pool, "Worker", refuse)
    with pytest.raises(UnavailableError, match="Use fewer workers"):
        list(quickly(["a"], workers=1))


def test_ending_early_ends_the_workers(quickly: Callable[..., Any]) -> None:
    run = quickly(["a", "sleep", "sleep", "sleep"], workers=3)
    assert next(run).student == "s0"
    ours = [psutil.Process(hand.process.pid) for hand in run._hands]
    assert len(ours) == 3
    run.close()
    assert gone(ours)


def test_without_fork_the_tasks_run_here(
    quickly: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool.mp, "get_all_start_methods", lambda: ["spawn"])
    assert [(o.student, o.events) for o in quickly(["a", "b"], workers=2)] == [
        ("s0", [str(os.getpid())]), ("s1", [str(os.getpid())])]


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_pool import LAB, Quick
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import pool
from ironlaw_autograder.grading.work import Task
pool.Worker, pool.marking = Quick, lambda *ignored: None
tasks = [Task("a", LAB, "a")] + [Task(f"s{{n}}", LAB, "sleep") for n in range(3)]
for outcome in pool.run(tasks, Course(Path("/")), LAB, workers=3):
    print(outcome.events[0], flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_grader_that_is_killed(how: signal.Signals) -> None:
    code = KILLED.format(tests=str(Path(__file__).parent))
    grader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert grader.stdout is not None
    with grader:
        assert grader.stdout.readline()
        theirs = psutil.Process(grader.pid).children(recursive=True)
        assert len(theirs) == 3
        grader.send_signal(how)
        grader.wait()
        assert gone(theirs)


# With real sandboxes

@pytest.fixture(scope="module")
def tasks(desk: Desk) -> list[Task]:
    """Three honest submissions and one that ends its process."""
    return [task("a", desk.reference()),
            task("b", desk.reference({"mfu": "def mfu(*given):\n    return 0.5"})),
            task("c", desk.untouched()),
            task("d", desk.reference({"mfu": "import os\nos._exit(3)"}))]


def told(outcomes: Iterator[Outcome]) -> dict[str, Any]:
    """What was judged, without how long it took."""
    return {o.student: (o.scores, o.restored, o.events, o.problem, o.notebook) for o in outcomes}


@pytest.mark.sandbox
def test_the_same_grades_with_one_worker_with_three_and_when_workers_are_killed(
    course: Course, marking: Marking, tasks: list[Task]
) -> None:
    work.use_marking(course, marking)
    alone = told(pool.run(tasks, course, LAB, workers=1))
    assert {name: sum(score.points or 0 for score in found[0])
            for name, found in alone.items()} == {"a": 18, "b": 16, "c": 0, "d": 16}
    assert told(pool.run(tasks, course, LAB, workers=3)) == alone
    run = pool.run(tasks, course, LAB, workers=2)
    first = next(run)
    victims = [hand.process.pid for hand in run._hands]
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    rest = told(run)
    assert {**told(iter([first])), **rest} == alone
    assert len(rest) == 3


@pytest.mark.sandbox
def test_a_sandbox_ends_with_its_worker(
    course: Course, marking: Marking, desk: Desk, tmp_path: Path
) -> None:
    work.use_marking(course, marking)
    stuck = task("stuck", desk.reference({"mfu": "while True:\n    pass"}))
    run = pool.run([stuck], course, LAB, workers=1)
    (worker,) = [psutil.Process(hand.process.pid) for hand in run._hands]

    def inside() -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):  # some come and go
            found = worker.children(recursive=True)
            if any(p.cmdline()[-2:-1] == ["inside.agent"] for p in found):
                return found
        return []

    theirs = [worker, *until(inside)]
    run.close()
    assert gone(theirs)


def test_what_fails_once_in_the_grader_itself_is_tried_again_and_named_if_it_fails_again(
    course: Course, marking: Marking, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.use_marking(course, marking)
    falls = [OSError("out of everything")]

    def judged(*given: Any) -> Outcome:
        if falls:
            raise falls.pop()
        return Outcome("a", "judged")

    monkeypatch.setattr(work, "judged", judged)
    worker = work.Worker(course, LAB, isolated=False)
    assert worker.grade(Task("a", LAB, "{}")).notebook == "judged"
    falls = [OSError("out of everything"), OSError("and again")]
    found = worker.grade(Task("a", LAB, "{}"))
    assert found.problem == "could not be graded: OSError: out of everything"
    assert "Traceback" in found.events[0]
    worker.close()


@pytest.mark.sandbox
def test_a_sandbox_is_not_measured_before_it_stands(
    marking: Marking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then its folders are the machine's own, and full."""
    looks: list[int] = []
    plain = watch.measure

    def measure(root: int, folders: tuple[str, ...]) -> watch.Use:
        looks.append(root)
        return plain(root, folders)

    monkeypatch.setattr(watch, "measure", measure)
    monkeypatch.setattr(watch, "_PAUSE", 0.0)
    kernel = Kernel(marking.lab.blocked, Limits())
    assert looks == []
    assert kernel.run("import time; time.sleep(0.3)", 5.0).status == "ok"
    assert looks != []
    kernel.close()


# Slots

NOBODY = 231_900  # a user who runs nothing

HOLD = """
import sys
from pathlib import Path
from ironlaw_autograder.judge import slots, watch
from ironlaw_autograder.judge.kernel import Kernel
held = slots.locked(Path(sys.argv[1]), int(sys.argv[2]))
print(held.number, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="slots are for Linux")
def test_no_two_graders_share_a_slot_and_a_killed_one_frees_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "slots"
    mine = slots.locked(folder, NOBODY)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder), str(NOBODY)], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert (mine.number, other.stdout.readline()) == (0, "1\n")
        third = slots.locked(folder, NOBODY)
        assert third.number == 2
        other.kill()
        other.wait()
        assert slots.locked(folder, NOBODY).number == 1
    mine.close()
    mine.close()
    assert slots.locked(folder, NOBODY).number == 0


@pytest.mark.skipif(sys.platform == "win32", reason="slots are for Linux")
def test_a_slot_whose_user_still_runs_something_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_QUIET_SECONDS", 0.05)
    folder = tmp_path / "slots"
    # This very process runs as the user of slot 0.
    assert slots.locked(folder, os.getuid()).number >= 1
    monkeypatch.setattr(slots, "COUNT", 1)
    with pytest.raises(UnavailableError, match=r"all 1 in .* are taken"):
        slots.locked(folder, os.getuid())


@pytest.mark.skipif(sys.platform == "win32", reason="slots are for Linux")
def test_a_folder_in_which_others_could_meddle_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "slots"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnavailableError, match="only this user can write"):
        slots.locked(folder, NOBODY)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UnavailableError, match="only this user can write"):
        slots.locked(tmp_path / "link", NOBODY)
