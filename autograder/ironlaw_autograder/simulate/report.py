"""Grades a synthetic class twice, with and without its hostile members, and compares."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ironlaw.errors import choice

from ..build import labs
from ..build.lab_source import Lab
from ..course import Course
from ..grading.grade import Result, grade_folder
from ..grading.tables import remarks
from .classroom import Member, members, write
from .submissions import Desk

Report = Callable[[int, int, Result], None]


def simulate(course: Course, lab_name: str, students: int, hostiles: int,
             keep: Path | None = None, workers: int | None = None,
             report: Report | None = None) -> dict[str, Any]:
    """The outcome as plain values; `keep` holds class, gradebook and feedback afterwards."""
    found = class_of(course, lab_name, students, hostiles)
    lab = _lab(course, lab_name)
    def grade(folder: Path) -> list[Result]:
        # Judged afresh each time, also where an earlier class was kept: the speed is told.
        return grade_folder(course, folder, folder.with_name(f"{folder.name}-graded"),
                            lab_name=lab.name, workers=workers, fresh=True, report=report)[1]

    if keep is not None:
        return _simulate(lab, found, keep, grade)
    with tempfile.TemporaryDirectory(prefix="ironlaw-class-") as folder:
        return _simulate(lab, found, Path(folder), grade)


def class_of(course: Course, lab_name: str, students: int, hostiles: int) -> list[Member]:
    """The members of a class that hands in the lab `lab_name`."""
    return members(Desk(_lab(course, lab_name)), students, hostiles)


def _lab(course: Course, name: str) -> Lab:
    known = {lab.name: lab for lab in labs.labs(course)}
    return known[choice("lab", name, known)]


def _simulate(lab: Lab, found: list[Member], where: Path,
              grade: Callable[[Path], list[Result]]) -> dict[str, Any]:
    honest = [member for member in found if member.honest]
    write(where / "class", found)
    start = time.monotonic()
    mixed = grade(where / "class")
    seconds = time.monotonic() - start
    clean = mixed
    if len(honest) < len(found):
        write(where / "honest", honest)
        clean = grade(where / "honest")
    alone = {result.student: _points(result) for result in clean}
    together = {result.student: result for result in mixed}
    rows = [_row(member, together[member.name]) for member in found]
    return {
        "lab": lab.name,
        "students": len(found),
        "hostile": len(found) - len(honest),
        "honest_grades_equal": all(_points(together[m.name]) == alone[m.name] for m in honest),
        "as_expected": all(row["as_expected"] for row in rows),
        "submissions_per_minute": round(60 * len(found) / seconds, 1),
        "seconds": round(seconds, 1),
        "results": rows,
    }


def _points(result: Result) -> dict[str, float | None]:
    return {score.grade_id: score.points for score in result.questions}


def _row(member: Member, result: Result) -> dict[str, Any]:
    said = " | ".join([remarks(result), *(note for score in result.questions
                                          for note in score.notes)])
    points = {name: value for name, value in _points(result).items() if name in member.expected}
    right = points == member.expected if points else member.total == 0 and bool(result.problem)
    return {
        "student": member.name, "deed": member.deed, "honest": member.honest,
        "expected": member.total, "score": result.score,
        "as_expected": right and member.said in said, "waiting": result.waiting,
        "message": said, "seconds": result.seconds, "points": points,
        "events": result.events,
    }
