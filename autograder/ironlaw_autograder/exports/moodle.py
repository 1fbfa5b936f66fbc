"""Moodle's grading worksheet, filled in: the file that one assignment gives out and takes back.

What is relied on is how Moodle's own worksheet works (`mod/assign/gradingtable.php` and
`mod/assign/feedback/offline` of moodle):

- the upload needs the columns Identifier, Grade and Last modified (grade), by these headings
  in English, and every row as long as the heading;
- a row's person is the number in Identifier, "Participant 123456"; name and e-mail address
  are not read, and are missing where marking is anonymous;
- an empty grade is passed over; so is, without a word, one above the maximum, and one whose
  row was graded in Moodle after the date in Last modified (grade);
- feedback comments in the file overwrite those in Moodle.

Hence nothing but the column Grade is changed here, and no column is added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ironlaw.errors import InputError

from .cells import read_sheet
from .filling import Filled, Wishes, factor, put, settled, square
from .marks import Book
from .matching import match

WHAT = "a grading worksheet that Moodle gave out"
_STEP = ("In the assignment: View all submissions, Download grading worksheet, with Moodle's "
         "language set to English; hand that file over as it is.")
_NEEDED = ("Identifier", "Grade", "Last modified (grade)")
_IDENTIFIER = re.compile(r"Participant (\d+)")
# Which of these a worksheet has is the site's setting (identity fields of users).
_IDS = ("Email address", "ID number", "Username")


def fill(book: Book, template: Path, wishes: Wishes, *,
         roster: Mapping[str, Sequence[str]] | None = None) -> tuple[str, Filled]:
    """The text of the file to upload, and what became of everybody."""
    sheet = read_sheet("moodle", template, WHAT)
    header = [name.strip() for name in sheet.rows[0]]
    _known(header, sheet.file)
    square("moodle", sheet.file, sheet.rows)
    identifier, grade = header.index("Identifier"), header.index("Grade")
    maximum = [place for place, name in enumerate(header) if name.lower() == "maximum grade"]
    if not maximum:
        raise InputError("moodle", sheet.file, f"{WHAT}, with the column Maximum grade",
                         "An assignment that is graded with a scale of words takes no points: "
                         "set its grade to points in Moodle, then download again.")
    may = header.index("Grade can be changed") if "Grade can be changed" in header else None
    people = sheet.rows[1:]
    ids = [_ids(row, header, identifier, sheet.file) for row in people]
    matching = match(book.students, ids, roster, ignore_case=wishes.ignore_case)
    filled = Filled(column="Grade")
    filled.take(matching, book)
    by_row = {row: student for student, row in matching.rows.items()}
    students = {student.id: student for student in book.students}
    for number, row in enumerate(people):
        name = _name(row, header, identifier)
        if number not in by_row:
            filled.empty.append(name)
            continue
        student = students[by_row[number]]
        total = settled(student, wishes)
        if may is not None and row[may].strip().lower() == "no":
            filled.kept[name] = "locked in Moodle"
        elif total is None:
            (filled.waiting if student.handed_in else filled.empty).append(name)
        else:
            times = factor(f"Maximum grade of {name}", row[maximum[0]], book, wishes)
            if total > book.maximum:
                filled.kept[name] = (f"{total:g} is above the maximum, which Moodle passes over: "
                                     "enter it there by hand")
            else:
                put(row, grade, name, total * times, filled)
    return sheet.text(), filled


def _known(header: list[str], file: str) -> None:
    lacking = [name for name in _NEEDED if name not in header]
    if lacking:
        raise InputError("moodle", file, WHAT,
                         f"It lacks the column {', '.join(lacking)}. {_STEP}")
    twice = [name for name in _NEEDED if header.count(name) > 1]
    if twice:
        raise InputError("moodle", file, f"{WHAT}, with one column {twice[0]}", _STEP)


def _ids(row: list[str], header: list[str], identifier: int, file: str) -> dict[str, str]:
    found = _IDENTIFIER.fullmatch(row[identifier].strip())
    if found is None:
        raise InputError("moodle", file, f"{WHAT}, each row with an identifier such as "
                         "Participant 123456", f"One row has {row[identifier]!r}. {_STEP}")
    ids = {"Identifier": row[identifier], "number": found[1]}
    return ids | {name: row[header.index(name)] for name in _IDS if name in header}


def _name(row: list[str], header: list[str], identifier: int) -> str:
    return row[header.index("Full name")] if "Full name" in header else row[identifier]

