"""The table that an instructor opens: one row per student, one column per question."""

from __future__ import annotations

import csv
import io

from ..build.lab_source import Lab, label
from .grade import Result

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def grades_csv(lab: Lab, results: list[Result]) -> str:
    """CSV text (RFC 4180, with a byte-order mark so that spreadsheets read it as UTF-8)."""
    questions = [label(c)["grade_id"] for c in lab.source.cells if label(c)["grade"]]
    out = io.StringIO(newline="")
    write = csv.writer(out).writerow
    write(["student", "file", "score", "maximum", "waiting for a person", *questions, "remarks"])
    for result in results:
        points = {score.grade_id: score for score in result.questions}
        cells = [_points(points[q].points) if q in points else "" for q in questions]
        write([_text(result.student), _text(result.file), f"{result.score:g}",
               f"{result.maximum:g}", f"{result.waiting:g}", *cells, _text(remarks(result))])
    return "\ufeff" + out.getvalue()


def remarks(result: Result) -> str:
    """Everything that was unusual about a submission, in one line."""
    reasons: dict[str, list[str]] = {}
    for score in result.questions:
        if score.points is not None and score.points < score.maximum:
            reasons.setdefault(" ".join([score.message, *score.notes]), []).append(score.grade_id)
    lost = [f"{', '.join(names)}: {why}" for why, names in reasons.items()]
    said = [result.problem, *result.restored, *lost]
    return " | ".join(" ".join(part.split()) for part in said if part)


def _points(points: float | None) -> str:
    return "to be marked" if points is None else f"{points:g}"


def _text(value: str) -> str:
    """Text that a spreadsheet shows and never runs as a formula."""
    return f"'{value}" if value.startswith(_FORMULA) else value
