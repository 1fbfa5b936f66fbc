"""What a graded folder holds, read for export: from the gradebook, and the judge's words beside it.

The gradebook decides every point, because marks given by hand and late penalties stand there
alone. `grades.json` adds what the judge said about an answer. Nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat
from ironlaw.errors import InputError
from nbgrader.api import Assignment, Grade, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import create_engine, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, joinedload, selectinload

from ..build.lab_source import label
from ..grading import contents, database
from ..intake.settle import NOTHING
from ..judge.engine import NO_ANSWER


@dataclass(frozen=True)
class Question:
    """One graded cell: its name, what students know it as, its points, and who marks it."""

    name: str
    title: str
    maximum: float
    written: bool


@dataclass(frozen=True)
class Mark:
    """What one answer earned; `points` is None while a person still has to mark it.

    `message` and `got` are what the judge said and the value that it refused.
    """

    points: float | None
    blank: bool = False
    timed_out: bool = False
    message: str = ""
    got: str = ""


@dataclass(frozen=True)
class Student:
    """One student's marks by question, and the points that a late hand-in costs.

    `names` are the further ids by which a learning platform may know the student. `handed_in`
    is False where no notebook came, `problem` says why a notebook could not be judged.
    """

    id: str
    marks: dict[str, Mark]
    penalty: float = 0.0
    names: tuple[str, ...] = ()
    problem: str = ""
    handed_in: bool = True

    @property
    def earned(self) -> float:
        """Points so far, before a late penalty."""
        return sum(mark.points for mark in self.marks.values() if mark.points is not None)

    @property
    def total(self) -> float:
        """Points so far, late penalty taken off, never below 0."""
        return max(0.0, self.earned - self.penalty)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The questions that a person still has to mark."""
        return tuple(name for name, mark in self.marks.items() if mark.points is None)

    @property
    def judged(self) -> bool:
        """Whether a notebook was taken in and judged, question by question."""
        return self.handed_in and not self.problem and bool(self.marks)

    @property
    def final(self) -> bool:
        """Whether the total is settled: nothing waits, and the grader did not fail."""
        return bool(self.marks) and not self.waiting


@dataclass(frozen=True)
class Book:
    """A graded class: one lab, its questions in order, its students in order of their ids.

    `nameless` are files for which no student could be named; they have no grade.
    """

    lab: str
    title: str
    questions: tuple[Question, ...]
    students: tuple[Student, ...]
    nameless: tuple[str, ...] = ()

    @property
    def maximum(self) -> float:
        """The points that the lab can bring."""
        return sum(question.maximum for question in self.questions)


def read(out: Path) -> Book:
    """The graded folder `out`, or `InputError` saying what it lacks."""
    data = _grades_json(out)
    lab = data["lab"]
    said = {str(result["student"]): result for result in data["results"] if result["student"]}
    nameless = tuple(str(result.get("file", "")) for result in data["results"]
                     if not result["student"])
    with _gradebook(out) as session:
        title, questions = _questions(out, lab, session)
        found = [_student(submission, questions, said.get(submission.student.id, {}))
                 for submission in _submissions(session, lab)]
    known = {student.id for student in found}
    # A notebook on which the grader itself failed has no marks: a person must look.
    found += [Student(name, {}, problem=str(result.get("problem") or "it was not graded"),
                      handed_in=result.get("problem") != NOTHING)
              for name, result in said.items() if name not in known]
    return Book(lab, title, questions, tuple(sorted(found, key=lambda s: s.id)), nameless)


def _grades_json(out: Path) -> dict[str, Any]:
    step = "Name the folder that `ironlaw-autograder grade` wrote, such as CLASS-graded."
    if not out.is_dir():
        raise InputError("out", str(out), "a graded folder", f"There is no such folder. {step}")
    file = out / "grades.json"
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(data["lab"], str) or not isinstance(data["results"], list):
            raise TypeError
    except FileNotFoundError:
        raise InputError("out", str(out), "a graded folder, with grades.json in it",
                         step) from None
    except (ValueError, KeyError, TypeError):
        raise InputError("out", str(file), "the grades.json that grading wrote",
                         "Grade again to write it afresh: the same files give the same "
                         "grades.") from None
    return data


