"""Item analysis: what each question did in this class, so that a bad one is found.

Everything is reckoned with shares: an answer's points over the question's points, so that
partial credit counts as what it is.

- *difficulty*: the mean share. The usual name; a high value is an easy question.
- *discrimination*: the correlation between a student's share on the question and the share on
  all other marked questions (corrected item-rest correlation; for right-or-wrong questions,
  the point-biserial correlation). Leaving the question out keeps it from agreeing with itself.
- *upper minus lower*: the mean share among the best 27 % by all marked questions, less that
  among the weakest 27 %; students level with the boundary share the places that are left.

With n students whose answers have nothing to do with each other, a correlation still comes out
between -1.96/sqrt(n - 1) and 1.96/sqrt(n - 1) nineteen times in twenty: `chance`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .marks import Book, Mark, Question, Student

FEW = 30
"""Below so many students every figure here is a hint: chance reaches a correlation of 0.36."""

_GROUP = 0.27


@dataclass(frozen=True)
class Item:
    """One question's figures; None where they are not defined, for the reason in `why`.

    `n` are the marked answers, `waiting` those that a person still has to mark. `wrong` is the
    commonest of the `different` refused values, given `wrong_count` times (at least twice),
    with the judge's message to it.
    """

    question: Question
    n: int
    waiting: int
    mean: float | None = None
    difficulty: float | None = None
    discrimination: float | None = None
    upper_lower: float | None = None
    chance: float | None = None
    group: int = 0
    blank: int = 0
    timed_out: int = 0
    wrong: str = ""
    wrong_count: int = 0
    different: int = 0
    message: str = ""
    why: str = ""
    flags: tuple[str, ...] = field(default=())

    @property
    def blank_share(self) -> float | None:
        """Empty answers over all answers, marked or waiting."""
        everybody = self.n + self.waiting
        return self.blank / everybody if everybody else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        made = asdict(self)
        return {**made.pop("question"), **made, "blank_share": self.blank_share,
                "flags": list(self.flags)}


def analyse(book: Book) -> list[Item]:
    """The questions of a graded class, in order; notebooks that nobody could judge are left out."""
    students = [student for student in book.students if student.judged]
    return [_item(question, students, book.questions) for question in book.questions]


def _item(question: Question, students: Sequence[Student],
          questions: Sequence[Question]) -> Item:
    answers = [(s, s.marks[question.name]) for s in students if question.name in s.marks]
    marked = [(s, mark) for s, mark in answers if mark.points is not None]
    marks = [mark for _, mark in answers]
    made: dict[str, Any] = {
        "question": question, "n": len(marked), "waiting": len(answers) - len(marked),
        "blank": sum(mark.blank for mark in marks),
        "timed_out": sum(mark.timed_out for mark in marks), **_commonest(marks, question)}
    if not marked:
        made["why"] = "nobody's answer is marked yet" if answers else "nobody was judged"
        return Item(**made, flags=_flags(Item(**made)))
    shares = np.array([_points(mark) / question.maximum for _, mark in marked])
    rest = np.array([_share(s, [q for q in questions if q != question]) for s, _ in marked])
    whole = np.array([_share(s, questions) for s, _ in marked])
    made["mean"] = float(shares.mean() * question.maximum)
    made["difficulty"] = float(shares.mean())
    made["discrimination"], made["why"] = _correlation(shares, rest)
    made["upper_lower"], made["group"] = upper_lower(shares, whole)
    made["chance"] = 1.96 / math.sqrt(len(marked) - 1) if len(marked) > 3 else None
    return Item(**made, flags=_flags(Item(**made)))


def _points(mark: Mark) -> float:
    assert mark.points is not None
    return mark.points


def _share(student: Student, questions: Sequence[Question]) -> float:
    """Points over possible points on those of `questions` that are marked; NaN without any."""
    marked = [(mark.points, q.maximum) for q in questions
              if (mark := student.marks.get(q.name)) is not None and mark.points is not None]
    possible = sum(maximum for _, maximum in marked)
    return sum(points for points, _ in marked) / possible if possible else math.nan


def _correlation(shares: NDArray[np.float64],
                 rest: NDArray[np.float64]) -> tuple[float | None, str]:
    if len(shares) < 3:
        return None, "too few marked answers (at least 3 are needed)"
    if np.isnan(rest).any():
        return None, "no other question is marked"
    # Points differ by far more than this; below it there are rounding errors alone.
    if shares.std() < 1e-12:
        return None, "everybody has the same points on it"
    if rest.std() < 1e-12:
        return None, "everybody has the same points on all other questions"
    return float(np.corrcoef(shares, rest)[0, 1]), ""


def upper_lower(shares: NDArray[np.float64],
                whole: NDArray[np.float64]) -> tuple[float | None, int]:
    """Mean share of the best 27 % by `whole` less that of the weakest, and the group's size."""
    size = round(_GROUP * len(shares))
    if size < 1 or np.isnan(whole).any() or whole.std() < 1e-12:
        return None, size
    return float(_top(shares, whole, size) - _top(shares, -whole, size)), size


def _top(shares: NDArray[np.float64], order: NDArray[np.float64], size: int) -> float:
    """Mean share of the `size` students highest in `order`; ties share the last places."""
    order = np.round(order, 9)
    last = np.sort(order)[-size]
    above, level = order > last, order == last
    places = size - int(above.sum())
    return float((shares[above].sum() + shares[level].mean() * places) / size)


def _commonest(marks: Sequence[Mark], question: Question) -> dict[str, Any]:
    """The commonest refused value and its message, or the commonest message without a value.

    What one student alone wrote is nobody's business here, and no pattern either. A question
    that a person marks has none: the judge said nothing of its answers but that they wait.
    """
    if question.written:
        return {}
    lost = [mark for mark in marks if mark.points is not None and mark.points < question.maximum
            and not mark.blank]
    value, number = _most(mark.got for mark in lost)
    message, _ = _most(mark.message for mark in lost if not value or mark.got == value)
    return {"wrong": value, "wrong_count": number, "message": message,
            "different": len({mark.got for mark in lost if mark.got})}


def _most(texts: Iterable[str]) -> tuple[str, int]:
    """The text that stands there most often, at least twice; of equals the first by letters."""
    counted = Counter(text for text in texts if text)
    text, number = min(counted.items(), key=lambda pair: (-pair[1], pair[0]), default=("", 0))
    return (text, number) if number > 1 else ("", 0)


def _flags(item: Item) -> tuple[str, ...]:
    """What an instructor should look at."""
    found = []
    if item.n and item.difficulty == 0 and not item.waiting:
        found.append("nobody answered it" if item.blank >= item.n else
                     "nobody got it: look at the question and at its test")
    if item.n > 2 and item.difficulty is not None and item.difficulty >= 1 and not item.waiting:
        found.append("everybody got it: it tells nobody apart")
    if item.discrimination is not None and item.chance is not None \
            and item.discrimination < -item.chance:
        found.append("negative discrimination: look at the test")
    if item.blank_share is not None and item.blank_share > 0.5 and item.difficulty != 0:
        found.append("more than half left it empty")
    if item.wrong_count >= 3 and item.wrong_count >= 0.2 * item.n:
        found.append(f"{item.wrong_count} gave the same wrong value: a shared mistake, or "
                     "a broken test")
    if item.timed_out:
        found.append(f"{item.timed_out} ran out of time")
    if item.waiting:
        found.append(f"{item.waiting} {'waits' if item.waiting == 1 else 'wait'} for a person")
    return tuple(found)
