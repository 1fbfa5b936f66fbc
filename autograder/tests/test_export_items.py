"""The item analysis against figures worked out in other ways, and the flags that it raises."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy as np
import pytest
from ironlaw_autograder.exports import items
from ironlaw_autograder.exports.marks import Book, Mark, Question, Student

QUESTIONS = (Question("a", "1a · a", 2.0, False), Question("b", "1b · b", 3.0, False),
             Question("c", "1c · c", 5.0, False), Question("w", "2 · w (in writing)", 4.0, True))


def book(rows: list[tuple[float | None, ...]], **more: list[Mark]) -> Book:
    """A class with these points, a student a row; `more` gives whole columns of marks."""
    students = []
    for place, row in enumerate(rows):
        marks = {q.name: Mark(points) for q, points in zip(QUESTIONS, row, strict=False)}
        marks |= {name: column[place] for name, column in more.items()}
        students.append(Student(f"s{place}", marks))
    return Book("lab", "Lab", QUESTIONS, tuple(students))


def one(found: list[items.Item], name: str = "a") -> items.Item:
    return next(item for item in found if item.question.name == name)


@pytest.fixture(scope="module")
def class_of_60() -> list[tuple[float, ...]]:
    dice = random.Random(7)
    able = [dice.random() for _ in range(60)]
    return [tuple(float(round(q.maximum * min(1, max(0, a + dice.uniform(-0.4, 0.4)))))
                  for q in QUESTIONS) for a in able]


def test_mean_difficulty_and_correlation_are_those_of_the_textbook(
    class_of_60: list[tuple[float, ...]]
) -> None:
    found = items.analyse(book(class_of_60))
    for place, question in enumerate(QUESTIONS):
        points = [row[place] for row in class_of_60]
        rest = [sum(row) - row[place] for row in class_of_60]
        item = one(found, question.name)
        assert (item.n, item.waiting) == (60, 0)
        assert item.mean == pytest.approx(statistics.fmean(points))
        assert item.difficulty == pytest.approx(statistics.fmean(points) / question.maximum)
        assert item.discrimination == pytest.approx(statistics.correlation(points, rest))
        assert item.chance == pytest.approx(1.96 / math.sqrt(59))
        assert item.flags == ()


def test_for_right_or_wrong_it_is_the_point_biserial_correlation() -> None:
    dice = random.Random(1)
    rows = [(2.0 * (dice.random() < 0.6), float(dice.randint(0, 3)), float(dice.randint(0, 5)))
            for _ in range(40)]
    right = [r[1] + r[2] for r in rows if r[0]]
    wrong = [r[1] + r[2] for r in rows if not r[0]]
    spread = statistics.pstdev(right + wrong)
    share = len(right) / 40
    wanted = ((statistics.fmean(right) - statistics.fmean(wrong)) / spread
              * math.sqrt(share * (1 - share)))
    assert one(items.analyse(book(rows))).discrimination == pytest.approx(wanted)


def test_the_question_itself_is_left_out_of_what_it_is_compared_with() -> None:
    rows = [(2.0 * (k % 2), 3.0 * (k // 2 % 2)) for k in range(40)]  # the two have no connexion
    assert one(items.analyse(book(rows))).discrimination == pytest.approx(0, abs=1e-9)


def test_upper_minus_lower_by_counting_heads() -> None:
    rows = [(2.0 if k >= 6 else 0.0, float(k), 0.0) for k in range(11)]  # no two totals alike
    item = one(items.analyse(book(rows)))
    assert item.group == 3
    assert item.upper_lower == 1.0
    turned = [(2.0 - r[0], 20.0 + 4 * r[1], 0.0) for r in rows]
    assert one(items.analyse(book(turned))).upper_lower == -1.0


def test_students_level_with_the_boundary_share_its_places_in_any_order() -> None:
    shares, whole = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.9, 0.5, 0.5, 0.1])
    values = {items.upper_lower(shares[list(p)], whole[list(p)])
              for p in itertools.permutations(range(4))}
    assert values == {(1.0, 1)}
    # Two of seven: one is clearly best, the second place is shared by three, one of them right.
    shares = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    whole = np.array([0.9, 0.5, 0.5, 0.5, 0.4, 0.1, 0.1])
    found, size = items.upper_lower(shares, whole)
    assert size == 2
    assert found == pytest.approx((1 + 1 / 3) / 2)


def test_waiting_answers_are_neither_counted_nor_taken_for_zero() -> None:
    rows = [(2.0 * (k % 3 > 0), 3.0, float(k % 6), None if k % 2 else 4.0) for k in range(36)]
    found = items.analyse(book(rows))
    written = one(found, "w")
    assert (written.n, written.waiting, written.difficulty) == (18, 18, 1.0)
    assert written.flags == ("18 wait for a person",)
    # What waits is not among what the others are compared with.
    points = [row[0] for row in rows]
    rest = [(row[1] + row[2] + (row[3] or 0)) / (8 if row[3] is None else 12) for row in rows]
    assert one(found).discrimination == pytest.approx(statistics.correlation(points, rest))


def test_what_is_not_defined_is_none_with_a_reason() -> None:
    empty = one(items.analyse(book([])))
    assert (empty.n, empty.difficulty, empty.discrimination) == (0, None, None)
    assert empty.why == "nobody was judged"
    assert empty.blank_share is None
    two = one(items.analyse(book([(2.0, 1.0), (0.0, 2.0)])))
    assert (two.discrimination, two.chance) == (None, None)
    assert "too few" in two.why
    same = items.analyse(book([(2.0, float(k % 3)) for k in range(9)]))
    assert one(same).why == "everybody has the same points on it"
    assert one(same, "b").why == "everybody has the same points on all other questions"
    alone = Book("lab", "Lab", QUESTIONS[:1], tuple(
        Student(str(k), {"a": Mark(float(k % 2))}) for k in range(9)))
    assert items.analyse(alone)[0].why == "no other question is marked"
    waits = one(items.analyse(book([(None, 1.0)] * 4)))
    assert waits.why == "nobody's answer is marked yet"


def test_nobody_and_everybody_are_flagged() -> None:
    rows = [(0.0, 3.0, float(k % 5)) for k in range(12)]
    found = items.analyse(book(rows))
    assert one(found).flags == ("nobody got it: look at the question and at its test",)
    assert one(found, "b").flags == ("everybody got it: it tells nobody apart",)
    untouched = [Mark(0.0, blank=True)] * 12
    assert one(items.analyse(book(rows, a=untouched))).flags == ("nobody answered it",)
    half = [Mark(0.0, blank=True)] * 7 + [Mark(2.0)] * 5
    assert "more than half left it empty" in one(items.analyse(book(rows, a=half))).flags


def test_a_question_that_the_strong_lose_is_flagged_beyond_chance_alone() -> None:
    rows = [(0.0 if k > 20 else 2.0, 3.0 * (k > 10), float(k % 6)) for k in range(40)]
    turned = one(items.analyse(book(rows)))
    assert turned.discrimination is not None
    assert turned.discrimination < 0
    assert "negative discrimination: look at the test" in turned.flags
    few = one(items.analyse(book([(2.0, 0.0), (0.0, 1.0), (2.0, 1.5), (0.0, 2.0), (2.0, 1.0)])))
    assert few.discrimination is not None
    assert few.discrimination < 0
    assert few.flags == ()


def test_the_commonest_wrong_value_with_its_message_and_nobodys_alone() -> None:
    said = {"0.5": "mfu is 0.5", "7": "mfu is 7", "8": "mfu is 8"}
    column = [Mark(0.0, got=g, message=said[g]) for g in ("0.5", "7", "0.5", "8", "0.5")]
    column += [Mark(2.0)] * 4 + [Mark(0.0, blank=True, message="No answer yet", got="")]
    item = one(items.analyse(book([(0.0, float(k % 3)) for k in range(10)], a=column)))
    assert (item.wrong, item.wrong_count, item.message) == ("0.5", 3, "mfu is 0.5")
    assert item.different == 3
    assert item.blank_share == pytest.approx(0.1)
    assert "3 gave the same wrong value: a shared mistake, or a broken test" in item.flags
    alone = [Mark(0.0, got=str(k), message=f"mfu is {k}") for k in range(5)]
    item = one(items.analyse(book([(0.0, float(k)) for k in range(5)], a=alone)))
    assert (item.wrong, item.wrong_count, item.message) == ("", 0, "")
    empty = [Mark(0.0, blank=True, message="No answer yet")] * 4 + [Mark(2.0)]
    assert one(items.analyse(book([(0.0, float(k)) for k in range(5)], a=empty))).message == ""
    tied = [Mark(0.0, got=g) for g in ("b", "a", "b", "a")]
    assert one(items.analyse(book([(0.0, float(k)) for k in range(4)], a=tied))).wrong == "a"


def test_a_question_that_a_person_marked_has_no_message_of_the_judge() -> None:
    waited = [Mark(points, message="Waits for a person to mark it.") for points in (1.5, 1.5, 4.0)]
    found = one(items.analyse(book([(2.0, 3.0, 5.0)] * 3, w=waited)), "w")
    assert (found.n, found.message, found.wrong) == (3, "", "")


def test_time_outs_are_counted() -> None:
    column = [Mark(0.0, timed_out=True)] * 2 + [Mark(2.0)] * 3
    item = one(items.analyse(book([(0.0, float(k)) for k in range(5)], a=column)))
    assert item.timed_out == 2
    assert "2 ran out of time" in item.flags


def test_who_was_not_judged_is_left_out() -> None:
    full = book([(2.0, 3.0, 5.0, 4.0)] * 3)
    lost = (Student("x", {q.name: Mark(0.0) for q in QUESTIONS}, problem="cut off"),
            Student("y", {q.name: Mark(0.0) for q in QUESTIONS}, handed_in=False), Student("z", {}))
    found = items.analyse(Book("lab", "Lab", QUESTIONS, full.students + lost))
    assert one(found).n == 3
    assert one(found).difficulty == 1.0
