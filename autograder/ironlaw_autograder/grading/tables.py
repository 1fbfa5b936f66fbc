"""The table that an instructor opens: one row per student, one column per question."""

from __future__ import annotations

from ..build.lab_source import Lab, label
from ..exports.cells import table
from .grade import Result


def grades_csv(lab: Lab, results: list[Result]) -> str:
    """CSV text (`exports.cells.table` says how it is written)."""
    questions = [label(c)["grade_id"] for c in lab.source.cells if label(c)["grade"]]
    rows = []
    for result in results:
        points = {score.grade_id: score.points for score in result.questions} | result.marked
        cells = ["to be marked" if points.get(name, 0.0) is None else points.get(name)
                 for name in questions]
        rows.append([result.student, result.file, result.score, result.maximum, result.waiting,
                     *cells, remarks(result)])
    return table(["student", "file", "score", "maximum", "waiting for a person", *questions,
                  "remarks"], rows)


def remarks(result: Result) -> str:
    """Everything that was unusual about a submission, in one line."""
    reasons: dict[str, list[str]] = {}
    for score in result.questions:
        if score.points is not None and score.points < score.maximum:
            reasons.setdefault(" ".join([score.message, *score.notes]), []).append(score.grade_id)
    lost = [f"{', '.join(names)}: {why}" for why, names in reasons.items()]
    said = [result.problem, *result.notes, *result.restored, *lost]
    return " | ".join(" ".join(part.split()) for part in said if part)
