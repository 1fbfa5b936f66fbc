"""Reads whatever a learner left in a cell, without ever running the learner's code.

A graded cell may hold anything: None, a list of lists, a class whose `__eq__` raises.
Each reader returns the answer in one canonical form, or an `Unreadable` that says in plain
words what to write instead. Only the built-in methods of the base types are called, so an
overridden `__str__` or `__iter__` has no say.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from typing import Any

LONGEST = 2_000
_TRUE = {"true", "t", "yes", "y", "right", "correct", "holds", "đung", "dung"}
_FALSE = {"false", "f", "no", "n", "wrong", "incorrect", "sai"}


@dataclass(frozen=True)
class Unreadable:
    """Not an answer yet; `message` says what to write. `blank` when nothing was given."""

    message: str
    blank: bool = False


BLANK = Unreadable("No answer yet.", blank=True)


def plain(answer: Any) -> Any:
    """`answer` in exact built-in types, or an `Unreadable`.

    Known are None, booleans, numbers, strings, lists, tuples, ranges and numpy's values and
    arrays, also as subclasses.
    """
    kind = type(answer)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if kind is numpy.ndarray:
            answer = answer.tolist() if answer.size <= LONGEST else range(LONGEST + 1)
            kind = type(answer)
        elif issubclass(kind, numpy.bool_ | numpy.integer | numpy.floating):
            answer = answer.item()
            kind = type(answer)
    if answer is None or kind is bool:
        return answer
    if issubclass(kind, str):
        text = str.__str__(answer)
        return text if len(text) <= LONGEST else Unreadable(
            f"This is {len(text):,} characters long; an answer here takes a word or two.")
    if issubclass(kind, int):
        return int.__index__(answer)
    if issubclass(kind, float):
        return float.__float__(answer)
    if issubclass(kind, list):
        return list(list.__iter__(answer)) if list.__len__(answer) <= LONGEST else _too_long()
    if issubclass(kind, tuple):
        return list(tuple.__iter__(answer)) if tuple.__len__(answer) <= LONGEST else _too_long()
    if kind is range:
        return list(answer[:LONGEST + 1])
    return Unreadable(f"This is a value of type {_name(kind)}, not an answer.")


def letter(answer: Any, letters: str) -> str | Unreadable:
    """One letter out of `letters`, from 'b', ' (B) ', 'Ｂ', 'option B' and the like."""
    span = f"{letters[0]} to {letters[-1]}"
    value = plain(answer)
    if isinstance(value, Unreadable):
        return Unreadable(f"{value.message} Write one letter from {span}.")
    if value is None:
        return BLANK
    if not isinstance(value, str):
        return Unreadable(f"Write one letter from {span}, in quotes: \"{letters[0]}\".")
    word = fold(value)
    if not word:
        return BLANK
    match = re.fullmatch(r"(?:option|answer|choice)?[\s:=]*[(\[]?\s*([a-z])\s*[)\].:]?", word)
    if match is None:
        return Unreadable(f"{_shown(value)} is not a single letter. Write one from {span}.")
    found = match.group(1).upper()
    if found not in letters:
        return Unreadable(f"There is no option {found}. Write one letter from {span}.")
    return found


def truth(answer: Any) -> bool | Unreadable:
    """True or False, from a boolean or from words such as 'false', 'F', 'no', 'sai'."""
    say = "Write True or False."
    value = plain(answer)
    if isinstance(value, Unreadable):
        return Unreadable(f"{value.message} {say}")
    if value is None:
        return BLANK
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return Unreadable(f"A number or a list does not say whether the statement holds. {say}")
    word = unaccented(value).strip(" .!()[]'\"")
    if not unaccented(value):
        return BLANK
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    return Unreadable(f"{_shown(value)} says neither True nor False. {say}")


def sequence(answer: Any, numbers: list[int]) -> list[int] | Unreadable:
    """All of `numbers` in some order, from a list, or from '2-4-1', '2, 4, 1' or '241'."""
    size = len(numbers)
    say = (f"Write the {size} row numbers, earliest first, each once: "
           f"{numbers} is how such a list looks.")
    value = plain(answer)
    if isinstance(value, Unreadable):
        return Unreadable(f"{value.message} {say}")
    if value is None or value == []:
        return BLANK
    if isinstance(value, str):
        word = fold(value)
        if not word:
            return BLANK
        if re.search(r"[^\d\s,;.>→–—|/()\[\]-]", word):
            return Unreadable(f"{_shown(value)} holds more than row numbers. {say}")
        given: list[Any] = re.findall(r"\d+", word)
        if len(given) == 1 and size < 10:
            given = list(given[0])
    elif isinstance(value, list):
        given = value
    else:
        return Unreadable(f"One value is not an order. {say}")
    if len(given) != size:
        return Unreadable(f"There are {len(given)} entries, but {size} rows. {say}")
    found = [_row_number(entry) for entry in given]
    if None in found:
        return Unreadable(f"Entry {found.index(None) + 1} is not a row number. {say}")
    read = [n for n in found if n is not None]
    if strangers := sorted(set(read) - set(numbers)):
        return Unreadable(f"There is no row {strangers[0]}. {say}")
    if len(set(read)) < size:
        twice = next(n for n in read if read.count(n) > 1)
        missing = min(set(numbers) - set(read))
        return Unreadable(f"Row {twice} stands there twice, and row {missing} is missing. {say}")
    return read


def words(answer: Any) -> str | Unreadable:
    """A word or a short term as it was written, without outer spaces."""
    say = "Write the missing word, in quotes."
    value = plain(answer)
    if isinstance(value, Unreadable):
        return Unreadable(f"{value.message} {say}")
    if value is None:
        return BLANK
    if not isinstance(value, str):
        return Unreadable(f"The answer is a word, not a number or a list. {say}")
    return value.strip() if term(value) else BLANK


def prose(answer: Any) -> str | Unreadable:
    """A written answer, of any length, as it stands."""
    kind = type(answer)
    if answer is None:
        return BLANK
    if not issubclass(kind, str):
        return Unreadable(f"This is a value of type {_name(kind)}. Write your answer as text.")
    text = str.__str__(answer)
    return text if fold(text) else BLANK


def fold(text: str) -> str:
    """Full-width forms made plain, case folded, white space single."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def unaccented(text: str) -> str:
    """`fold` without accents, so that 'đúng' and 'đung' are one word."""
    apart = unicodedata.normalize("NFD", fold(text))
    return "".join(c for c in apart if not unicodedata.combining(c))


def term(text: str) -> str:
    """A term as it is compared: unaccented, hyphens as spaces, no outer punctuation or 'the'."""
    bare = re.sub(r"[\s_‐‑‒–—-]+", " ", unaccented(text)).strip(" .,;:!?'\"“”‘’`()[]")
    return re.sub(r"^(?:the|a|an) (?=\S)", "", bare)


def _row_number(entry: Any) -> int | None:
    value = plain(entry)
    if isinstance(value, bool | Unreadable):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        match = re.fullmatch(r"\(?(?:row )?(\d{1,3})[.)]?", fold(value))
        return int(match.group(1)) if match else None
    return None


def _too_long() -> Unreadable:
    return Unreadable(f"This has more than {LONGEST:,} entries.")


def _shown(text: str) -> str:
    short = fold(text)
    return f"“{short if len(short) <= 40 else short[:37] + '...'}”"


def _name(kind: type) -> str:
    """The type's own name; a metaclass cannot interfere."""
    return str(type.__dict__["__name__"].__get__(kind))
