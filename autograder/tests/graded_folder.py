"""A small graded folder, made through nbgrader's own gradebook: no notebook is run for it."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ironlaw_autograder.grading import database
from ironlaw_autograder.judge.engine import NO_ANSWER
from ironlaw_autograder.simulate.classroom import NAMES
from nbgrader.api import Base, Gradebook
from sqlalchemy import create_engine
from sqlalchemy.exc import SAWarning

LAB = "lab_01_iron_law"
QUESTIONS = {"check-mfu": ("code", 12.0), "check-run-days": ("code", 6.0),
             "explain": ("markdown", 2.0)}
ADA, BORIS, CHIDI, DUNYA, EMRE, FARAH = NAMES[:6]


@dataclass
class Pupil:
    """One student as the grader left them; None points wait for a person."""

    points: Mapping[str, float | None] = field(default_factory=dict)
    by_hand: Mapping[str, float] = field(default_factory=dict)
    late: float = 0.0
    problem: str = ""
    file: str = "notebook.ipynb"
    said: Mapping[str, str] = field(default_factory=dict)
    got: Mapping[str, str] = field(default_factory=dict)
    blank: tuple[str, ...] = ()
    lms: str | None = None
    email: str | None = None
    in_gradebook: bool = True


def full(mfu: float = 12.0, days: float = 6.0, explain: float | None = None, **more: Any) -> Pupil:
    """A pupil with points on all three questions; the written one waits unless it has some."""
    return Pupil({"check-mfu": mfu, "check-run-days": days, "explain": explain}, **more)


def empty_gradebook(folder: Path) -> Path:
    """A gradebook that knows the lab and nobody yet."""
    path = folder / "gradebook.db"
    # With its tables there, nbgrader does not start a program of its own to number their version.
    engine = create_engine(f"sqlite:///{path}")
    Base.metadata.create_all(engine)
    engine.dispose()
    with Gradebook(f"sqlite:///{path}", database.COURSE) as book:
        assignment = book.add_assignment(LAB)
        book.add_notebook(LAB, LAB)
        for name, (kind, points) in QUESTIONS.items():
            book.add_grade_cell(name, LAB, LAB, max_score=points, cell_type=kind)
        assert assignment.max_score == 20
    return path


def make(out: Path, gradebook: Path, pupils: Mapping[str, Pupil]) -> Path:
    """The graded folder `out` with these pupils, from a copy of an empty `gradebook`."""
    out.mkdir(parents=True)
    shutil.copy(gradebook, out / "gradebook.db")
    url = f"sqlite:///{out / 'gradebook.db'}"
    with warnings.catch_warnings(), Gradebook(url, database.COURSE) as book:
        warnings.simplefilter("ignore", SAWarning)  # nbgrader's own way to fill a submission
        for name, pupil in pupils.items():
            if pupil.in_gradebook:
                _enter(book, name, pupil)
    results = [_result(name, pupil) for name, pupil in pupils.items()]
    results.append({"student": "", "file": "lab (1).ipynb", "problem": "whose is it?"})
    (out / "grades.json").write_text(
        json.dumps({"lab": LAB, "maximum": 20.0, "results": results}), encoding="utf-8")
    return out


def _enter(book: Gradebook, name: str, pupil: Pupil) -> None:
    book.add_student(name, email=pupil.email, lms_user_id=pupil.lms)
    submission = book.add_submission(LAB, name)
    submission.notebooks[0].late_submission_penalty = pupil.late
    for question in QUESTIONS:
        grade = book.find_grade(question, LAB, LAB, name)
        grade.auto_score = pupil.points.get(question, 0.0)
        grade.manual_score = pupil.by_hand.get(question)
        grade.needs_manual_grade = grade.auto_score is None and grade.manual_score is None
    book.db.commit()


def _result(name: str, pupil: Pupil) -> dict[str, Any]:
    questions = [] if pupil.problem else [
        {"grade_id": question, "points": pupil.points.get(question), "maximum": points,
         "message": NO_ANSWER if question in pupil.blank else pupil.said.get(question, ""),
         "notes": [], "got": pupil.got.get(question, "")}
        for question, (_, points) in QUESTIONS.items()]
    return {"student": name, "file": pupil.file, "problem": pupil.problem, "questions": questions}
