"""What the questions of a notebook are called, for a list of contents that a student can read."""

from __future__ import annotations

import html
import re
from typing import Any

from ..build.lab_source import label

# The id of the first cell of what a student gets back.
SUMMARY = "graded"

# **1a (3 points).** in a lab; ### 1.1 · Title in a self-check.
_IN_A_LAB = re.compile(r"^\*\*(\S+) \([^)]*points?\)\.\*\*", re.MULTILINE)
_IN_A_SELF_CHECK = re.compile(r"^### (\S+) · (.+?)\s*$", re.MULTILINE)
_LIST = re.compile(r'(<div id="toc">)(.*?)(</div>)', re.DOTALL)
_ENTRY = re.compile(r'<a href="#(comment-)?([A-Za-z0-9_-]+)">[^<]*</a>')


def questions(cells: list[Any]) -> dict[str, tuple[str, str]]:
    """Number and title of the question to which each labelled cell belongs, by `grade_id`."""
    found: dict[str, tuple[str, str]] = {}
    number, title = "", ""
    for cell in cells:
        meta = label(cell)
        if not meta:  # the student's own: it names nothing
            continue
        if cell.cell_type == "markdown" and meta.get("locked"):
            in_lab = _IN_A_LAB.search(cell.source)
            in_self_check = _IN_A_SELF_CHECK.search(cell.source)
            if in_lab:
                number, title = in_lab.group(1), ""
            elif in_self_check:
                number, title = in_self_check.group(1), in_self_check.group(2)
        name = str(meta["grade_id"])
        words = title or name.removeprefix("check-").replace("-", " ")
        written = bool(meta.get("grade") and meta.get("solution"))
        found[name] = (number, f"{words} (in writing)" if written else words)
    return found


def numbers(cells: list[Any]) -> dict[str, str]:
    """The number of the question of each cell from a question's text to its last points.

    What follows those, up to the next question, belongs to none.
    """
    found = questions(cells)
    names = [str(label(cell).get("grade_id", "")) for cell in cells]
    last = {found[name][0]: place for place, (name, cell) in enumerate(zip(names, cells,
            strict=True)) if label(cell).get("grade")}
    return {name: found[name][0] for place, name in enumerate(names)
            if name in found and found[name][0] and place <= last.get(found[name][0], -1)}


def summary(earned: float, maximum: float, waiting: float, late: float = 0.0) -> str:
    """The line with which a student's page begins; `late` points are taken off already."""
    parts = [f"Graded: {earned:g} of {maximum:g} points"]
    if late:
        parts.append(f", after {late:g} taken off for lateness")
    if waiting:
        parts.append(f", and up to {waiting:g} more wait for a person")
    return f"**{''.join(parts)}.**"


def named(page: str, cells: list[Any]) -> str:
    """nbgrader's feedback `page`, its list of contents saying which question is which."""
    known = questions(cells)

    def entry(match: re.Match[str]) -> str:
        number, words = known.get(match.group(2), ("", match.group(2)))
        said = (f"Comment on {number or words}" if match.group(1)
                else " · ".join(part for part in (number, words) if part))
        return f'<a href="#{match.group(1) or ""}{match.group(2)}">{html.escape(said)}</a>'

    return _LIST.sub(lambda m: m.group(1) + _ENTRY.sub(entry, m.group(2)) + m.group(3), page, 1)
