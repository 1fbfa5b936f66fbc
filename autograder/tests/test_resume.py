"""A grader that is stopped goes on where it was, and what a person has marked stays."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from ironlaw.errors import InputError
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import journal, work
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.grading.journal import Journal
from ironlaw_autograder.grading.preprocessors import SaveGrades
from ironlaw_autograder.grading.tables import grades_csv
from ironlaw_autograder.grading.work import Outcome
from ironlaw_autograder.judge.limits import Limits
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode
from regraded_class import LAB, Class, gradebook
from test_ctrl_c import lost

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def school(course: Course, tmp_path: Path, desk: Desk) -> Class:
    """Three students who got everything right, nothing graded yet."""
    made = Class(course, tmp_path, desk)
    for name in "abc":
        made.hand_in(name)
    return made


# What is judged again

def test_only_what_has_changed_is_judged_again(school: Class, tmp_path: Path) -> None:
    first = school.grade()
    assert school.judged == ["a", "b", "c"]
    assert [r.score for r in first.values()] == [18, 18, 18]
    again = school.grade()
    assert school.judged == []
    assert again == first
    school.hand_in("b", mfu="def mfu(*given):\n    return 'HALF'")
    school.hand_in("d")
    changed = school.grade()
    assert school.judged == ["b", "d"]
    assert {name: r.score for name, r in changed.items()} == {"a": 18, "b": 9, "c": 18, "d": 18}
    school.grade(limits=Limits(cell_seconds=9.0))
    assert school.judged == list("abcd")
    school.grade(fresh=True)
    assert school.judged == list("abcd")


def test_a_corrected_test_is_judged_again_for_everybody(school: Class, tmp_path: Path) -> None:
    school.course = Course(tmp_path / "course")
    school.course.chapters.mkdir(parents=True)
    shutil.copytree(ROOT / "solutions", school.course.solutions)
    school.grade()
    school.grade()
    assert school.judged == []
    source = school.course.solutions / f"{LAB}.py"
    mark = "### BEGIN HIDDEN TESTS\n"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace(mark, f"{mark}# corrected\n", 1), encoding="utf-8")
    work._markings.clear()
    school.grade()
    assert school.judged == ["a", "b", "c"]


def test_what_the_grader_failed_on_waits_for_a_person_and_is_tried_again(school: Class) -> None:
    school.fails = {"b"}
    found = school.grade()
    assert {name: (r.score, r.waiting) for name, r in found.items()} == {
        "a": (18, 2), "b": (0, 20), "c": (18, 2)}
    assert found["b"].problem == "could not be graded: the judge fell ill"
    school.fails = set()
    assert school.grade()["b"].score == 18
    assert school.judged == ["b"]


def test_a_damaged_journal_costs_no_more_than_judging_again(school: Class) -> None:
    first = school.grade()
    for place, path in enumerate(sorted((school.out / "journal").rglob("*.json"))):
        path.write_text(["", "{", "[1]", '{"student": "a"}'][place % 4], encoding="utf-8")
    assert school.grade() == first
    assert school.judged == ["a", "b", "c"]


# What a person has marked

def test_a_mark_stays_while_the_answer_stays(school: Class) -> None:
    school.grade()
    school.mark("a", "explain", 1.5)
    with school.room().gradebook() as book:
        book.find_comment("explain", LAB, LAB, "a").manual_comment = "Well put."
        book.db.commit()
    for options in ({}, {"fresh": True}, {"limits": Limits(cell_seconds=9.0)}):
        found = school.grade(**options)["a"]
        assert (found.score, found.waiting, found.marked) == (19.5, 0, {"explain": 1.5})
    school.hand_in("a", mfu="def mfu(*given):\n    return 'HALF'")  # another answer
    found = school.grade()["a"]
    assert (found.score, found.waiting, found.marked) == (10.5, 0, {"explain": 1.5})
    assert "Well put." in str(gradebook(school.room())["a"])
    assert "1.5" in grades_csv(school.desk.lab, list(school.grade().values())).split("\n")[1]


def test_a_changed_answer_waits_for_a_person_again(school: Class) -> None:
    school.grade()
    school.mark("a", "explain", 1.5)
    school.hand_in("a", explain="On second thoughts: the other way round.")
    for _ in range(3):  # and goes on waiting
        found = school.grade(fresh=True)["a"]
        assert (found.score, found.waiting, found.marked) == (18, 2, {})
    school.mark("a", "explain", 2.0)
    found = school.grade(fresh=True)["a"]
    assert (found.score, found.waiting) == (20, 0)


def test_points_given_over_the_machines_head_stay_until_its_own_change(school: Class) -> None:
    school.hand_in("a", mfu="def mfu(*given):\n    return 'HALF'")
    school.grade()
    school.mark("a", "check-mfu", 2.0)
    assert school.grade(fresh=True)["a"].marked == {"check-mfu": 2.0}
    school.hand_in("a", mfu="def mfu(*given):\n    return 'the whole'")
    found = school.grade()["a"]
    assert found.marked == {}
    assert found.waiting == 2 + 2  # this question and the written one


# A writer that is stopped

def test_nothing_of_a_submission_is_written_by_halves(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, seen = SaveGrades._add_score, []

    def stopped(self: SaveGrades, cell: NotebookNode, resources: Any) -> None:
        plain(self, cell, resources)
        seen.append(cell)
        if len(seen) == 14:  # in the midst of the second student
            raise KeyboardInterrupt

    monkeypatch.setattr(SaveGrades, "_add_score", stopped)
    with pytest.raises(KeyboardInterrupt):
        school.grade()
    assert set(gradebook(school.room())) == {"a"}
    monkeypatch.undo()
    found = school.grade()
    assert school.judged == ["c"]  # a and b were kept
    assert [(r.score, r.waiting) for r in found.values()] == [(18, 2)] * 3


def test_a_changed_answer_is_not_forgotten_when_the_writer_is_stopped_behind_it(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.grade()
    school.mark("a", "explain", 1.5)
    school.hand_in("a", explain="On second thoughts: the other way round.")

    def stopped(*ignored: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "wrote", stopped)
    with pytest.raises(KeyboardInterrupt):
        school.grade()
    monkeypatch.undo()
    found = school.grade()["a"]
    assert school.judged == ["b", "c"] or school.judged == []
    assert (found.score, found.waiting) == (18, 2)


def test_a_submission_that_cannot_be_entered_stops_no_other(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Classroom.enter

    def enter(self: Classroom, outcome: Outcome, changed: set[str] | None) -> None:
        if outcome.student == "b":
            raise OSError("the disk is full")
        plain(self, outcome, changed)

    monkeypatch.setattr(Classroom, "enter", enter)
    found = school.grade()
    assert {name: r.score for name, r in found.items()} == {"a": 18, "b": 0, "c": 18}
    assert found["b"].problem == "could not be entered: OSError: the disk is full"
    monkeypatch.undo()
    assert school.grade()["b"].score == 18
    assert school.judged == []


def test_what_has_vanished_from_the_folder_is_written_again(school: Class) -> None:
    first = school.grade(pages=True)
    shutil.rmtree(school.out / "feedback" / "a")
    shutil.rmtree(school.out / "autograded" / "b")
    (school.out / "gradebook.db").unlink()
    assert school.grade(pages=True) == first
    assert school.judged == []
    assert school.room().page("a").is_file()
    assert school.room().graded("b").is_file()


def test_two_graders_do_not_write_to_one_folder(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_PATIENCE_SECONDS", 0.0)
    with journal.only_writer(school.out), pytest.raises(InputError, match="no other grader"):
        school.grade()
    assert len(school.grade()) == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ctrl_c_that_python_drops_stops_after_the_submission_and_loses_nothing(
    school: Class,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        school.grade(report=lambda *result: lost())
    assert school.judged == ["a"]
    assert len(school.grade()) == 3
    assert school.judged == ["b", "c"]


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, **options: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)  # as a system's own folders do
    with (pytest.raises(InputError, match="No such file") as refused,
          journal.only_writer(tmp_path / "a")):
        pass
    assert refused.value.argument == "out"


# The command itself, killed

@pytest.mark.sandbox
def test_a_grader_that_is_stopped_and_killed_ends_where_one_left_alone_ends(
    course: Course, desk: Desk, tmp_path: Path
) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    for place in range(6):
        changes = {"mfu": f"def mfu(*given):\n    return 0.{place}"} if place % 2 else {}
        (folder / f"s{place}.ipynb").write_text(json.dumps(desk.reference(changes)))
    (folder / "broken.ipynb").write_text("{")
    stopped, alone = tmp_path / "stopped", tmp_path / "alone"

    first = start(folder, stopped)
    wait_for(lambda: bool(kept(stopped)), first)
    theirs = psutil.Process(first.pid).children(recursive=True)
    os.killpg(first.pid, signal.SIGINT)  # what Ctrl-C does
    said = first.communicate(timeout=60)[1]
    assert first.returncode == 130
    assert "the same command goes on from there" in said
    assert not psutil.wait_procs(theirs, timeout=10)[1]

    before = kept(stopped)
    second = start(folder, stopped)
    wait_for(lambda: len(kept(stopped)) > len(before), second)
    theirs = psutil.Process(second.pid).children(recursive=True)
    second.kill()
    second.communicate(timeout=60)
    assert not psutil.wait_procs(theirs, timeout=10)[1]
    assert not (stopped / "grades.csv").exists()

    before = kept(stopped)
    assert 2 <= len(before) < 6
    for out in (stopped, alone):
        last = start(folder, out)
        last.communicate(timeout=120)
        assert last.returncode == 0
    assert {name: when for name, when in kept(stopped).items() if name in before} == before
    assert (stopped / "grades.csv").read_bytes() == (alone / "grades.csv").read_bytes()
    rooms = [gradebook(Classroom(out, course, desk.lab)) for out in (stopped, alone)]
    assert rooms[0] == rooms[1]
    assert len(rooms[0]) == 7
    pages = [sorted(str(p.relative_to(out)) for p in (out / "feedback").rglob("*.html"))
             for out in (stopped, alone)]
    assert pages[0] == pages[1]
    assert len(pages[0]) == 6


# The command, for which the code is the same each time, even if somebody is editing it.
GRADE = """
import sys
from ironlaw_autograder.grading import journal, work
work.fingerprint = lambda: "this code"
from ironlaw_autograder.cli import main
sys.exit(main(["grade", *sys.argv[1:]]))
"""


def start(folder: Path, out: Path) -> subprocess.Popen[str]:
    """`grade` as a command, in a group of processes of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", GRADE, str(folder), "--out", str(out), "--root", str(ROOT),
         "--workers", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def kept(out: Path) -> dict[str, int]:
    """The outcomes in the journal, with the time when each was written."""
    found = {}
    for path in (out / "journal" / LAB / "outcomes").glob("*.json"):
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.stat().st_mtime_ns
    return found


def wait_for(there: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not there():
        assert process.poll() is None, "it ended too soon"
        assert time.monotonic() < until
        time.sleep(0.01)
