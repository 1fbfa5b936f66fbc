"""All answers by problem, and one student's key."""

from __future__ import annotations

from ironlaw.selfcheck import variants

from . import chapter_1, chapter_2, chapter_3, chapter_4, chapter_5, chapter_6
from .answer import Answer

ANSWERS: dict[str, Answer] = {
    **chapter_1.ANSWERS, **chapter_2.ANSWERS, **chapter_3.ANSWERS, **chapter_4.ANSWERS,
    **chapter_5.ANSWERS, **chapter_6.ANSWERS}


def right(variant: variants.Variant) -> float:
    """The right answer to a student's variant, in the problem's unit."""
    return float(ANSWERS[variant.problem.id].solve(variant.given))