@contextmanager
def _gradebook(out: Path) -> Iterator[Session]:
    """A session on the gradebook for reading alone.

    nbgrader's own `Gradebook` makes tables and entries that are missing as soon as it is opened.
    """
    url = database.of(out)
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        file = Path(parsed.database or "")
        if not file.is_file():
            raise InputError("out", str(out), "a graded folder, with its gradebook",
                             f"{file} is missing: grade again, or name the folder that "
                             "`ironlaw-autograder grade` wrote.")
        url = f"sqlite:///file:{quote(str(file.resolve()))}?mode=ro&uri=true"
    else:
        url = database.check(url)
    engine = create_engine(url)
    try:
        with Session(engine) as session:
            yield session
    except SQLAlchemyError as problem:
        reason = " ".join(str(getattr(problem, "orig", None) or problem).split())[:200]
        raise InputError("out", str(out), "a graded folder whose gradebook can be read",
                         f"The gradebook said: {reason}. Let nothing else write to it "
                         "meanwhile; if it is damaged, grade again into a new folder.") from None
    finally:
        engine.dispose()


def _submissions(session: Session, lab: str) -> Iterable[SubmittedAssignment]:
    """The lab's submissions, with all that is needed of each fetched together."""
    grades = selectinload(SubmittedAssignment.notebooks).selectinload(SubmittedNotebook.grades)
    return session.scalars(
        select(SubmittedAssignment).join(SubmittedAssignment.assignment)
        .where(Assignment.name == lab)
        .options(grades.joinedload(Grade.cell), joinedload(SubmittedAssignment.student)))


def _questions(out: Path, lab: str, session: Session) -> tuple[str, tuple[Question, ...]]:
    assignment = session.scalars(select(Assignment).where(Assignment.name == lab)).one_or_none()
    if assignment is None:
        raise InputError("out", str(out), f"a graded folder of {lab}",
                         "Its gradebook does not know this lab: grade again.")
    cells = {cell.name: cell for part in assignment.notebooks for cell in part.grade_cells}
    title, order = lab, {}
    source = out / "source" / lab / f"{lab}.ipynb"
    if source.is_file():
        notebook = nbformat.read(source, as_version=4)
        title = _heading(notebook) or lab
        order = {name: (number, words) for name, (number, words)
                 in contents.questions(notebook.cells).items()}
        graded = [label(c)["grade_id"] for c in notebook.cells if label(c).get("grade")]
    else:
        graded = sorted(cells)
    names = [name for name in graded if name in cells] + sorted(set(cells) - set(graded))
    found = []
    for name in names:
        number, words = order.get(name, ("", name))
        heading = " · ".join(part for part in (number, words) if part)
        found.append(Question(name, heading, float(cells[name].max_score),
                              cells[name].cell_type == "markdown"))
    return title, tuple(found)


def _heading(notebook: nbformat.NotebookNode) -> str:
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return str(cell.source.splitlines()[0][2:]).strip()
    return ""


def _student(submission: SubmittedAssignment, questions: tuple[Question, ...],
             result: dict[str, Any]) -> Student:
    grades = {grade.name: grade for part in submission.notebooks for grade in part.grades}
    said = {score["grade_id"]: score for score in result.get("questions", [])}
    marks = {question.name: _mark(grades[question.name], said.get(question.name, {}))
             for question in questions if question.name in grades}
    who = submission.student
    # Work of an earlier batch counts, also when this time nothing came.
    problem = str(result.get("problem", ""))
    further = (who.lms_user_id, who.email)
    return Student(
        str(who.id), marks, float(submission.late_submission_penalty or 0.0),
        tuple(str(name) for name in further if name),
        problem="" if problem == NOTHING else problem)


def _mark(grade: Any, score: dict[str, Any]) -> Mark:
    message = str(score.get("message", ""))
    points = None if grade.needs_manual_grade else float(grade.score)
    return Mark(points, blank=message == NO_ANSWER,
                timed_out=bool(score.get("timed_out", False)),
                message=message, got=str(score.get("got", "")))
