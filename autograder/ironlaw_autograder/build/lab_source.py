"""Reading a lab's source: `solutions/NAME.py` in jupytext's percent format.

The header names the lab; cells say what they are through nbgrader's metadata, of
which the author writes only what matters:

- answer cell:  `# %% nbgrader={"grade_id": "mfu", "solution": true}`
- checks:       `# %% nbgrader={"grade_id": "check-mfu", "grade": true, "points": 3}`
- written:      `# %% [markdown] nbgrader={"grade_id": "why", "grade": true, "solution": true, ...}`
- kept:         `# %% nbgrader={"grade_id": "measure", "locked": false}`: handed out as it stands,
  for the student to run or change

Every other cell is locked here and gets its id from the heading above it, so that a
cell without a label in a submission is always the student's own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from ironlaw.errors import InputError
from nbformat import NotebookNode

from . import notebook

SCHEMA = 3
CODE_STUB = 'raise NotImplementedError("Not written yet.")'
_CELL_KEYS = ("nbgrader", "tags", "jupyter")


@dataclass(frozen=True)
class Lab:
    """A lab as its author wrote it: with solutions and hidden tests.

    `blocked` are the library modules that hold what the student is asked to write;
    the sandbox replaces them while this lab is graded. `stub` is the code that stands
    where a solution was. `salt` is the word from which each student's own figures are
    drawn, '' in a lab that has none.
    """

    name: str
    title: str
    minutes: int
    blocked: tuple[str, ...]
    stub: str
    source: NotebookNode = field(repr=False)
    salt: str = ""

    @property
    def points(self) -> float:
        """The sum over all graded cells."""
        return sum(float(meta["points"]) for meta in map(label, self.source.cells)
                   if meta.get("grade"))


def label(cell: NotebookNode) -> dict[str, Any]:
    """nbgrader's metadata of a cell, or an empty mapping."""
    found = cell.metadata.get("nbgrader")
    return found if isinstance(found, dict) else {}


def is_answer(cell: NotebookNode) -> bool:
    """Whether the cell is the student's to fill: an answer, or one handed out as it stands."""
    return label(cell).get("locked") is False


def read(path: Path) -> Lab:
    """The lab written in `path`, or `InputError` naming what its source lacks."""
    made = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    return from_notebook(made, path.stem, str(path.name))


def from_notebook(made: NotebookNode, name: str, where: str) -> Lab:
    """A lab from a notebook whose metadata holds the header `ironlaw`."""
    header = made.metadata.get("ironlaw")
    wanted = "a header `ironlaw:` with title and minutes under `jupyter:`"
    if not isinstance(header, dict) or not {"title", "minutes"} <= set(header):
        raise InputError(where, header, wanted, "Copy the first lines of solutions/lab_01.")
    lab = Lab(name=name, title=str(header["title"]), minutes=int(header["minutes"]),
              blocked=tuple(header.get("blocked", ())), stub=header.get("stub", CODE_STUB),
              source=notebook.clean(made), salt=header.get("salt", ""))
    _label(lab.source.cells, where)
    return lab


def _label(cells: list[NotebookNode], where: str) -> None:
    seen: set[str] = set()
    place: Counter[str] = Counter()
    section = "start"
    for cell in cells:
        title = notebook.heading(cell.source) if cell.cell_type == "markdown" else None
        section = notebook.slug(title) if title else section
        given = label(cell)
        if not given:
            place[section] += 1
            given = {"grade_id": f"{section}-{place[section]}", "locked": True}
        meta = _complete(given, cell, where)
        if meta["grade_id"] in seen:
            raise InputError(where, meta["grade_id"], "a grade_id that no other cell has")
        seen.add(meta["grade_id"])
        kept = {key: cell.metadata[key] for key in _CELL_KEYS if key in cell.metadata}
        cell.metadata = nbformat.from_dict({**kept, "nbgrader": meta})
        cell["id"] = meta["grade_id"]


def _complete(given: dict[str, Any], cell: NotebookNode, where: str) -> dict[str, Any]:
    """nbgrader's whole record from the part that the author wrote."""
    name = given.get("grade_id")
    if not isinstance(name, str) or notebook.slug(name, 64) != name:
        raise InputError(f"{where}: grade_id", name, "lower-case letters, digits and dashes")
    grade, solution = bool(given.get("grade", False)), bool(given.get("solution", False))
    if grade and not float(given.get("points", 0)) > 0:
        raise InputError(f"{where}: {name}: points", given.get("points"), "greater than 0")
    meta: dict[str, Any] = {
        "grade": grade,
        "grade_id": name,
        "locked": not solution and bool(given.get("locked", True)),
        "schema_version": SCHEMA,
        "solution": solution,
        "task": False,
    }
    if grade:
        meta["points"] = given["points"]
    return meta
