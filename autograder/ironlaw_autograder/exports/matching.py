"""Which row of a platform's file is whose: by ids that agree to the letter, never by a guess.

A grade in the wrong row is worse than none. A student whose ids point to two rows, or a row
to which two students' ids point, is left out and named.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .marks import Student


@dataclass
class Matching:
    """Rows by student, and everybody who could not be placed.

    `unclear` maps a student's id to the reason; `missing` are students with no row; `nearly`
    maps a missing student to what differs from his id in capital letters alone.
    """

    rows: dict[str, int] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    nearly: dict[str, str] = field(default_factory=dict)


def match(students: Iterable[Student], rows: Sequence[Mapping[str, str]],
          roster: Mapping[str, Sequence[str]] | None = None, *,
          ignore_case: bool = False) -> Matching:
    """Place every student; `rows` give each row's ids by the name of their column.

    `roster` adds further ids by student id. Ids are compared without white space around
    them and in one Unicode form, capital letters counting unless `ignore_case`.
    """
    index: dict[str, set[int]] = {}
    folded: dict[str, str] = {}
    for place, row in enumerate(rows):
        for value in map(_form, row.values()):
            if value:
                index.setdefault(_key(value, ignore_case), set()).add(place)
                folded.setdefault(value.casefold(), value)
    made = Matching()
    claims: dict[int, list[str]] = {}
    for student in students:
        own = _own(student, roster or {})
        places = {place for name in own for place in index.get(_key(name, ignore_case), ())}
        if len(places) > 1:
            made.unclear[student.id] = ("fits more than one row: "
                                        + ", ".join(str(place + 1) for place in sorted(places)))
        elif places:
            claims.setdefault(places.pop(), []).append(student.id)
        else:
            made.missing.append(student.id)
            near = next((folded[n.casefold()] for n in own if n.casefold() in folded), "")
            if near:
                made.nearly[student.id] = near
    for place, ids in claims.items():
        if len(ids) == 1:
            made.rows[ids[0]] = place
        else:
            for name in ids:
                others = ", ".join(other for other in ids if other != name)
                made.unclear[name] = f"fits the same row as {others}"
    return made


def _own(student: Student, roster: Mapping[str, Sequence[str]]) -> list[str]:
    names = [student.id, *student.names, *roster.get(student.id, ())]
    return [form for form in map(_form, names) if form]


def _form(text: str) -> str:
    # A file's name may come with its accents as separate signs (macOS); a platform's does not.
    return unicodedata.normalize("NFC", text).strip()


def _key(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text
