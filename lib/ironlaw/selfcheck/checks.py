"""One set of checks, used by the cards and by the graded notebooks alike.

`check` takes an item and any object at all, never raises, and gives a `Verdict`. Blank is
zero, an unreadable answer is zero with a word on how to write it, and only an answer that
was understood can earn anything.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, Literal

from . import reading
from .kinds import Choice, FillIn, Item, Mistake, Order, TrueFalse, Written
from .reading import Unreadable

State = Literal["blank", "unreadable", "wrong", "partly right", "right", "to be marked"]


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    `points_share` is the share of the item's points in [0, 1]; `message` says in a sentence
    how the answer did, `feedback` what it betrays and what mends it. A written answer is
    "to be marked": a person awards its points.
    """

    correct: bool
    points_share: float
    message: str
    feedback: str
    state: State


def check(item: Item, answer: Any) -> Verdict:
    """Judge `answer`, whatever it is; never raises.

    Choice: a letter. True-false: a boolean or a word for it. Order: the row numbers as a
    list or a string. Fill-in: a word. Written: text, which is only found present here.
    """
    match item:
        case Choice():
            return _choice(item, reading.letter(answer, "".join(o.letter for o in item.options)))
        case TrueFalse():
            return _true_false(item, reading.truth(answer))
        case Order():
            return _order(item, reading.sequence(answer, [r.number for r in item.rows]))
        case FillIn():
            return _fill_in(item, reading.words(answer))
        case Written():
            return _written(reading.prose(answer))
    return Verdict(False, 0.0, "This kind of question cannot be checked.", "", "unreadable")


def read_back(item: Item, answer: Any) -> str:
    """How `answer` will be read, without saying whether it is right."""
    verdict = check(item, answer)
    if verdict.state in ("blank", "unreadable"):
        return verdict.message
    match item:
        case Choice():
            return f"Read as option {reading.letter(answer, 'ABCDEFGH')}."
        case TrueFalse():
            return f"Read as {reading.truth(answer)}."
        case Order():
            order = reading.sequence(answer, [r.number for r in item.rows])
            return "Read as " + ", ".join(map(str, order if isinstance(order, list) else [])) + "."
        case FillIn():
            return f"Read as “{reading.words(answer)}”."
    text = reading.prose(answer)
    return f"Read as a text of {len(str(text).split())} words."


def _choice(item: Choice, found: str | Unreadable) -> Verdict:
    if isinstance(found, Unreadable):
        return _unreadable(found, "Choose one option.")
    chosen = item.option(found)
    if chosen.mistake is None:
        return Verdict(True, 1.0, f"Right: {found}.", chosen.why, "right")
    return Verdict(False, 0.0, f"{found} is not the answer.", _said(chosen.mistake), "wrong")


def _true_false(item: TrueFalse, found: bool | Unreadable) -> Verdict:
    if isinstance(found, Unreadable):
        return _unreadable(found, "Say whether the statement is true or false.")
    if found is item.key:
        return Verdict(True, 1.0, f"Right: the statement is {str(found).lower()}.", item.reason,
                       "right")
    return Verdict(False, 0.0, f"The statement is not {str(found).lower()}.",
                   _said(item.mistake), "wrong")


def _order(item: Order, found: list[int] | Unreadable) -> Verdict:
    if isinstance(found, Unreadable):
        return _unreadable(found, "Put the rows in order.")
    if tuple(found) == item.key:
        return Verdict(True, 1.0, "Right: every row is in its place.", "", "right")
    hints = [_said(s.mistake) for s in item.swaps
             if found.index(s.first) < found.index(s.then)]
    # Two hints are read; a list of ten is not.
    feedback = " ".join(hints[:2])
    if _longest_run(found, item.key) == len(found) - 1:
        return Verdict(False, 0.5, "Nearly: one row is out of place, the others follow each "
                       "other as they should.", feedback, "partly right")
    return Verdict(False, 0.0, "Not in this order yet: more than one row is out of place.",
                   feedback, "wrong")


def _fill_in(item: FillIn, found: str | Unreadable) -> Verdict:
    if isinstance(found, Unreadable):
        return _unreadable(found, "Fill in the missing word.")
    given = reading.term(found)
    accepted = [reading.term(word) for word in item.accepted]
    if given in accepted:
        return Verdict(True, 1.0, f"Right: {item.key}.", "", "right")
    for wording in item.wordings:
        if given in map(reading.term, wording.answers):
            return Verdict(False, 0.0, "That is not the missing word.", _said(wording.mistake),
                           "wrong")
    if difflib.get_close_matches(given, accepted, n=1, cutoff=0.8):
        return Verdict(False, 0.0, "That is close to the missing word: look at the spelling.",
                       "", "wrong")
    return Verdict(False, 0.0, "That is not the missing word.", "", "wrong")


def _written(found: str | Unreadable) -> Verdict:
    if isinstance(found, Unreadable):
        return _unreadable(found, "Write a few sentences.")
    return Verdict(False, 0.0, "Your answer is here; its points come from the rubric.", "",
                   "to be marked")


def _unreadable(found: Unreadable, ask: str) -> Verdict:
    if found.blank:
        return Verdict(False, 0.0, f"No answer yet. {ask}", "", "blank")
    return Verdict(False, 0.0, found.message, "", "unreadable")


def _said(mistake: Mistake) -> str:
    return f"{mistake.betrays} {mistake.mends}"


def _longest_run(found: list[int], key: tuple[int, ...]) -> int:
    """Length of the longest subsequence of `found` that keeps the order of `key`."""
    places = [key.index(n) for n in found]
    best = [1] * len(places)
    for i, place in enumerate(places):
        best[i] = 1 + max((best[j] for j in range(i) if places[j] < place), default=0)
    return max(best)
