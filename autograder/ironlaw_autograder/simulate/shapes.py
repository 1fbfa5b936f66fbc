"""Deeds done to a submission's file and to its notebook's shape."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import nbformat
from ironlaw.lab import wire
from nbformat import NotebookNode, v4

from ..build.lab_source import label
from .submissions import Desk

# Name, bytes, and the reason that is given for not reading it.
Unreadable = tuple[str, bytes, str]
# Name, change, and what is said about it.
Shape = tuple[str, Callable[[NotebookNode], None], str]
_FAR = 10_000


def unreadable(whole: bytes) -> list[Unreadable]:
    """Files that are no notebook, made from the bytes of one that is."""
    old = {"nbformat": 3, "worksheets": [{"cells": []}], "metadata": {}}
    return [
        ("is empty", b"", "empty"),
        ("is cut off", whole[:900], "cut off"),
        ("is a web page", b"<!DOCTYPE html><html></html>", "web page"),
        ("is JSON of another kind", b'{"cells": 3}', "not a notebook"),
        ("is a list of notebooks", b"[" + whole + b"]", "not a notebook"),
        ("is of format 3", json.dumps(old).encode(), "format 3"),
        ("is UTF-16", whole.decode().encode("utf-16"), "not UTF-8"),
        ("is a gigabyte of nothing, compressed", b"\x1f\x8b\x08" + bytes(1_000), "not UTF-8"),
        ("nests without end", b'{"cells": ' + b"[" * 200_000, "damaged"),
        ("holds a number of a million digits", b'{"cells": ' + b"9" * 1_000_000 + b"}", "damaged"),
        ("has a hundred thousand cells", b'{"cells": [' + b"{}," * 99_999 + b"{}]}",
         "100,000 cells"),
    ]


def odd(whole: bytes) -> list[tuple[str, bytes]]:
    """Files that look odd and are graded like any other."""
    text = whole.decode()
    made = json.loads(text)
    made.update(nbformat=5, nbformat_minor=99, metadata={"kernelspec": {"name": "evil"}, "x": [1]})
    made["cells"] = [3, None, "cell", [], {}, {"cell_type": ["code"]}, *made["cells"],
                     {"cell_type": "code", "source": {"a": 1}, "metadata": 7, "outputs": "no"}]
    huge = json.loads(text)
    huge["cells"][0]["metadata"]["note"] = ["x" * 1_000] * 1_000
    huge["cells"][0]["attachments"] = {"a.png": {"image/png": "x" * 1_000_000}}
    return [("has a byte-order mark", b"\xef\xbb\xbf" + whole),
            ("is of format 5, with cells that are none", json.dumps(made).encode()),
            ("has two megabytes of metadata", json.dumps(huge).encode()),
            ("says NaN", text.replace('"nbformat": 4', '"nbformat": NaN', 1).encode())]


def shapes(target: str, check: str) -> list[Shape]:
    """Changes to the reference solution that cost nothing; `target` is answered, `check` graded."""
    return [
        ("deletes a check", _without(check), "was missing"),
        ("edits a check and its points", _easier(check), "was not as handed out"),
        ("rewrites every cell of the lab's own, and all points", _all_easier,
         "cells were not as handed out"),
        ("deletes every cell of the lab's own", _all_gone, "cells were missing"),
        ("copies every cell", _twice, "there 2 times"),
        ("turns the order round", lambda notebook: notebook.cells.reverse(), "moved"),
        ("turns answers into text", _as_text(target), "type of the cell"),
        ("hands in outputs of its own making", _with_outputs, ""),
        ("writes labels in capitals, and labels that lead elsewhere", _strange_labels(check), ""),
        ("adds thousands of cells", _crowded, "the first 500 were run"),
        ("adds a cell of a megabyte", _giant, "more than 500,000 characters"),
        ("adds NUL bytes and half characters", _unprintable, ""),
        ("says every label a second time in letters that look alike", _look_alike, ""),
        ("adds text that is slow to show", _slow_to_show, "characters together"),
        ("repeats an answer hundreds of times", _again_and_again(target), "times; the last one"),
    ]


def bare(notebook: NotebookNode) -> None:
    """Take every label away."""
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})


def as_bytes(notebook: NotebookNode) -> bytes:
    """The file that holds `notebook`."""
    return json.dumps(notebook).encode("utf-8")


def edited(desk: Desk, edit: Callable[[NotebookNode], None]) -> NotebookNode:
    """The reference solution after `edit`."""
    made = desk.reference()
    edit(made)
    return made


def _without(name: str) -> Callable[[NotebookNode], None]:
    def edit(notebook: NotebookNode) -> None:
        notebook.cells = [c for c in notebook.cells if label(c).get("grade_id") != name]
    return edit


def _easier(name: str) -> Callable[[NotebookNode], None]:
    def edit(notebook: NotebookNode) -> None:
        for cell in notebook.cells:
            if label(cell).get("grade_id") == name:
                cell.source = "100.0"
                cell.metadata.nbgrader.update(points=100, locked=False)
    return edit


def _all_easier(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        if label(cell)["locked"]:
            cell.source = "100.0"
        if label(cell)["grade"]:
            cell.metadata.nbgrader.update(points=100)


def _all_gone(notebook: NotebookNode) -> None:
    notebook.cells = [cell for cell in notebook.cells if not label(cell)["locked"]]


def _as_text(name: str) -> Callable[[NotebookNode], None]:
    def edit(notebook: NotebookNode) -> None:
        for place, cell in enumerate(notebook.cells):
            if label(cell).get("grade_id") == name:
                notebook.cells[place] = v4.new_raw_cell(cell.source, metadata=cell.metadata)
    return edit


def _with_outputs(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [v4.new_output("execute_result", {"text/plain": "100.0"})]


def _twice(notebook: NotebookNode) -> None:
    notebook.cells = [copy.deepcopy(cell) for cell in notebook.cells for _ in range(2)]


def _strange_labels(check: str) -> Callable[[NotebookNode], None]:
    def edit(notebook: NotebookNode) -> None:
        for name in (check.upper(), f"{check} ", "../../gradebook", "x" * _FAR,
                     "'; DROP TABLE grade", "__proto__", ""):
            record = {"grade_id": name, "grade": True, "points": 1e308, "locked": False,
                      "solution": True, "schema_version": 99, "task": True}
            notebook.cells.insert(3, _labelled("100.0", record))
        notebook.cells.insert(3, _labelled("1 / 0", {"grade_id": ["check"], "grade": "yes"}))
    return edit


def _labelled(source: str, record: dict[str, Any]) -> NotebookNode:
    return v4.new_code_cell(source, metadata={"nbgrader": record})


def _crowded(notebook: NotebookNode) -> None:
    notebook.cells += [v4.new_code_cell("") for _ in range(3_000)]


def _giant(notebook: NotebookNode) -> None:
    notebook.cells.insert(1, v4.new_code_cell("x = 1\n" * (wire.MAX_TEXT // 6)))


def _look_alike(notebook: NotebookNode) -> None:
    for cell in list(notebook.cells):
        copied = copy.deepcopy(cell)
        record = copied.metadata.nbgrader
        record.update(grade_id=record.grade_id.replace("e", "\u0435"), points=1e6, task=True)
        copied.source = "1 / 0"
        notebook.cells.append(copied)


def _slow_to_show(notebook: NotebookNode) -> None:
    notebook.cells += [v4.new_markdown_cell("[" * 20_000) for _ in range(60)]


def _unprintable(notebook: NotebookNode) -> None:
    for source in ("x = '\x00'", "y = '\ud800'", "\x1b[2J\u202e"):
        notebook.cells.insert(1, v4.new_code_cell(source))
        notebook.cells.insert(1, v4.new_markdown_cell(source))


def _again_and_again(name: str) -> Callable[[NotebookNode], None]:
    def edit(notebook: NotebookNode) -> None:
        place = next(i for i, c in enumerate(notebook.cells) if label(c).get("grade_id") == name)
        for number in range(300):
            copied = copy.deepcopy(notebook.cells[place + number])
            copied.source += "\n# again"
            notebook.cells.insert(place + number + 1, copied)
    return edit
