"""The class list: who is expected, and the ids by which platforms know each student.

Columns are found by their names, in any order and in small or capital letters. Understood are
a table of one's own (`id`, and any of `login`, `email`, `lms`, `name`, `submitted`), Canvas's
gradebook export (`Student`, `ID`, `SIS User ID`, `SIS Login ID`), and Moodle's grading
worksheet and gradebook export (`Identifier`, `Full name`, `Email address`, `ID number`,
`Username`, `Last modified (submission)`). Both platforms can rename or translate columns:
what is not understood is left alone, and a table without any id is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path

from ironlaw.errors import InputError

from . import tables, times
from .spelling import key, name_key, student_name

_COLUMNS = {
    "id": ("id", "student id", "student_id", "student", "user id", "user_id"),
    "login": ("login", "login id", "sis login id", "username", "user name", "netid", "user"),
    "email": ("email", "e-mail", "email address", "e-mail address", "mail"),
    "number": ("sis user id", "sis id", "id number", "idnumber", "number", "matriculation number"),
    "lms": ("lms", "lms id", "lms_id", "lms_user_id", "lms user id", "canvas id", "moodle id",
            "identifier", "participant"),
    "name": ("name", "full name", "student name"),
    "first": ("first name", "firstname", "given name"),
    "last": ("last name", "lastname", "surname", "family name"),
    "submitted": ("submitted", "submitted at", "last modified (submission)"),
}
FILE = "roster.csv"  # in a graded folder: the list that was used last

_IDS = ("id", "login", "email", "number", "lms")
_CANVAS = {"student", "id", "section"}
_NO_PERSON = {"points possible", "student, test", "test student"}


@dataclass(frozen=True)
class Enrolled:
    """One student of the class: `id` names them from here on."""

    id: str
    login: str = ""
    email: str = ""
    number: str = ""
    lms: str = ""
    name: str = ""
    first: str = ""
    last: str = ""
    submitted: datetime | None = None


@dataclass(frozen=True)
class Roster:
    """The class by every id; `said` is what an instructor should know about the table.

    `text` is the table as it was read.
    """

    students: tuple[Enrolled, ...]
    said: tuple[str, ...] = ()
    text: str = field(default="", repr=False)
    _by_key: dict[str, dict[str, Enrolled]] = field(default_factory=dict, repr=False)
    _by_name: dict[str, Enrolled] = field(default_factory=dict, repr=False)

    def by_id(self, texts: Iterable[str]) -> Enrolled | None:
        """The student known by one of these texts: an id before a login, that before the rest."""
        wanted = [key(text) for text in texts]
        return next((known[text] for known in self._by_key.values() for text in wanted
                     if text in known), None)

    def by_platform(self, texts: Iterable[str]) -> Enrolled | None:
        """The student whom the platform itself knows by one of these numbers or names."""
        known = self._by_key.get("lms", {})
        return next((known[key(text)] for text in texts if key(text) in known), None)

    def ids(self) -> dict[str, tuple[str, ...]]:
        """Every further id of each student, by the id."""
        return {s.id: tuple(text for text in (s.login, s.email, s.number, s.lms) if text)
                for s in self.students}

    def by_name(self, text: str) -> Enrolled | None:
        """The only student of this name, as it is written or run together by a platform."""
        return self._by_name.get(name_key(text)) if name_key(text) else None


def read(path: Path, zone: tzinfo | None = None) -> Roster:
    """The class list in a CSV file; `InputError` names what is missing or double.

    A time of handing in that names no zone is in `zone`, or in this machine's for None.
    """
    rows = tables.read(path, "roster")
    head = list(rows[0]) if rows else []
    canvas = set(head) >= _CANVAS
    students, said = [], []
    unread = 0
    assumed: list[datetime] = []
    for place, row in enumerate(rows, start=2):
        cells = _canvas(row) if canvas else _plain(row)
        if cells["name"].casefold() in _NO_PERSON:
            continue
        who = next((cells[name] for name in _IDS if cells[name]), "")
        if not who:
            said.append(f"{path.name}, line {place}: no id of any kind; left out")
            continue
        submitted, zoneless = times.handed_in(cells["submitted"], zone)
        assumed += [submitted] if submitted and zoneless else []
        unread += bool(re.search(r"\d", cells["submitted"])) and submitted is None
        students.append(Enrolled(student_name(who), cells["login"], cells["email"],
                                 cells["number"], cells["lms"], cells["name"], cells["first"],
                                 cells["last"], submitted))
    if not students:
        raise InputError("roster", head, "a table with a column of ids, such as id, login, "
                         "email, SIS Login ID, Email address or ID number")
    if unread:
        said.append(f"{path.name}: {unread} hand-in times could not be read and count as unknown")
    if assumed:
        said.append(f"{path.name}: hand-in times without a zone were read in "
                    f"{'that of the due date' if zone else 'the zone of this machine'}, "
                    f"such as {assumed[0].isoformat()}")
    return _indexed(students, said, path.read_text(encoding="utf-8"))


def _indexed(students: list[Enrolled], said: list[str], table: str) -> Roster:
    twice = [name for name, count in Counter(key(s.id) for s in students).items() if count > 1]
    if twice:
        raise InputError("roster", sorted(twice), "a table with one line per student",
                         "Remove the second lines, or give them ids of their own.")
    by_key: dict[str, dict[str, Enrolled]] = {name: {} for name in _IDS}
    for field_name in _IDS:
        for student in students:
            text = key(getattr(student, field_name))
            if not text:
                continue
            other = by_key[field_name].setdefault(text, student)
            if other is not student:
                raise InputError("roster", getattr(student, field_name),
                                 f"the {field_name} of one student only",
                                 f"{other.id} and {student.id} share it; correct one of them.")
    names: dict[str, set[str]] = {}
    for student in students:
        for text in _names(student):
            names.setdefault(text, set()).add(student.id)
    by_id = {student.id: student for student in students}
    by_name = {text: by_id[min(ids)] for text, ids in names.items() if len(ids) == 1}
    return Roster(tuple(students), tuple(said), table, by_key, by_name)


def _names(student: Enrolled) -> set[str]:
    """A person's name, whole and run together with the last name first, as Canvas does."""
    first, last = student.first, student.last
    if not (first and last) and "," in student.name:
        last, first = (part.strip() for part in student.name.split(",", 1))
    elif not (first and last) and len(student.name.split()) > 1:
        first, last = student.name.rsplit(None, 1)
    whole = {student.name, f"{first} {last}", "".join(re.findall(r"\w+", f"{last} {first}"))}
    return {name_key(text) for text in whole} - {""}


def _cell(row: dict[str, str], column: str) -> str:
    return next((row[name] for name in _COLUMNS[column] if row.get(name)), "")


def _plain(row: dict[str, str]) -> dict[str, str]:
    cells = {column: _cell(row, column) for column in _COLUMNS}
    if cells["first"] and cells["last"] and not cells["name"]:
        cells["name"] = f"{cells['first']} {cells['last']}"
    # Moodle writes the participant's number with the word in front of it.
    words = cells["lms"].split()
    if len(words) == 2 and words[1].isdigit():
        cells["lms"] = words[1]
    return cells


def _canvas(row: dict[str, str]) -> dict[str, str]:
    """Canvas calls a name Student, and its own number ID."""
    return {"id": "", "login": row.get("sis login id", ""), "email": _cell(row, "email"),
            "number": row.get("sis user id", ""), "lms": row["id"], "name": row["student"],
            "first": "", "last": "", "submitted": _cell(row, "submitted")}
