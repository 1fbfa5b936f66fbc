"""Readers that share nothing with the code that writes: RFC 4180, Canvas's and Moodle's rules.

The platforms' rules are those that their importers follow (named in `exports/canvas.py` and
`exports/moodle.py`), as far as they touch scores.
"""

from __future__ import annotations

import re
from typing import Any

_CANVAS_TOTALS = ("Current Score", "Final Score", "Current Points", "Final Points",
                  "Current Grade", "Final Grade", "Override")


def rfc4180(text: str, separator: str = ",") -> list[list[str]]:
    """The records of a CSV text, sign by sign; text after a closing quote is an error."""
    rows: list[list[str]] = [[]]
    cell, quoted, place = "", False, 0
    while place < len(text):
        sign = text[place]
        if quoted:
            if text[place:place + 2] == '""':
                cell, place = cell + '"', place + 1
            elif sign == '"':
                quoted = False
                assert text[place + 1:place + 2] in (separator, "\r", "\n", ""), place
            else:
                cell += sign
        elif sign == '"' and not cell:
            quoted = True
        elif sign == separator:
            rows[-1].append(cell)
            cell = ""
        elif sign in "\r\n":
            place += text[place:place + 2] == "\r\n"
            rows[-1].append(cell)
            rows.append([])
            cell = ""
        else:
            cell += sign
        place += 1
    assert not quoted
    return rows[:-1] if rows[-1] == [] and not cell else [*rows[:-1], [*rows[-1], cell]]


def table(raw: bytes) -> tuple[list[str], list[dict[str, str]]]:
    """The heading and the rows, by heading, of one of the project's own tables."""
    assert raw.startswith(b"\xef\xbb\xbf")
    header, *rows = rfc4180(raw.decode("utf-8-sig"))
    assert all(len(row) == len(header) for row in rows)
    return header, [dict(zip(header, row, strict=True)) for row in rows]


def canvas_import(text: str, separator: str = ",") -> dict[str, Any]:
    """What Canvas would take: scores by assignment and student's ID, and points possible."""
    header, *rows = rfc4180(text, separator)
    last_first = header[:3] == ["LastName", "FirstName", "ID"]
    assert last_first or ("Student" in header[0] and "ID" in header[1]), "Invalid header row"
    section = header.index("Section")
    assert section >= 2 + last_first
    own = [place for place in range(section + 1, len(header))
           if not any(total in header[place] for total in _CANVAS_TOTALS)]
    made: dict[str, Any] = {"points": {}, "scores": {header[place]: {} for place in own}}
    for row in rows:
        assert len(row) == len(header)
        if "Points Possible" in row[0]:
            made["points"] = {header[place]: row[place] for place in own}
        elif not all(re.fullmatch(r"\s*(Muted|Manual Posting.*)?\s*", cell, re.I) for cell in row):
            for place in own:
                made["scores"][header[place]][row[1 + last_first]] = row[place].strip()
    return made


def moodle_import(raw: bytes, now: dict[int, float]) -> dict[int, float]:
    """The grades that Moodle would set, by participant; `now` are those that it holds."""
    text = raw.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").strip()
    header, *rows = rfc4180(text)
    identifier, grade = header.index("Identifier"), header.index("Grade")
    assert "Last modified (grade)" in header, "not a worksheet"
    maximum = next(place for place, name in enumerate(header) if name.lower() == "maximum grade")
    made = {}
    for row in rows:
        assert len(row) == len(header), "weird columns"
        person = int(row[identifier][len("Participant "):])
        if not row[grade].strip():
            continue
        value = float(row[grade].replace(" ", ""))
        if 0 <= value <= float(row[maximum]) and now.get(person) != value:
            made[person] = value
    return made
