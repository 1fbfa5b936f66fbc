"""Whose points changed since the folder was graded last, and on which question.

For a corrected test, a new attempt, another due date: what an instructor has to announce.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..build import notebook
from ..exports.cells import table
from .grade import Result

FILE = "grades-changes.csv"
_TOTAL = "in all"
_BY_HAND = "marked by a person"


@dataclass(frozen=True)
class Change:
    """Points of one question before and now; None where a person has to give them."""

    student: str
    question: str
    before: float | None
    now: float | None
    reason: str = ""

    def __str__(self) -> str:
        return (f"{self.student}: {self.question} {_points(self.before)} -> {_points(self.now)}"
                + (f" ({self.reason})" if self.reason else ""))


Before = tuple[str, dict[str, dict[str, Any]]]
"""The lab that was graded last, and its results by student."""


def previous(out: Path) -> Before | None:
    """What the folder held before; None where nothing was graded into it."""
    try:
        data = json.loads((out / "grades.json").read_text(encoding="utf-8"))
        return str(data["lab"]), {str(result["student"]): dict(result)
                                  for result in data["results"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(out: Path, before: Before | None, lab: str,
          results: list[Result]) -> list[Change] | None:
    """Write the table of changes beside the grades, and give them; None: nothing to compare with.

    Without a change there is no table, nor one of an earlier run.
    """
    found = None if before is None or before[0] != lab else between(before[1], results)
    if found:
        notebook.write_if_changed(out / FILE, to_csv(found))
    else:
        (out / FILE).unlink(missing_ok=True)
    return found


def between(before: Mapping[str, Mapping[str, Any]], results: Iterable[Result]) -> list[Change]:
    """Every question whose points are others than before, and every total.

    Students of whom nothing was known before have not changed.
    """
    found: list[Change] = []
    for result in results:
        old = before.get(result.student)
        if old is None or not result.student:
            continue
        points = ({score["grade_id"]: score["points"] for score in old.get("questions", ())}
                  | old.get("marked", {}))
        for score in result.questions:
            name, now = score.grade_id, result.marked.get(score.grade_id, score.points)
            if name in points and points[name] != now:
                reason = _BY_HAND if name in result.marked else score.message
                found.append(Change(result.student, name, points[name], now,
                                    " ".join(reason.split())))
        if old.get("score") != result.score:
            found.append(Change(result.student, _TOTAL, old.get("score"), result.score,
                                result.problem))
    return found


def to_csv(changes: Iterable[Change]) -> str:
    """The changes as a table that a spreadsheet opens and never runs."""
    return table(["student", "question", "before", "now", "reason"],
                 [[c.student, c.question, _points(c.before), _points(c.now), c.reason]
                  for c in changes])


def _points(points: float | None) -> str:
    return "to be marked" if points is None else f"{points:g}"
