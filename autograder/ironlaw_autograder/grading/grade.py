"""Grading a folder of submissions: one result per student, whatever any of them did."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ironlaw.errors import InputError

from ..build import labs
from ..build.lab_source import Lab
from ..course import Course
from ..intake.settle import NOTHING, Submission
from ..intake.spelling import shown
from ..intake.taking import Taking, same_salt, which
from ..judge import sandbox
from ..judge.engine import Score
from ..judge.limits import Limits
from . import database, pool, work
from .adapter import Classroom, GradingError
from .ctrl_c import CtrlC
from .journal import Journal, Written, answers, only_writer, withheld
from .work import Marking, Outcome, Task

# Takes tasks, course, lab, limits and whether to isolate; gives outcomes as they come.
Runner = Callable[..., pool.Outcomes]


@dataclass
class Result:
    """What one student gets. `waiting` are the points that a person still has to give, and
    `marked` those that one gave, by question. `penalty` has been taken off `score` for
    lateness. `notes` say for the instructor how the work came in; a file that nobody can be
    named for has no `student`. `kept`: it was judged in an earlier run, which took `seconds`."""

    student: str
    file: str
    score: float
    maximum: float
    waiting: float
    questions: list[Score] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    problem: str = ""
    seconds: float = 0.0
    marked: dict[str, float] = field(default_factory=dict)
    penalty: float = 0.0
    notes: list[str] = field(default_factory=list)
    submitted: str = ""
    kept: bool = field(default=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Plain values, the same whether they were judged now or kept."""
        return {name: value for name, value in asdict(self).items() if name != "kept"}


def grade_folder(course: Course, folder: Path, out: Path, *, lab_name: str | None = None,
                 limits: Limits | None = None, isolated: bool = True, workers: int | None = None,
                 fresh: bool = False, pages: bool = True, runner: Runner | None = None,
                 url: str | None = None, taking: Taking | None = None,
                 notice: Callable[[str], None] | None = None,
                 report: Callable[[int, int, Result], None] | None = None,
                 ) -> tuple[Lab, list[Result]]:
    """Grade every submission in `folder` into `out`; results in the order of the folder.

    What was judged before and has not changed since is taken from the journal in `out`, unless
    `fresh`; what the gradebook holds of it already is not written again, unless `fresh`.
    `runner` judges instead of the pool of `workers` on this machine.
    Without `pages` no feedback is written. `url` is where
    the gradebook lies (default: where `out` remembers it, at first a file in it). `taking` says
    how the work is taken in, and `notice` hears what the instructor should know of all of it.
    """
    # What the caller can mend at once is told first, the machine's own obstacles after it.
    taking = taking or Taking()
    known = labs.labs(course)
    found = taking.collect(folder, known)
    if out.resolve().is_relative_to(folder.resolve()):
        raise InputError("out", str(out), "outside the folder of submissions")
    lab = which(known, lab_name, found)
    submissions = taking.settle(found, lab)
    same_salt(course, lab, submissions)
    if notice is not None:
        for said in taking.said(found, submissions):
            notice(said)
    url = database.settle(out, url)
    if runner is None:
        if isolated:
            sandbox.require()
        runner = functools.partial(pool.run, workers=workers)
    work.use_marking(course, Marking(lab))
    grading = _Grading(course, Classroom(out, course, lab, url), limits or Limits(), isolated,
                       pages, taking)
    results: dict[str, Result] = {}
    nameless: list[Result] = []  # they come in their own order
    with (only_writer(out), CtrlC() as ctrl_c,
          contextlib.closing(grading.results(submissions, runner, fresh)) as made):
        for result in made:
            if result.student:
                results[result.student] = result
            else:
                nameless.append(result)
            if report is not None:
                report(len(results) + len(nameless), len(submissions), result)
            ctrl_c.check()
    left = iter(nameless)
    return lab, [results[s.student] if s.student else next(left) for s in submissions]


