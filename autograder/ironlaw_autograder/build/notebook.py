"""A notebook as this course ships it: no outputs, fixed metadata, the same bytes every time."""

from __future__ import annotations

import os
import re
import tempfile
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)


def metadata() -> dict[str, Any]:
    """The notebook metadata that every derived notebook carries, and no other."""
    return {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}


def slug(text: str, length: int = 40) -> str:
    """`text` as letters, digits and dashes, fit for a cell id."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:length].strip("-") or "cell"


def heading(source: str) -> str | None:
    """The first heading of a Markdown cell, or None."""
    found = _HEADING.search(source)
    return found.group(1) if found else None


def ids_by_heading(cells: list[NotebookNode]) -> None:
    """Name every cell after the heading it stands under and its place there.

    A new paragraph then changes few ids, so that a review of two versions shows
    what was written and not a cascade of renumbered cells.
    """
    place: Counter[str] = Counter()
    taken: set[str] = set()
    section = "start"
    for cell in cells:
        title = heading(cell.source) if cell.cell_type == "markdown" else None
        if title is not None:
            section = slug(title)
        place[section] += 1
        name = section if place[section] == 1 else f"{section}-{place[section]}"
        while name in taken:
            place[section] += 1
            name = f"{section}-{place[section]}"
        taken.add(name)
        cell["id"] = name


def clean(notebook: NotebookNode) -> NotebookNode:
    """`notebook` without outputs, counters and foreign metadata; format 4.5."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(metadata())
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
        cell.pop("attachments", None)
    return notebook


def text(notebook: NotebookNode) -> str:
    """The notebook's file content; equal notebooks give equal text."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def write_if_changed(path: Path, content: str) -> bool:
    """Write `content` unless the file already holds it; True when it was written."""
    new = content.encode("utf-8")
    if path.exists() and path.read_bytes() == new:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".building-")
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(new)
    os.chmod(name, 0o644)
    os.replace(name, path)
    return True
