"""Fair to every spelling of the right answer, deaf to everything else."""

from __future__ import annotations

import enum
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.selfcheck import loader, reading
from ironlaw.selfcheck.checks import Verdict, check, read_back
from ironlaw.selfcheck.kinds import Choice, FillIn, Item, Order, TrueFalse, Written

BANK = loader.load()
ITEMS = list(BANK.values())
JUDGED = [i for i in ITEMS if not isinstance(i, Written)]


def burst(*_: Any, **__: Any) -> Any:
    raise RuntimeError("touched")


def booby_trapped(base: type, *names: str) -> Any:
    """A subclass of `base` whose named methods raise when anything calls them."""
    return type(f"Trapped{base.__name__}", (base,), dict.fromkeys(names, burst))


Hostile = booby_trapped(
    object, "__eq__", "__hash__", "__str__", "__repr__", "__len__", "__iter__", "__bool__",
    "__int__", "__float__", "__index__", "__contains__", "__getitem__", "__getattr__",
    "__getattribute__")
Word = booby_trapped(str, "__str__", "__len__", "__iter__", "__repr__", "__eq__", "__hash__",
                     "casefold", "strip")
Rows = booby_trapped(list, "__iter__", "__len__", "__getitem__", "__eq__")


class Rank(enum.IntEnum):
    TWO = 2


def right_forms(item: Item) -> list[Any]:
    """Every way of writing the right answer that must count."""
    match item:
        case Choice(key=k):
            wide = chr(ord(k) + 0xFEE0)
            return [k, k.lower(), f" {k} ", f"({k})", f"{k}.", f"{k})", f"[{k}]", wide,
                    wide.lower(), f"option {k}", f"Answer: {k}", f"\t{k}\n", np.str_(k), Word(k)]
        case TrueFalse(key=True):
            return [True, np.True_, "true", "TRUE", " True. ", "t", "Yes", "ｔｒｕｅ", "đúng"]
        case TrueFalse():
            return [False, np.False_, "false", "FALSE", " False. ", "f", "No", "ｆａｌｓｅ", "SAI"]
        case Order(key=k):
            digits = [str(n) for n in k]
            wide = "".join(chr(ord(d) + 0xFEE0) for d in digits)
            return [list(k), k, np.array(k), np.array(k, dtype=float), digits, Rows(k),
                    [float(n) for n in k], "-".join(digits), ", ".join(digits), " ".join(digits),
                    "".join(digits), wide, " → ".join(digits), f"[{', '.join(digits)}]",
                    [f"({d})" for d in digits], "(" + ") (".join(digits) + ")"]
        case FillIn(accepted=words):
            return [form for w in words for form in (
                w, w.upper(), f"  {w} ", f"{w}.", f"the {w}", f'"{w}"', w.replace(" ", "-"),
                w.replace("-", " "), w.replace(" ", "\u00a0"), Word(w),
                "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in w))]
    raise AssertionError(item.kind)


def wrong_forms(item: Item) -> list[Any]:
    """Readable answers that must not count as right."""
    match item:
        case Choice():
            return [o.letter for o in item.options if o.letter != item.key]
        case TrueFalse(key=k):
            return [not k, str(not k), str(not k)[0], "yes" if not k else "no"]
        case Order(key=k):
            numbers = sorted(k)
            return [numbers, list(reversed(k)), [k[1], k[0], *k[2:]], [*k[:-2], k[-1], k[-2]]]
        case FillIn():
            return [*(a for w in item.wordings for a in w.answers), "gradient", "42",
                    item.accepted[0] + "s of it", item.accepted[0][:-2]]
    raise AssertionError(item.kind)


@pytest.mark.parametrize("item", JUDGED, ids=lambda i: i.id)
def test_every_form_of_the_right_answer_counts(item: Item) -> None:
    for form in right_forms(item):
        verdict = check(item, form)
        assert verdict.correct, list.__repr__([type(form)])
        assert (verdict.points_share, verdict.state) == (1.0, "right")
        assert "Read as" in read_back(item, form)


@pytest.mark.parametrize("item", JUDGED, ids=lambda i: i.id)
def test_wrong_answers_are_refused_with_a_reason(item: Item) -> None:
    wrong = wrong_forms(item)
    assert len(wrong) >= 3
    for form in wrong:
        verdict = check(item, form)
        assert not verdict.correct, form
        assert verdict.state in ("wrong", "partly right")
        assert verdict.points_share == (0.5 if verdict.state == "partly right" else 0.0)
        assert verdict.message
    foreseen = [f for f in wrong if check(item, f).feedback]
    assert foreseen, "no wrong answer gets feedback"


@pytest.mark.parametrize("item", [i for i in ITEMS if isinstance(i, Choice)], ids=lambda i: i.id)
def test_each_wrong_option_has_its_own_feedback(item: Choice) -> None:
    said = [check(item, o.letter).feedback for o in item.options]
    assert all(said)
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("item", [i for i in ITEMS if isinstance(i, Order)], ids=lambda i: i.id)
def test_an_order_earns_half_exactly_when_one_row_is_out_of_place(item: Order) -> None:
    one_move = set()
    for start in range(len(item.key)):
        for end in range(len(item.key)):
            moved = list(item.key)
            moved.insert(end, moved.pop(start))
            one_move.add(tuple(moved))
    for order in itertools.permutations(item.key):
        share = check(item, list(order)).points_share
        assert share == (1.0 if order == item.key else 0.5 if order in one_move else 0.0)


@pytest.mark.parametrize("item", ITEMS, ids=lambda i: i.id)
@pytest.mark.parametrize("blank", [None, "", "   ", "\u00a0\n\t"], ids=repr)
def test_blank_is_nought_and_says_so(item: Item, blank: Any) -> None:
    verdict = check(item, blank)
    assert (verdict.correct, verdict.points_share, verdict.state) == (False, 0.0, "blank")
    assert verdict.message.startswith("No answer yet")


def loop() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


def boxed() -> Any:
    array = np.empty(5, dtype=object)
    for place in range(5):
        array[place] = Hostile()
    return array


STRANGE: list[Any] = [
    Hostile(), Hostile, [Hostile()] * 5, Rows([Hostile()] * 5), loop(), 0, 1, -1,
    10**5000, Rank.TWO,
    math.nan, math.inf, 1j, b"A", bytearray(b"true"), {}, {"A"}, {"answer": "A"}, object(), type,
    lambda: "A", Ellipsis, NotImplemented, range(10**9), "A" * 10**6, "\ud800", "A\x00", "AA",
    "A, B",
    "Z", "1", "(", "option", [True] * 5, [math.nan] * 5, [[1]] * 5, [2, 4], [2, 4, 1, 3, 3],
    [0, 1, 2, 3, 4], ["A"], ("A",), [None] * 5, np.zeros((5, 5)), np.array(None), np.zeros(10**6),
    boxed(), np.float64("nan"), np.datetime64("2020"), "2-4-1-3-5-6",
    "true false", "tru e", "maybe", 0.0, 1.0, np.int64(1), "первое", "first 2 then 4", "-", "_",
]


@pytest.mark.parametrize("place", range(len(STRANGE)))
def test_strange_objects_get_a_sentence_and_no_points(place: int) -> None:
    for item in JUDGED:
        verdict = check(item, STRANGE[place])
        assert (verdict.correct, verdict.points_share) == (False, 0.0), item.id
        assert 10 < len(verdict.message) < 400
        assert read_back(item, STRANGE[place])


@pytest.mark.parametrize("place", range(len(STRANGE)))
def test_a_written_answer_is_never_marked_by_a_machine(place: int) -> None:
    for item in (i for i in ITEMS if isinstance(i, Written)):
        verdict = check(item, STRANGE[place])
        assert (verdict.correct, verdict.points_share) == (False, 0.0)


def messages(id: str, answer: Any) -> str:
    return check(BANK[id], answer).message


def test_messages_say_what_to_write_instead() -> None:
    assert "There is no option F. Write one letter from A to D." in messages("1.1", "f")
    assert "not a single letter" in messages("1.1", "A or B")
    assert "in quotes" in messages("1.1", 1)
    assert "True or False" in messages("1.4", 1)
    assert "Row 3 stands there twice, and row 5 is missing" in messages("1.5", [2, 4, 1, 3, 3])
    assert "There are 4 entries, but 5 rows" in messages("1.5", [2, 4, 1, 3])
    assert "There is no row 9" in messages("1.5", [2, 4, 1, 3, 9])
    assert "Entry 2 is not a row number" in messages("1.5", [2, 4.5, 1, 3, 5])
    assert "more than row numbers" in messages("1.5", "first 2, then 4")


ATOMS = (st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers()
         | st.text(max_size=12) | st.binary(max_size=8) | st.sampled_from("ABCDabcdＡｂ12345"))
ANYTHING = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=6)
                        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
                        | st.tuples(inner, inner) | st.frozensets(st.integers(), max_size=4))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(answer=ANYTHING)
