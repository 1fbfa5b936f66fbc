"""How far a lab has come, told from the notebook alone.

Each answer cell carries a checksum of the text that was handed out: nbgrader writes it
into the cell's metadata when a lab is derived from its source, and tells by it whether a
student changed a cell. So nothing to compare with is needed: it works in a copy, beside
an installed package, and in a checkout where the course's own file is worked on.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def state(notebook: Path) -> str:
    """How many of a lab's answer cells no longer hold the text that was handed out, in words."""
    if not notebook.is_file():
        return "not beside this page"
    begun = {name: not unchanged(cell) for cell in cells(notebook) if (name := _label(cell))}
    if not begun:
        return "cannot be read"
    if not any(begun.values()):
        return "not started"
    return f"{sum(begun.values())} of {len(begun)} answers begun"


def unchanged(cell: dict[str, Any]) -> bool:
    """Whether an answer cell's text is the one handed out, blank lines around it aside."""
    text = source(cell)
    return bool(cell["metadata"]["nbgrader"]["checksum"] in (checksum(cell, text),
                                                             checksum(cell, text.strip())))


def checksum(cell: dict[str, Any], text: str) -> str:
    """The checksum that nbgrader gives the answer cell `cell` when it holds `text`."""
    label = cell["metadata"]["nbgrader"]
    grade = bool(label.get("grade"))
    # In nbgrader's order: graded, an answer, locked (an answer never is), name, points.
    parts = [text, cell["cell_type"], str(grade), "True", "False", str(label["grade_id"])]
    if grade:
        parts.append(str(float(label["points"])))
    return hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


def cells(notebook: Path) -> list[dict[str, Any]]:
    """A notebook's cells; none when the file cannot be understood."""
    try:
        found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        return [cell for cell in found if isinstance(cell, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def source(cell: dict[str, Any]) -> str:
    """A cell's text."""
    return "".join(cell.get("source", ""))


def _label(cell: dict[str, Any]) -> str:
    """The id of an answer cell with a checksum, '' for every other cell."""
    try:
        label = cell["metadata"]["nbgrader"]
        if not (label["solution"] and label["checksum"]):
            return ""
        checksum(cell, "")  # names whatever it needs
        return str(label["grade_id"])
    except (KeyError, TypeError, ValueError):
        return ""
