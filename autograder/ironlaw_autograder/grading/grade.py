"""Grading a folder of submissions: one result per student, whatever any of them did."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ironlaw.errors import InputError, choice
from nbformat import NotebookNode

from ..build import labs
from ..build.lab_source import Lab, label
from ..course import Course
from ..judge.engine import Engine, Score
from ..judge.limits import Limits
from . import intake, preprocessors
from .adapter import Classroom, GradingError


@dataclass
class Result:
    """What one student gets. `waiting` are the points that a person still has to give."""

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

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def grade_folder(course: Course, folder: Path, out: Path, *, lab_name: str | None = None,
                 limits: Limits | None = None, isolated: bool = True,
                 report: Callable[[int, int, Result], None] | None = None,
                 ) -> tuple[Lab, list[Result]]:
    """Grade every submission in `folder` into `out`; results in the order of the folder."""
    # What the caller can mend at once is told first, the machine's own obstacles after it.
    submissions = intake.read_folder(folder, lab_name)
    if out.resolve().is_relative_to(folder.resolve()):
        raise InputError("out", str(out), "outside the folder of submissions")
    lab = _which(labs.labs(course), lab_name, submissions)
    engine = Engine(limits, isolated=isolated)
    classroom = Classroom(out, course, lab)
    preprocessors.use_engine(engine)
    preprocessors.use_marking(course, preprocessors.Marking(lab))
    results = []
    try:
        classroom.prepare()
        for place, submission in enumerate(submissions, start=1):
            results.append(_one(classroom, submission))
            if report is not None:
                report(place, len(submissions), results[-1])
    finally:
        engine.close()
    return lab, results


def _one(classroom: Classroom, submission: intake.Submission) -> Result:
    start = time.monotonic()
    result = Result(submission.student, submission.file.name, 0.0, classroom.lab.points, 0.0,
                    problem=submission.problem)
    try:
        if submission.notebook is None:
            classroom.absent(submission.student)
        else:
            _graded(classroom, submission.student, submission.notebook, result)
    except Exception as problem:  # one submission must never stop the others
        result.problem = f"could not be graded: {type(problem).__name__}: {problem}"
        result.events.append(traceback.format_exc()[-3_000:])
    result.seconds = round(time.monotonic() - start, 2)
    return result


def _graded(classroom: Classroom, student: str, notebook: NotebookNode, result: Result) -> None:
    preprocessors.last.clear()
    classroom.submit(student, notebook)
    classroom.autograde(student)
    graded = preprocessors.last["graded"]
    result.questions = graded.scores
    result.restored = preprocessors.last["notes"]
    result.events = graded.events
    result.score, result.maximum, _ = classroom.totals(student)
    result.waiting = sum(score.maximum for score in graded.scores if score.points is None)
    try:
        classroom.feedback(student)
    except GradingError as problem:  # the grade stands without its page
        result.events.append(f"no feedback page: {problem}")


def _which(known: list[Lab], name: str | None, submissions: list[intake.Submission]) -> Lab:
    """The lab that was handed in: as named, or the one whose labels the notebooks carry."""
    by_name = {lab.name: lab for lab in known}
    if name is not None:
        return by_name[choice("lab", name, by_name)]
    shared = {lab.name: 0 for lab in known}
    for submission in submissions:
        found = intake.labels(submission.notebook) if submission.notebook else set()
        for lab in known:
            graded = {label(c)["grade_id"] for c in lab.source.cells if label(c)["grade"]}
            shared[lab.name] += len(found & graded)
    best = max(shared, key=lambda key: shared[key], default="")
    if not best or shared[best] == 0:
        raise InputError("lab", name, "one of " + ", ".join(map(repr, by_name)),
                         "No notebook shows which lab it belongs to: name it with --lab.")
    return by_name[best]
