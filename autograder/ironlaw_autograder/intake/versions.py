"""A notebook of an older version, graded by the tests of today.

Answers are found by the labels of their cells, so that a corrected test grades an old notebook
as it stands. A question that the old version did not have is another matter: to score it 0
would be unjust, and to leave it out by itself would let a student leave out any question by
deleting its cell and editing the stamp. So it waits for a person, who sees what the test would
have given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from nbformat import NotebookNode

from ..build.lab_source import label
from ..build.stamp import Stamp
from ..judge.engine import Score


def differs(found: Stamp, now: Stamp) -> bool:
    """Whether a notebook says that it was handed out in another version than `now`."""
    return bool(found) and found.hash != now.hash


def same(found: Stamp, now: Stamp) -> bool:
    """Whether a notebook says that it was handed out in the version `now`."""
    return bool(found) and found.hash == now.hash


def remark(found: Stamp, now: Stamp) -> str:
    """The two versions in words, '' where they are one or nothing is known."""
    if not differs(found, now):
        return ""
    if found.lab and found.lab != now.lab:
        return f"handed out as {found.lab}, graded as {now.lab}"
    return f"handed out as version {found}, graded with version {now}"


def new_cells(template: NotebookNode, submitted: NotebookNode, found: Stamp,
              now: Stamp) -> frozenset[str]:
    """The labels of the lab that an older notebook does not have."""
    if not differs(found, now):
        return frozenset()
    return frozenset(_labels(template.cells)) - frozenset(_labels(submitted.cells))


def waiting(scores: list[Score], new: Collection[str]) -> list[Score]:
    """The scores, those of new questions waiting for a person."""
    return [_waiting(score) if score.grade_id in new else score for score in scores]


def _waiting(score: Score) -> Score:
    if score.points is None:
        return score
    said = (f"This question was not in the version that was handed out; a person decides. The "
            f"test gives {score.points:g} of {score.maximum:g}.")
    return replace(score, points=None, message=f"{said} {score.message}".strip())


def _labels(cells: Iterable[NotebookNode]) -> set[str]:
    return {str(label(cell)["grade_id"]) for cell in cells if label(cell).get("grade_id")}
