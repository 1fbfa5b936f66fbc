"""Written answers and their marks: read from a graded folder, given in its gradebook."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from ironlaw.errors import InputError, choice
from nbgrader.api import Comment, Grade, Gradebook

from ..build import notebook
from ..build.lab_source import label
from ..grading import contents, database, markup

_NOTE = re.compile(r"<!--.*?-->", re.DOTALL)
_BEGIN, _END = "### BEGIN MARK SCHEME", "### END MARK SCHEME"


@dataclass(frozen=True)
class Question:
    """A written question: number and title, the cell above it and its rubric as Markdown."""

    name: str
    title: str
    points: float
    prompt: str
    rubric: str


@dataclass(frozen=True)
class Answer:
    """One student's answer. `points` are None while it waits; `by` says who gave them:
    "machine" (0 for an untouched answer), "group", or "person"."""

    student: str
    text: str
    untouched: bool
    points: float | None
    by: str
    comment: str

    @property
    def waiting(self) -> bool:
        """Whether a person still has to mark it."""
        return self.points is None


@dataclass(frozen=True)
class Given:
    """What marking did: students who got the mark, and those whose own mark stayed."""

    marked: list[str]
    kept: list[str]


class Book:
    """The written answers of one lab in a graded folder."""

    def __init__(self, out: Path, lab: str | None = None) -> None:
        self.out = out.resolve()
        url = database.of(self.out)
        if not self.out.is_dir() or (url == database.default(self.out)
                                     and not (self.out / "gradebook.db").is_file()):
            raise InputError("out", str(out), "a folder that `grade` has filled",
                             "It is the folder with grades.csv in it.")
        self._url = database.reachable(self.out)
        with self._open() as book:
            labs = sorted(assignment.name for assignment in book.assignments)
        if lab is None and len(labs) != 1:
            raise InputError("lab", lab, "one of " + ", ".join(map(repr, labs)),
                             "Name it with --lab.")
        self.lab = labs[0] if lab is None else choice("lab", lab, labs)
        self._file = self.out / "marking" / f"{self.lab}.json"

    def questions(self) -> dict[str, Question]:
        """The lab's written questions, in order."""
        path = self.out / "source" / self.lab / f"{self.lab}.ipynb"
        cells = nbformat.read(path, as_version=4).cells
        titles = contents.questions(cells)
        found: dict[str, Question] = {}
        for place, cell in enumerate(cells):
            meta = label(cell)
            if meta.get("grade") and meta.get("solution") and cell.cell_type == "markdown":
                name = str(meta["grade_id"])
                after = cells[place + 1].source if place + 1 < len(cells) else ""
                rubric = after.partition(_BEGIN)[2].partition(_END)[0]
                found[name] = Question(name, " · ".join(part for part in titles[name] if part),
                                       float(meta["points"]), cells[place - 1].source.strip(),
                                       _NOTE.sub("", rubric).strip())
        return found

    def answers(self, question: str) -> list[Answer]:
        """Every student's answer that grading could read, with its mark."""
        bulk = self._kept(question).get("given", {})
        found = []
        with self._open() as book:
            for part in book.notebook_submissions(self.lab, self.lab):
                student = part.student.id
                text = self._text(student, question)
                if text is None:
                    continue
                grade = _one(part.grades, question)
                comment = _one(part.comments, question)
                found.append(_answer(student, text, grade, comment, bulk.get(student)))
        return sorted(found, key=lambda answer: answer.student)

    def give(self, question: str, answers: Sequence[Answer], points: float | None,
             comment: str | None, *, group: bool, overwrite: bool = False) -> Given:
        """Give `points` (None: wait again) and a comment to each of `answers`.

        As a `group`, marks and comments that a person gave to one student stay unless
        `overwrite`. Without a comment, one that is there stays.
        """
        kept = [a.student for a in answers if group and a.by == "person" and not overwrite]
        todo = [a for a in answers if a.student not in kept]
        record = self._kept(question)
        given = record.setdefault("given", {})
        with self._open() as book:
            for answer in todo:
                grade = book.find_grade(question, self.lab, self.lab, answer.student)
                grade.manual_score = points
                grade.needs_manual_grade = points is None and grade.auto_score is None
                said = book.find_comment(question, self.lab, self.lab, answer.student)
                before = given.pop(answer.student, {}).get("comment", "")
                theirs = group and not overwrite and (said.manual_comment or "") not in ("", before)
                if comment is not None and not theirs:
                    said.manual_comment = comment or None
                if group and points is not None:
                    given[answer.student] = {"points": points,
                                             "comment": said.manual_comment or ""}
            # Written before the marks count, so that none of them is ever taken for a person's.
            self._keep(question, record)
            book.db.commit()
        return Given([answer.student for answer in todo], kept)

    def listed(self, question: str, answers: Iterable[Answer]) -> None:
        """Remember which answers the numbers of groups were told for."""
        record = self._kept(question)
        record["listed"] = _digest(answers)
        self._keep(question, record)

    def still_as_listed(self, question: str, answers: Iterable[Answer]) -> bool | None:
        """Whether the answers are those that the groups were told for; None: never told."""
        told = self._kept(question).get("listed")
        return None if told is None else bool(told == _digest(answers))

    def waiting(self) -> dict[str, int]:
        """How many answers to each written question still wait for a person."""
        counts = dict.fromkeys(self.questions(), 0)
        with self._open() as book:
            for part in book.notebook_submissions(self.lab, self.lab):
                for grade in part.grades:
                    if grade.needs_manual_grade and grade.name in counts:
                        counts[grade.name] += 1
        return counts

    def _open(self) -> Gradebook:
        return Gradebook(self._url, database.COURSE)

    def _text(self, student: str, question: str) -> str | None:
        path = self.out / "autograded" / student / self.lab / f"{self.lab}.ipynb"
        if not path.is_file():
            return None
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            record = cell.get("metadata", {}).get("nbgrader")
            if isinstance(record, dict) and record.get("grade_id") == question:
                source = cell.get("source", "")
                return markup.as_written(
                    "".join(source) if isinstance(source, list) else str(source))
        return None

    def _kept(self, question: str) -> dict[str, Any]:
        if not self._file.is_file():
            return {}
        record: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        return dict(record.get(question, {}))

    def _keep(self, question: str, record: dict[str, Any]) -> None:
        whole = json.loads(self._file.read_text(encoding="utf-8")) if self._file.is_file() else {}
        whole[question] = record
        notebook.write_if_changed(self._file, json.dumps(whole, indent=1, ensure_ascii=False,
                                                         sort_keys=True) + "\n")


def _answer(student: str, text: str, grade: Grade, comment: Comment,
            bulk: dict[str, Any] | None) -> Answer:
    said = comment.manual_comment or ""
    untouched = grade.auto_score is not None  # a machine scores no other written answer
    if grade.needs_manual_grade:
        return Answer(student, text, untouched, None, "", said)
    if grade.manual_score is None:
        return Answer(student, text, untouched, float(grade.score or 0.0), "machine", said)
    points = float(grade.manual_score)
    by = "group" if bulk == {"points": points, "comment": said} else "person"
    return Answer(student, text, untouched, points, by, said)


def _one(parts: Iterable[Any], name: str) -> Any:
    return next(part for part in parts if part.name == name)


def _digest(answers: Iterable[Answer]) -> str:
    texts = sorted((answer.student, answer.text, answer.untouched) for answer in answers)
    return hashlib.sha256(json.dumps(texts).encode("utf-8")).hexdigest()
