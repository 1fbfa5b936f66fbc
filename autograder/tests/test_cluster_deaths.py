"""What the grader does when workers of a cluster come late, change, hang or die.

The cluster is played here, so that each case happens for certain and at once; real processes
are tried in `test_cluster.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import KilledWorker
from ironlaw.errors import UnavailableError
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import cluster, cluster_worker
from ironlaw_autograder.grading.cluster_scheduler import Scheduler
from ironlaw_autograder.grading.work import Outcome, Task

TASKS = [Task(name, "lab", "{}") for name in "abcdef"]
FIT = {"tests": "1"}
HANGS = object()
CANCELLED = object()


class Future:
    """One call on a played worker, answered at once unless it hangs."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.status = "cancelled" if answer is CANCELLED else "done"
        self.released = False

    def add_done_callback(self, call: Callable[[Future], None]) -> None:
        if self.answer is not HANGS:
            call(self)

    def result(self, timeout: float) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def release(self) -> None:
        self.released = True


class Played:
    """A cluster by script: `there` maps workers to threads, `script` changes what they do."""

    def __init__(self, *workers: str) -> None:
        self.there = dict.fromkeys(workers, 1)
        self.seen: list[tuple[str, str]] = []  # who was handed what
        self.futures: list[Future] = []
        self.closed = False
        self.now = 0.0
        self.script: Callable[[str, str], Any] = lambda worker, student: None
        self.identity: dict[str, dict[str, str]] = {}

    def nthreads(self, callback_timeout: float) -> dict[str, int]:
        self.now += 1.0
        return dict(self.there)

    def submit(self, what: Any, order: str = "{}", *, workers: list[str], **ignored: Any) -> Future:
        (worker,) = workers
        given = json.loads(order)
        made = Future(json.dumps({"host": "here", "process": 1,
                                  "identity": self.identity.get(worker, FIT)}))
        if what is cluster_worker.grade:
            student = given["task"]["student"]
            self.seen.append((worker, student))
            scripted = self.script(worker, student)
            made = Future(json.dumps(Outcome(student, "{}").to_json())
                          if scripted is None else scripted)
        self.futures.append(made)
        return made

    def cancel(self, futures: list[Future], force: bool) -> None:
        for future in futures:
            future.status = "cancelled"

    def close(self, timeout: float) -> None:
        self.closed = True


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, str], list[str]]]:
    """Grades six submissions on a played cluster: problems by student, and what was noticed."""
    def run(played: Played) -> tuple[dict[str, str], list[str]]:
        monkeypatch.setattr(cluster, "check", lambda scheduler: scheduler)
        monkeypatch.setattr(cluster, "connect", lambda scheduler: played)
        monkeypatch.setattr(cluster, "_LOOK_SECONDS", 0.001)
        monkeypatch.setattr(cluster, "time", SimpleNamespace(
            monotonic=lambda: played.now, sleep=lambda seconds: None))
        monkeypatch.setattr(cluster_worker, "identity", lambda course, lab: FIT)
        notices: list[str] = []
        outcomes = cluster.run(TASKS, Course(Path("/course")), "lab",
                               scheduler=Scheduler("tcp://h:1"), notice=notices.append)
        try:
            found = [(outcome.student, outcome.problem) for outcome in outcomes]
        finally:
            outcomes.close()
            assert played.closed
        assert sorted(student for student, _ in found) == list("abcdef")
        return dict(found), notices
    return run


def nothing_wrong(problems: dict[str, str]) -> bool:
    return not any(problems.values())


def test_each_worker_has_one_submission_in_work_and_one_that_waits(play: Any) -> None:
    played = Played("w1", "w2")
    played.script = lambda worker, student: HANGS  # so that nothing is ever given back
    with pytest.raises(UnavailableError):
        play(played)
    assert played.seen[:4] == [("w1", "a"), ("w2", "b"), ("w1", "c"), ("w2", "d")]


def test_a_worker_that_comes_late_and_is_unfit_is_noticed_and_left_out(play: Any) -> None:
    played = Played("w1")
    played.identity["w2"] = {"tests": "2"}

    def script(worker: str, student: str) -> None:
        played.there["w2"] = 1
    played.script = script
    problems, notices = play(played)
    assert nothing_wrong(problems)
    assert notices == ["worker left out: w2 (host here, process 1): tests is 2, here 1"]
    assert {worker for worker, _ in played.seen} == {"w1"}


