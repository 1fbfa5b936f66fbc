"""A file that Canvas's gradebook imports, made from the export that Canvas itself wrote.

What is relied on is how Canvas's own importer and exporter work (`lib/gradebook_importer.rb`
and `lib/gradebook_exporter.rb` of canvas-lms):

- the first columns say who: Student (or LastName, FirstName), ID, perhaps SIS User ID,
  SIS Login ID, Integration ID and Root Account, then Section; then come an instructor's own
  columns, assignments as `Title (id)`, and totals;
- a row whose first cell holds "Points Possible" sets the assignments' points on import; a row
  of "Manual Posting" or "Muted" is passed over; "read only" in the points row closes a column;
- every assignment column of the file is imported, and a cell that differs from the gradebook
  overwrites it, also an empty one;
- "EX" is excused, "N/A" not assigned; numbers have two decimals.

Hence the file written here holds the columns that say who, and one assignment: a second one,
exported yesterday, would undo what a colleague entered today.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ironlaw.errors import InputError

from .cells import Sheet, read_sheet
from .filling import Filled, Wishes, factor, plain, put, settled, square
from .marks import Book
from .matching import match

WHAT = "the gradebook that Canvas exported"
_STEP = "In Canvas: Grades, Export, Export Entire Gradebook; hand that file over as it is."
_IDS = ("ID", "SIS User ID", "SIS Login ID", "Integration ID")
_WHO = ("Student", "LastName", "FirstName", *_IDS, "Root Account", "Section")
_TOTALS = re.compile("Current Score|Current Points|Current Grade|Final Score|Final Points|"
                     "Final Grade|Override Score|Override Grade|Override Status")
_ASSIGNMENT = re.compile(r"(.*)\s\((\d+)\)", re.DOTALL)
_PASSED_OVER = re.compile(r"\s*(Muted|Manual Posting.*)?\s*", re.IGNORECASE)
_TEST_STUDENTS = ("Student, Test", "Test Student")
_LISTED = 8  # columns that a message names


def fill(book: Book, template: Path, wishes: Wishes, *, column: str | None = None,
         roster: Mapping[str, Sequence[str]] | None = None) -> tuple[str, Filled]:
    """The text of the file to import, and what became of everybody."""
    sheet = read_sheet("canvas", template, WHAT)
    square("canvas", sheet.file, sheet.rows)
    header = [name.strip() for name in sheet.rows[0]]
    who = _who(header, sheet.file)
    points = _points_row(sheet)
    place = _assignment(header, len(who), book, column, sheet)
    if re.search(r"read\s+only", points[place]):
        raise InputError("column", header[place], "an assignment that Canvas imports",
                         "Its cell in the row Points Possible says read only.")
    times = factor(f"Points Possible of {header[place]}", points[place], book, wishes)
    filled = Filled(column=header[place])
    people = [row for row in sheet.rows[1:] if _is_person(row)]
    ids = [{name: row[who.index(name)] for name in _IDS if name in who} for row in people]
    matching = match(book.students, ids, roster, ignore_case=wishes.ignore_case)
    filled.take(matching, book)
    by_row = {row: student for student, row in matching.rows.items()}
    students = {student.id: student for student in book.students}
    for number, row in enumerate(people):
        name = _name(row, header)
        if number not in by_row:
            if name not in _TEST_STUDENTS:
                filled.empty.append(name)
            continue
        student = students[by_row[number]]
        total = settled(student, wishes)
        if row[place].strip() in ("EX", "N/A"):
            filled.kept[name] = "excused" if row[place].strip() == "EX" else "not assigned"
        elif total is None:
            (filled.waiting if student.handed_in else filled.empty).append(name)
        else:
            put(row, place, name, total * times, filled)
    kept = [*range(len(who)), place]
    # The importer compares this heading whole, with a byte-order mark if there is one.
    sheet.bom = sheet.bom and header[0] != "LastName"
    sheet.rows = [[row[at] for at in kept] for row in sheet.rows]
    return sheet.text(), filled


def _who(header: list[str], file: str) -> list[str]:
    """The columns that say who; Canvas wants them first, the section last among them."""
    end = header.index("Section") + 1 if "Section" in header else 0
    who = header[:end]
    named = who[:1] == ["Student"] or who[:2] == ["LastName", "FirstName"]
    if not named or "ID" not in who or any(name not in _WHO for name in who):
        raise InputError("canvas", file, WHAT, f"Its first columns are {', '.join(header[:6])}; "
                         f"Canvas writes Student, ID, ..., SIS Login ID, Section. {_STEP}")
    return who


def _points_row(sheet: Sheet) -> list[str]:
    for row in sheet.rows[1:]:
        if "Points Possible" in row[0]:
            return row
    raise InputError("canvas", sheet.file, f'{WHAT}, with its row "Points Possible"', _STEP)


def _is_person(row: list[str]) -> bool:
    return "Points Possible" not in row[0] and not all(map(_PASSED_OVER.fullmatch, row))


def _name(row: list[str], header: list[str]) -> str:
    if header[0] == "LastName":
        return f"{row[0]}, {row[1]}"
    return row[0]


def _assignment(header: list[str], start: int, book: Book, column: str | None,
                sheet: Sheet) -> int:
    """The place of the one column that is this lab's."""
    known = {at: found for at, name in enumerate(header) if at >= start
             and not _TOTALS.search(name) and (found := _ASSIGNMENT.fullmatch(name))}
    if column is not None:
        wanted = [at for at, found in known.items()
                  if column in (header[at], found[1], found[2])]
        argument, value = "column", column
    else:
        # "Lab 1 · The iron law" may be called by the whole, or by either half.
        titles = (book.lab, book.title, *re.split(r" · |: ", book.title))
        own = set(map(plain, titles))
        wanted = [at for at, found in known.items() if plain(found[1]) in own]
        argument, value = "canvas", sheet.file
    if len(wanted) == 1:
        return wanted[0]
    if not known:
        raise InputError("canvas", sheet.file, f"{WHAT}, with an assignment in it",
                         "Make the assignment in Canvas first, then export again.")
    many = "Several columns" if wanted else "No column"
    meant = f"{many} of it could be meant." if column is not None else (
        f"{many} of it has the title {' or '.join(dict.fromkeys((book.lab, book.title)))}.")
    listed = "; ".join([header[at] for at in known][:_LISTED])
    more = f"; and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    raise InputError(argument, value, "a file or column that names one assignment",
                     f"{meant} Its assignments are: {listed}{more}. "
                     "Name the column with --column 'TITLE (ID)' or its ID.")