def test_no_object_raises_and_points_need_a_readable_answer(answer: Any) -> None:
    for item in ITEMS:
        verdict = check(item, answer)
        assert isinstance(verdict, Verdict)
        assert 0.0 <= verdict.points_share <= 1.0
        assert verdict.correct == (verdict.points_share == 1.0) == (verdict.state == "right")
        assert verdict.message
        if verdict.points_share:
            assert meant(item, answer), (item.id, answer)


def meant(item: Item, answer: Any) -> bool:
    """An independent and stricter reading: does `answer` plainly state (nearly) the key?"""
    match item:
        case Choice(key=k):
            return isinstance(answer, str) and reading.fold(answer).upper().strip(" ().[]:") == k
        case TrueFalse(key=k):
            return answer is k or (isinstance(answer, str) and reading.unaccented(answer).strip(
                " .!()[]'\"") in ({"true", "t", "yes", "y"} if k else {"false", "f", "no", "n"}))
        case Order(key=k):
            flat = list(answer) if isinstance(answer, str | list | tuple) else []
            numbers = [int(c) for c in flat
                       if isinstance(c, int | float) or (isinstance(c, str) and c.isdigit())]
            return sorted(numbers) == sorted(k)
        case FillIn():
            return isinstance(answer, str) and reading.term(answer) in map(
                reading.term, item.accepted)
    return False