class _Grading:
    """One run over a class: the only writer of the gradebook."""

    def __init__(self, course: Course, classroom: Classroom, limits: Limits,
                 isolated: bool, pages: bool, taking: Taking) -> None:
        self._course = course
        self._room = classroom
        self._limits = limits
        self._isolated = isolated
        self._pages = pages
        self._taking = taking
        self._journal = Journal(classroom.root, classroom.lab.name)
        marking = work.marking(course, classroom.lab.name)
        self._stamp, self._digest = marking.stamp, marking.digest

    def results(self, submissions: list[Submission], runner: Runner,
                fresh: bool) -> Generator[Result, None, None]:
        """One result for each submission, as they come: those that were judged before first."""
        read = {submission.student: (submission, Task.of(
                    submission.student, self._room.lab.name, submission.notebook))
                for submission in submissions if submission.notebook is not None}
        known = {} if fresh else {
            student: outcome for student, (_, task) in read.items()
            if (outcome := self._journal.outcome(student, self._key(task))) is not None}
        judged = runner([task for student, (_, task) in read.items() if student not in known],
                        self._course, self._room.lab.name, self._limits, isolated=self._isolated)
        with contextlib.closing(judged):
            self._room.prepare()  # the workers have begun meanwhile
            self._room.expect(self._taking)
            for submission in submissions:
                if submission.notebook is None:
                    yield self._unread(submission)
            for student, outcome in known.items():
                yield self._enter(*read[student], outcome)
            for outcome in judged:
                yield self._enter(*read[outcome.student], outcome, new=True, again=fresh)

    def _unread(self, submission: Submission) -> Result:
        result = self._blank(submission)
        if not submission.student:
            return result
        with _named(result), self._room.sitting():
            if submission.problem != NOTHING:
                self._withhold(result, withheld("no file that can be read"), waits=False)
                self._standing(result)
            elif self._standing(result):
                result.notes.append("the gradebook still holds what was handed in before")
        return result

    def _enter(self, submission: Submission, task: Task, outcome: Outcome, *,
               new: bool = False, again: bool = False) -> Result:
        """Write one outcome into the gradebook, in a transaction of its own, and into the
        journal first when it is new; `again`, if it is there already."""
        result = self._blank(submission)
        result.problem, result.kept = outcome.problem, not new
        result.questions, result.restored = outcome.scores, outcome.restored
        result.events, result.seconds = list(outcome.events), outcome.seconds
        with _named(result), self._room.sitting():
            if new:
                self._journal.keep(self._key(task), outcome)
            if outcome.problem:
                file = hashlib.sha256(task.notebook.encode()).hexdigest()
                self._withhold(result, withheld(f"the grader failed on {file}"), waits=True)
            else:
                self._write(submission, task, outcome, result, again)
            self._standing(result)
        if result.penalty:
            result.notes.append(f"{result.penalty:g} points taken off for lateness")
        return result

    def _standing(self, result: Result) -> bool:
        """Take points from the gradebook, which alone knows marks and penalties, if it has any."""
        found = self._room.standing(result.student)
        if found is not None:
            result.score, result.maximum = found.score, found.maximum
            result.waiting, result.marked = found.waiting, found.marked
            result.penalty = found.penalty
        return found is not None

    def _written(self, student: str) -> Written | None:
        """What this gradebook holds; what another one holds tells nothing about it."""
        found = self._journal.written(student)
        return found if found is not None and found.place == self._room.place else None

    def _withhold(self, result: Result, key: str, *, waits: bool) -> None:
        """Take back what the gradebook holds of a student, and say which marks that costs.

        The journal is told before and after: killed in between, the next run writes again.
        Marks that a person gives afterwards count, as long as the reason stays the same.
        """
        student = result.student
        before = self._written(student) or Written("", {}, self._room.place)
        keep = before.key == key
        if not keep:
            before = before.set_aside(self._room.by_hand(student))
            self._journal.wrote(student, before)
        self._room.withhold(student, waits=waits, keep=keep)
        if not keep:
            self._journal.wrote(student, replace(before, key=key))
        if before.aside:
            result.notes.append("set aside until the answer is there again: " + ", ".join(
                f"{(mark.points or 0.0) + (mark.extra or 0.0):g} points given by hand for {name}"
                for name, mark in before.aside.items()))

    def _write(self, submission: Submission, task: Task, outcome: Outcome, result: Result,
               again: bool) -> None:
        before = self._written(task.student)
        judged = hashlib.sha256(outcome.notebook.encode()).hexdigest()
        now = Written(judged, answers(outcome.node()), self._room.place)
        if before == now and not again and self._stands(task.student):
            if self._room.dated(submission, self._taking.dates):
                self._page(task.student, result)
            return
        changed = None
        if before is not None:
            changed = before.changed(now.answers)
            if before.withheld:  # what was given meanwhile was given without these answers
                changed |= self._room.by_hand(task.student).keys() - before.aside.keys()
            self._journal.wrote(task.student, before.doubted(changed))
            self._room.give_back(task.student, before.aside)
        self._room.submit(task.student, task.node())
        self._room.enter(outcome, changed)
        self._room.dated(submission, self._taking.dates)
        self._page(task.student, result)
        self._journal.wrote(task.student, now)

    def _page(self, student: str, result: Result) -> None:
        try:
            if self._pages:
                self._room.feedback(student)
        except GradingError as problem:  # the grade stands without its page
            result.events.append(f"no feedback page: {problem}")

    def _stands(self, student: str) -> bool:
        """Whether everything that an earlier run wrote for this student is still there."""
        return (self._room.graded(student).is_file()
                and (self._room.page(student).is_file() or not self._pages)
                and self._room.standing(student) is not None)

    def _blank(self, submission: Submission) -> Result:
        when = submission.submitted.isoformat() if submission.submitted else ""
        return Result(submission.student, shown(submission.file.name, 255), 0.0,
                      self._room.lab.points, 0.0, problem=submission.problem, submitted=when,
                      notes=self._taking.remarks(submission, self._stamp))

    def _key(self, task: Task) -> str:
        return work.key(task, self._digest, self._limits, self._isolated)


@contextlib.contextmanager
def _named(result: Result) -> Iterator[None]:
    """A failure becomes the result's problem: one submission must never stop the others."""
    try:
        yield
    except Exception as problem:
        result.problem = f"could not be entered: {type(problem).__name__}: {problem}"
        result.events.append(traceback.format_exc()[-3_000:])
