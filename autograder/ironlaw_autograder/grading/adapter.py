"""The only place that drives nbgrader: its course tree, gradebook, autograding and feedback."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import nbgrader.api
from alembic.config import Config as Alembic
from alembic.script import ScriptDirectory
from ironlaw.errors import IronlawError
from nbformat import NotebookNode
from nbgrader import dbutil
from nbgrader.api import Grade, Gradebook, MissingEntry
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from ..build import labs, notebook
from ..build.lab_source import Lab
from ..course import Course
from ..intake import late, roster
from ..intake.settle import Submission
from ..intake.taking import Taking
from . import database, front, preprocessors
from .journal import ByHand
from .transaction import Transaction, transaction
from .work import Outcome


class GradingError(IronlawError):
    """nbgrader could not process one submission; the text is its cause."""


@dataclass(frozen=True)
class Standing:
    """Points of one submission: awarded, possible, waiting for a person, given by one.

    `penalty` has been taken off `score` for lateness. A mark that waits for a second look,
    because the answer is another by now, is in `waiting` alone.
    """

    score: float
    maximum: float
    waiting: float
    marked: dict[str, float]
    penalty: float = 0.0


class _Kept(logging.Handler):
    """nbgrader tells the cause of a failure to its log alone."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage())

    def cause(self) -> str:
        """The first traceback's text, or the first message."""
        traces = [text for text in self.records if "Traceback" in text]
        return (traces or self.records or [""])[0].strip()[-2_000:]


