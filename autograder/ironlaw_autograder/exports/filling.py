"""What filling in a platform's file has in common, whichever platform it is."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import asdict, dataclass, field
from typing import Any

from ironlaw.errors import InputError

from .cells import number
from .marks import Book, Student
from .matching import Matching


@dataclass(frozen=True)
class Wishes:
    """How an instructor wants totals to go out.

    `partial`: also those that still wait for a person, with the points so far. `scale`:
    converted to the platform's maximum where that differs. `absent_zero`: 0 for those who
    handed nothing in. `ignore_case`: ids agree apart from capital letters.
    """

    partial: bool = False
    scale: bool = False
    absent_zero: bool = False
    ignore_case: bool = False


@dataclass
class Filled:
    """One filled file and everybody it could not serve, by name or id.

    `changed` had another grade in the file before, `kept` are cells that were left as they
    were, with the reason; `empty` are people of the file for whom there is no grade here.
    """

    file: str = ""
    column: str = ""
    filled: int = 0
    changed: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    not_in_file: list[str] = field(default_factory=list)
    unclear: dict[str, str] = field(default_factory=dict)
    nearly: dict[str, str] = field(default_factory=dict)

    def take(self, matching: Matching, book: Book) -> None:
        """Enter everybody who handed in and has no row of their own."""
        came = {student.id for student in book.students if student.handed_in}
        self.not_in_file = [name for name in matching.missing if name in came]
        self.unclear = matching.unclear
        self.nearly = matching.nearly

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def settled(student: Student, wishes: Wishes) -> float | None:
    """The total to hand on, or None where there is none to hand on yet."""
    if not student.handed_in:
        return 0.0 if wishes.absent_zero else None
    if student.final or (wishes.partial and student.judged):
        return student.total
    return None


def factor(argument: str, maximum: str, book: Book, wishes: Wishes) -> float:
    """What a total is multiplied by to be out of `maximum`, the platform's own text."""
    try:
        theirs = float(maximum.strip().replace(",", "."))
    except ValueError:
        raise InputError(argument, maximum, f"a number of points such as {book.maximum:g}",
                         "Give the assignment its points on the platform, and download the file "
                         "again.") from None
    if theirs == book.maximum:
        return 1.0
    if wishes.scale and theirs > 0:
        return theirs / book.maximum
    raise InputError(argument, maximum, f"{book.maximum:g}, the points of {book.lab}",
                     f"Give the assignment {book.maximum:g} points on the platform and download "
                     "the file again, or convert every total with --scale.")


def put(cells: list[str], place: int, name: str, value: float, filled: Filled) -> None:
    """Write a total into a row's cell; an equal one there stays as it is written."""
    before = cells[place].strip()
    text = number(value)
    try:
        same = bool(before) and abs(float(before.replace(",", ".")) - value) < 0.005
    except ValueError:
        same = False
    if not same:
        if before:
            filled.changed.append(name)
        cells[place] = text
    filled.filled += 1


def plain(text: str) -> str:
    """Letters and digits of a title alone, to compare titles that people typed."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold())


def square(argument: str, file: str, rows: list[list[str]]) -> None:
    """`InputError` unless every row has as many cells as the first."""
    for place, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise InputError(argument, file, "a table whose rows are equally long",
                             f"Row {place} has {len(row)} cells and the heading {len(rows[0])}. "
                             "Download the file again and hand it over as it is.")
