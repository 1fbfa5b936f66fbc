"""A submission put back into the shape that was handed out, with a note on every change.

The labelled cells come in the order and with the labels, types and points of the
template; locked cells carry the template's text; answers carry the student's. Cells
without a label are the student's own and stay behind the cell that they followed.
Nothing that a student did to the shape costs points; `shipped.py` says what is told of it.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode, v4

from ..build.lab_source import label
from .shipped import Changes, Shipped

# More cells of one's own, or more text in one cell, is no lab report: it only costs the others
# their turn, here and where pages are made.
MAX_OWN_CELLS = 500
MAX_CELL_CHARACTERS = 500_000
MAX_OWN_CHARACTERS = 500_000  # in all cells of one's own together
_MAX_COPIES = 20


@dataclass
class Restored:
    """The notebook to grade and what was put right, in words for the student."""

    notebook: NotebookNode
    notes: list[str]


def restore(template: NotebookNode, submitted: NotebookNode,
            new: Collection[str] = (), *, shipped: Shipped | None = None,
            same: bool = True) -> Restored:
    """`submitted` in the shape of `template` (which holds the hidden tests).

    `new` are labels that the version of the lab which was handed out did not have. With
    `shipped`, locked cells are compared with what students got, and every one that was altered
    or is missing is named; where `same` is False, the notebook may honestly be of another
    version, and one line says that something was put right.
    """
    known = {label(cell)["grade_id"]: cell for cell in template.cells}
    notes: list[str] = []
    changes = Changes(shipped, same=same, new=new)
    groups, own = _sort(known, submitted.cells, notes, changes)
    _few(own, notes)
    made: list[NotebookNode] = list(own[""])
    for name, cell in known.items():
        found = groups.get(name, [])
        if name in new:
            made.append(_fresh(cell))
        elif label(cell)["locked"]:
            changes.locked(name, found)
            made.append(_fresh(cell))
        else:
            changes.points(name, found)
            made += _answer(cell, changes.called(name), found, notes)
        made += own[name]
    _short(made, notes)
    _number(made)
    notes += changes.lines()
    asked = [name for name, cell in known.items() if name in new and label(cell)["grade"]]
    if asked:
        notes.append("Not in the version of the lab that was handed out, so that a person "
                     f"decides: {', '.join(asked)}.")
    notebook = copy.deepcopy(template)
    notebook.cells = made
    return Restored(notebook, notes)


def _sort(known: dict[str, NotebookNode], cells: list[NotebookNode],
          notes: list[str], changes: Changes) -> tuple[dict[str, list[NotebookNode]],
                                                       dict[str, list[NotebookNode]]]:
    """Submitted cells by label, and the student's own cells by the label they follow."""
    groups: dict[str, list[NotebookNode]] = defaultdict(list)
    own: dict[str, list[NotebookNode]] = defaultdict(list)
    order: list[str] = []
    last = ""
    for cell in cells:
        if len(cell.source) > MAX_CELL_CHARACTERS:
            cell.source = ""
            notes.append(f"A cell held more than {MAX_CELL_CHARACTERS:,} characters; it counts as "
                         "empty.")
        name = str(label(cell).get("grade_id", ""))
        if name in known:
            groups[name].append(cell)
            order.append(name)
            last = name
        else:
            own[last].append(_plain(cell))
    changes.order(list(dict.fromkeys(order)), list(known))
    return groups, own


def _few(own: dict[str, list[NotebookNode]], notes: list[str]) -> None:
    """Keep the first cells of the student's own."""
    room, left_out = MAX_OWN_CELLS, 0
    for name, cells in own.items():
        own[name] = cells[:room]
        left_out += len(cells) - len(own[name])
        room -= len(own[name])
    if left_out:
        notes.append(f"Beside the lab's cells there were {MAX_OWN_CELLS + left_out:,} more; the "
                     f"first {MAX_OWN_CELLS} were run.")


def _short(cells: list[NotebookNode], notes: list[str]) -> None:
    """Keep the text of one's own that comes first; pages take longest over it."""
    room, left_out = MAX_OWN_CHARACTERS, 0
    for cell in cells:
        if label(cell):
            continue
        if len(cell.source) > room:
            cell.source = ""
            left_out += 1
        room -= len(cell.source)
    if left_out:
        notes.append(f"Cells beside the lab's held more than {MAX_OWN_CHARACTERS:,} characters "
                     f"together; {left_out:,} of them count as empty.")


def _answer(cell: NotebookNode, called: str, found: list[NotebookNode],
            notes: list[str]) -> list[NotebookNode]:
    """The answer cell, preceded by the student's other copies of it."""
    if not found:
        notes.append(f"The answer cell {called} was missing; it counts as empty.")
        return [_fresh(cell)]
    written = [c for c in found if c.source.strip() and c.source.strip() != cell.source.strip()]
    chosen = (written or found)[-1]
    if len(found) > 1:
        notes.append(f"The answer cell {called} was there {len(found)} times; the last one with "
                     "an answer was graded.")
    if any(c.cell_type != cell.cell_type for c in found):
        notes.append(f"The type of the cell {called} had been changed; it was changed back. "
                     "That cost no points.")
    answer = _fresh(cell)
    answer.source = chosen.source
    before = [_plain(c) for c in written if c is not chosen and c.cell_type == cell.cell_type]
    return [*before[-_MAX_COPIES:], answer]


def _fresh(cell: NotebookNode) -> NotebookNode:
    made = copy.deepcopy(cell)
    if made.cell_type == "code":
        made.outputs, made.execution_count = [], None
    return made


def _plain(cell: NotebookNode) -> NotebookNode:
    """A cell of the student's own: its text, and nothing else that came with it."""
    makers: dict[str, Any] = {"code": v4.new_code_cell, "raw": v4.new_raw_cell}
    return makers.get(cell.cell_type, v4.new_markdown_cell)(cell.source)


def _number(cells: list[NotebookNode]) -> None:
    own = 0
    for cell in cells:
        if label(cell):
            cell["id"] = label(cell)["grade_id"]
        else:
            own += 1
            cell["id"] = f"own-{own}"
