"""Answers that can be marked together, and no others, are put together."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw_autograder.marking import groups
from ironlaw_autograder.marking.words import printable

LONG = ("My step took about four times as long as its matrix products at full speed would, so the "
        "utilisation is near a quarter. The launch of each operation costs more than its "
        "arithmetic on a model this small, and timing a step at twice the batch would decide it.")


@dataclass(frozen=True)
class Text:
    student: str
    text: str
    untouched: bool = False


def together(*texts: str) -> list[list[int]]:
    """The places of `texts`, by group."""
    found = groups.groups([Text(f"{place:02d}", text) for place, text in enumerate(texts)])
    return [[int(member.student) for member in group.members] for group in found]


def test_case_punctuation_and_markdown_do_not_part_what_is_the_same() -> None:
    found = groups.groups([Text("a", "The launch *costs* more."),
                           Text("b", "the launch costs more"),
                           Text("c", "", True), Text("d", "Something else, at length.")])
    assert [(g.number, g.kind, [m.student for m in g.members]) for g in found] == [
        (1, "identical", ["a", "b"]), (2, "single", ["d"]), (0, "untouched", ["c"])]


def test_a_few_other_words_make_a_very_alike_group_with_its_differences() -> None:
    other = LONG.replace("about four times", "roughly four times") + " Indeed."
    found = groups.groups([Text("a", LONG), Text("b", LONG), Text("c", other)])
    assert [(g.kind, len(g.members)) for g in found] == [("alike", 3)]
    assert found[0].members[0].text == LONG  # what most wrote is shown
    assert 0.95 < found[0].closeness[2] < 1
    assert groups.differences(LONG, other) == ['"about" → "roughly"', 'with "Indeed."']


def test_differences_come_whole_in_order_and_not_without_end() -> None:
    assert groups.differences("a b c d e", "a x y d") == ['"b c" → "x y"', 'without "e"']
    assert groups.differences("a b", "z a b") == ['with "z"']
    assert groups.differences("a b", "a  b") == []
    many = groups.differences(" ".join("ab" * 40), " ".join("ac" * 40))
    assert len(many) == groups.MOST + 1
    assert many[-1] == "and 32 more"
    same = "word " * 4_000  # which makes a slower comparison take minutes
    assert groups.differences(same, same + "end") == ['with "end"']


@pytest.mark.parametrize(("word", "other"), [
    ("costs more", "costs less"), ("would decide", "would not decide"), ("four", "4"),
    ("a quarter", "0.25"), ("four times", "four times without doubt"), ("twice", "half"),
])
def test_a_word_or_number_that_turns_the_meaning_parts_two_answers(word: str, other: str) -> None:
    changed = LONG.replace(word, other)
    assert changed != LONG
    assert together(LONG, changed) == [[0], [1]]
    found = groups.groups([Text("a", LONG), Text("b", changed)])
    (pair,) = groups.alike(found)  # but whoever marks is told
    assert (pair.first, pair.second) == (1, 2)
    assert pair.closeness >= groups.ALIKE


def test_short_answers_are_no_hint_and_a_different_text_is_none_either() -> None:
    short = groups.groups([Text("a", "It is 3 times slow."), Text("b", "It is 4 times slow.")])
    assert len(short) == 2
    assert groups.alike(short) == []
    rng = random.Random(1)
    words = LONG.split()
    rng.shuffle(words)
    assert groups.alike(groups.groups([Text("a", LONG), Text("b", " ".join(words))])) == []


def test_a_chain_of_small_changes_never_joins_its_far_ends() -> None:
    words = LONG.split()
    chain = [" ".join(["aside"] * n + words[n:]) for n in range(0, len(words), 3)]
    for group in groups.groups([Text(f"{n:02d}", text) for n, text in enumerate(chain)]):
        shown = group.members[0].text
        for member, share in zip(group.members, group.closeness, strict=True):
            close = groups._closeness([groups.words(shown), groups.words(member.text)])[0, 1]
            assert close >= groups.ALIKE
            assert share == pytest.approx(float(close), abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab 1", max_size=12), max_size=12), st.randoms())
def test_every_answer_is_in_one_group_whatever_the_order(texts: list[str],
                                                         rng: random.Random) -> None:
    answers = [Text(f"{place:02d}", text, not text.strip()) for place, text in enumerate(texts)]
    found = groups.groups(answers)
    assert sorted(m.student for g in found for m in g.members) == [a.student for a in answers]
    numbers = [g.number for g in found if g.number]
    assert numbers == list(range(1, len(numbers) + 1))
    rng.shuffle(answers)
    assert groups.groups(answers) == found


def test_five_hundred_long_answers_are_grouped() -> None:
    rng = random.Random(2)
    base = [" ".join(rng.choices(LONG.split(), k=80)) for _ in range(120)]
    answers = [Text(f"{n:03d}", base[n % 120] + (" indeed" if n // 120 % 2 else ""))
               for n in range(500)]
    found = groups.groups(answers)
    assert len(found) == 120
    assert all(group.kind == "alike" for group in found)


def test_a_terminal_shows_an_answer_and_never_obeys_it() -> None:
    assert printable("a\x1b[2Jb\tc\r\n\u202ed") == "a\ufffd[2Jb c\ufffd\n\ufffdd"