def test_a_worker_whose_checkout_changed_gives_its_work_to_others(play: Any) -> None:
    played = Played("w1", "w2")
    played.script = lambda worker, student: (
        json.dumps({"refused": "tests is 2, here 1"}) if worker == "w1" else None)
    problems, notices = play(played)
    assert nothing_wrong(problems)
    assert notices == ["worker left out: w1 (host here, process 1): tests is 2, here 1"]
    assert sum(worker == "w1" for worker, _ in played.seen) <= 2


def test_of_a_dead_worker_what_was_in_work_runs_again_alone(play: Any) -> None:
    played = Played("w1")

    def script(worker: str, student: str) -> Any:
        if worker == "w1":  # it dies with one in work and one that waits
            played.there = {"w2": 1}
            return HANGS
        return None
    played.script = script
    problems, _ = play(played)
    assert nothing_wrong(problems)
    assert played.seen[:3] == [("w1", "a"), ("w1", "b"), ("w2", "a")]
    assert played.seen[3] == ("w2", "b")  # handed out once the suspect had come back


def test_a_suspect_shares_its_worker_with_nobody(play: Any) -> None:
    played = Played("w1")

    def script(worker: str, student: str) -> Any:
        if worker == "w1":
            played.there = {"w2": 2}
            return HANGS
        if student == "a":  # here it hangs, and others could be served beside it
            played.there["w3"] = 1
            return HANGS
        return None
    played.script = script
    problems, _ = play(played)
    assert "ended 2 times" in problems.pop("a")
    assert nothing_wrong(problems)
    assert [student for worker, student in played.seen if worker == "w2"] == ["a"]


def test_a_submission_that_two_workers_died_of_is_named_and_blames_no_neighbour(play: Any) -> None:
    played = Played("w1")
    next_one = iter(["w2", "w3"])

    def script(worker: str, student: str) -> Any:
        if student == "a":
            played.there = {next(next_one): 1}
            return HANGS
        return HANGS if worker not in played.there else None
    played.script = script
    problems, _ = play(played)
    assert "the worker that judged it ended 2 times (last: w2" in problems.pop("a")
    assert nothing_wrong(problems)


def test_a_worker_that_died_and_came_back_under_its_address_is_not_waited_for(play: Any) -> None:
    played = Played("w1")
    deaths = {"a": 2, "b": 1}

    def script(worker: str, student: str) -> Any:
        if deaths.get(student, 0):
            deaths[student] -= 1
            return KilledWorker("grade", None, 3)
        return None
    played.script = script
    problems, _ = play(played)
    assert "ended 2 times" in problems.pop("a")
    assert nothing_wrong(problems)
    assert deaths == {"a": 0, "b": 0}


@pytest.mark.parametrize("lost", [CANCELLED, TimeoutError()])
def test_an_answer_that_went_astray_is_asked_for_again(play: Any, lost: Any) -> None:
    played = Played("w1")
    astray = ["c"]
    played.script = lambda worker, student: lost if student in astray and not astray.clear() \
        else None
    problems, _ = play(played)
    assert nothing_wrong(problems)
    assert [student for _, student in played.seen].count("c") == 2


def test_a_worker_that_hangs_is_left_out_after_all_limits(play: Any) -> None:
    played = Played("w1", "w2")
    played.script = lambda worker, student: HANGS if worker == "w1" else None
    problems, notices = play(played)
    assert nothing_wrong(problems)
    assert notices == ["worker left out: w1 (host here, process 1): it did not answer in time"]


def test_what_broke_off_on_a_worker_is_a_problem_of_that_submission_alone(play: Any) -> None:
    played = Played("w1")
    played.script = lambda worker, student: (
        json.dumps({"broke": "MemoryError: "}) if student == "d" else None)
    problems, _ = play(played)
    assert problems.pop("d") == ("could not be graded: worker w1 (host here, process 1): "
                                 "MemoryError: ")
    assert nothing_wrong(problems)


def test_answers_are_let_go_before_their_destructor_can_swallow_an_interrupt(play: Any) -> None:
    played = Played("w1", "w2")
    play(played)
    judged = [future for future in played.futures if "student" in str(future.answer)]
    assert len(judged) == 6
    assert all(future.released for future in judged)


def test_without_workers_the_run_ends_and_says_what_came_back(play: Any) -> None:
    played = Played("w1")

    def script(worker: str, student: str) -> None:
        if student == "c":
            played.there = {}
    played.script = script
    with pytest.raises(UnavailableError, match="for 60 s; 4 of 6 submissions came back"):
        play(played)