class Classroom:
    """One lab's course tree under `root`: gradebook, submissions, graded work, feedback."""

    def __init__(self, root: Path, course: Course, lab: Lab, url: str = "") -> None:
        """`url` is the gradebook's, with a password where it needs one."""
        self.root = root.resolve()
        self.lab = lab
        self._config = labs.settings(self.root, lab)
        self._database = url or database.reachable(self.root)
        self._config.CourseDirectory.db_url = self._database
        # A server that checks foreign keys refuses nbgrader's own default, an empty name.
        self._config.CourseDirectory.course_id = database.COURSE
        self._config.JudgeNotebook.course_root = str(course.root)
        self._config.JudgeNotebook.salt = course.salt
        self._course = course
        self._open: Transaction | None = None
        self._log = logging.getLogger("ironlaw_autograder.nbgrader.grading")
        self._log.setLevel(logging.ERROR)
        self._log.propagate = False

    @property
    def place(self) -> str:
        """Which gradebook this is, wherever the folder lies; it holds no password."""
        return database.place(self.root, self._database)

    def prepare(self) -> None:
        """Enter the lab into the gradebook, with its hidden tests and points."""
        self.root.mkdir(parents=True, exist_ok=True)
        labs.write_source(self.lab, self.root)
        front.write(self.root, self._course.root, self._course.salt)
        with at_peace():
            labs.generate(self.lab, Config(self._config))

    def expect(self, taking: Taking) -> None:
        """Enter the class list and the due date, and note both for the next time."""
        if taking.roster is not None:
            notebook.write_if_changed(self.root / roster.FILE, taking.roster.text)
        dated = late.write(self.root, taking.dates, self.lab.points)
        late.configure(self._config, self.root)
        with self.sitting(), at_peace(), self.gradebook() as book:
            if dated:
                late.enter_due(book, self.lab.name, taking.dates)
            for who in taking.roster.students if taking.roster else ():
                about = {"first_name": who.first or who.name, "last_name": who.last,
                         "email": who.email, "lms_user_id": who.lms}
                book.update_or_create_student(who.id, **{k: v for k, v in about.items() if v})

    def dated(self, submission: Submission, dates: late.Dates) -> bool:
        """Enter when an entered submission came; True when another penalty follows from it."""
        with at_peace(), self.gradebook() as book:
            return late.enter(book, self.lab.name, self._database, submission, dates,
                              self._config)

    def submit(self, student: str, submitted: NotebookNode) -> None:
        """Put one submission where nbgrader looks for it."""
        folder = self.root / "submitted" / student / self.lab.name
        notebook.write_if_changed(folder / f"{self.lab.name}.ipynb", nbformat.writes(submitted))

    def enter(self, outcome: Outcome, changed: set[str] | None) -> None:
        """Write down the outcome of a submission that `submit` has put in its place.

        `changed` names the graded cells whose answer is another than at the last time; None
        when that is not known. A person's mark on any other cell stays as it is.
        """
        preprocessors.ready.outcomes = {outcome.student: outcome}
        preprocessors.ready.changed = {} if changed is None else {outcome.student: changed}
        try:
            self._autograde(outcome.student)
            if self._open is not None:
                self._open.keep()
        finally:
            preprocessors.ready.outcomes, preprocessors.ready.changed = {}, {}

    def _autograde(self, student: str) -> None:
        config = Config(self._config)
        front.autograding(config)
        self._convert(Autograde, config, student)

    def withhold(self, student: str, *, waits: bool, keep: bool) -> None:
        """Enter a submission without an outcome, in the place of what was there before.

        Where the grader failed, every question `waits` for a person; where the file cannot be
        read, each has 0 points. What a person gave goes, unless `keep`: then it was given
        although there is no outcome. There is no notebook to mark, and no page to hand out.
        """
        with at_peace(), self.gradebook() as book:
            book.update_or_create_student(student)
            submission = book.update_or_create_submission(self.lab.name, student)
            for part in submission.notebooks:
                for grade in part.grades:
                    if not keep:
                        grade.manual_score = grade.extra_credit = None
                    grade.auto_score = None if waits else 0.0
                    grade.needs_manual_grade = waits and grade.manual_score is None
            book.db.commit()
        if self._open is not None:
            self._open.keep()
        self.graded(student).unlink(missing_ok=True)
        self.page(student).unlink(missing_ok=True)

    def by_hand(self, student: str) -> dict[str, ByHand]:
        """What a person gave this student, by question."""
        return {name: ByHand(grade.manual_score, grade.extra_credit, grade.auto_score,
                             bool(grade.needs_manual_grade))
                for name, grade in self._grades(student).items()
                if grade.manual_score is not None or grade.extra_credit is not None}

    def give_back(self, student: str, marks: Mapping[str, ByHand]) -> None:
        """Put marks back that were taken away with `withhold`; newer ones stay."""
        with self.gradebook() as book:
            for name, grade in self._grades(student).items():
                if name in marks and grade.manual_score is None and grade.extra_credit is None:
                    mark = marks[name]
                    grade.manual_score, grade.extra_credit = mark.points, mark.extra
                    grade.auto_score, grade.needs_manual_grade = mark.machine, mark.waits
            book.db.commit()

    def _grades(self, student: str) -> dict[str, Grade]:
        with self.gradebook() as book:
            try:
                found = book.find_submission(self.lab.name, student)
            except MissingEntry:
                return {}
            return {grade.name: grade for part in found.notebooks for grade in part.grades}

    def feedback(self, student: str) -> Path:
        """Write one student's feedback page, readable without a network."""
        config = Config(self._config)
        front.feedback(config)
        self._convert(GenerateFeedback, config, student)
        return self.page(student)

    def page(self, student: str) -> Path:
        """Where one student's feedback page lies."""
        return self.root / "feedback" / student / self.lab.name / f"{self.lab.name}.html"

    def graded(self, student: str) -> Path:
        """Where one student's judged notebook lies, for marking by hand."""
        return self.root / "autograded" / student / self.lab.name / f"{self.lab.name}.ipynb"

    @contextmanager
    def sitting(self) -> Iterator[None]:
        """One connection for what is done inside, and one transaction for each `enter`.

        An error undoes what came after the last `enter`.
        """
        with transaction(self._database, database.COURSE) as book:
            self._open = book
            try:
                yield
                book.keep()
            finally:
                self._open = None

    def gradebook(self) -> Gradebook:
        """nbgrader's gradebook; use it in a `with` statement."""
        return self._open or Gradebook(self._database, database.COURSE)

    def standing(self, student: str) -> Standing | None:
        """What the gradebook says of one student, or None where it has no submission."""
        with self.gradebook() as book:
            try:
                found = book.find_submission(self.lab.name, student)
            except MissingEntry:
                return None
            grades = [grade for part in found.notebooks for grade in part.grades]
            penalty = float(found.late_submission_penalty or 0.0)
            # nbgrader's own sum still holds a mark that was given for an earlier answer.
            score = sum(float(grade.score) for grade in grades if not grade.needs_manual_grade)
            return Standing(
                max(0.0, score - penalty), float(found.max_score),
                float(sum(grade.max_score for grade in grades if grade.needs_manual_grade)),
                {grade.name: float(grade.manual_score) for grade in grades
                 if grade.manual_score is not None and not grade.needs_manual_grade}, penalty)

    def totals(self, student: str) -> tuple[float, float, bool]:
        """Score, maximum and whether a person still has to mark something."""
        found = self.standing(student)
        if found is None:
            raise GradingError(f"the gradebook holds no submission of {student}")
        return found.score, found.maximum, found.waiting > 0

    def _convert(self, kind: Any, config: Config, student: str) -> None:
        config.CourseDirectory.student_id = student
        converter = kind(coursedir=CourseDirectory(config=config), config=config, log=self._log)
        converter.force = True
        said = _Kept()
        self._log.addHandler(said)
        try:
            with at_peace():
                converter.start()
        except NbGraderException as problem:
            raise GradingError(said.cause() or str(problem)) from problem
        finally:
            self._log.removeHandler(said)


@contextmanager
def at_peace() -> Iterator[None]:
    """nbgrader starts a program to learn the version of its tables, which takes a second or two
    and a PATH, and fills new submissions in a way about which its database layer warns."""
    with mock.patch.object(nbgrader.api, "get_alembic_version", _version_of_tables), \
            warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)
        yield


def _version_of_tables() -> str:
    """What `alembic heads` prints for nbgrader's tables."""
    with dbutil._temp_alembic_ini("sqlite://") as file:
        return str(ScriptDirectory.from_config(Alembic(file)).get_current_head())
