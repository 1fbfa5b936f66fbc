"""Submissions that attack or break a grader, each with the grade that is fair.

A hostile submission is the reference solution with one deed done to it. `lost` are the
checks that the deed itself forfeits; everything else must still give full points.
`said` must stand in the student's feedback or in the instructor's table. Deeds in code
are written in `hostile.toml`, those done to the file or its shape are below.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import nbformat
from nbformat import NotebookNode, v4

from ..build.lab_source import label
from ..mutants import load
from .submissions import Desk


@dataclass(frozen=True)
class Hostile:
    """One deed: the file's bytes, the checks that it forfeits, a word that must be said."""

    name: str
    content: bytes
    lost: frozenset[str] = frozenset()
    said: str = ""
    unreadable: bool = False


def variants(desk: Desk) -> list[Hostile]:
    """Every deed for this lab, those to the file first."""
    every = frozenset(desk.points())
    target, check = _first_question(desk)
    whole = _bytes(desk.reference())
    files = [
        Hostile("is empty", b"", every, "empty", True),
        Hostile("is cut off", whole[:900], every, "cut off", True),
        Hostile("is a web page", b"<!DOCTYPE html><html></html>", every, "web page", True),
        Hostile("is JSON of another kind", b'{"cells": 3}', every, "not a notebook", True),
        Hostile("has a byte-order mark", b"\xef\xbb\xbf" + whole),
    ]
    shapes: list[tuple[str, Callable[[NotebookNode], None], str]] = [
        ("deletes a check", _without(check), "was missing"),
        ("edits a check and its points", _easier(check), ""),
        ("copies every cell", _twice, "there 2 times"),
        ("turns the order round", lambda notebook: notebook.cells.reverse(), "moved"),
        ("turns answers into text", _as_text(target), "type of the cell"),
        ("hands in outputs of its own making", _with_outputs, ""),
    ]
    files += [Hostile(name, _bytes(_edited(desk, edit)), said=said) for name, edit, said in shapes]
    files.append(Hostile("has no metadata", _bytes(_edited(desk, _bare)), every, "No answer"))
    text = resources.files(__package__).joinpath("hostile.toml").read_text(encoding="utf-8")
    return files + [_deed(desk, target, raw) for raw in tomllib.loads(text)["deed"]]


def _deed(desk: Desk, target: str, raw: dict[str, Any]) -> Hostile:
    right = desk.answer(target)
    function = right.split("def ", 1)[1].split("(", 1)[0]
    source = raw["source"].strip("\n").replace("RIGHT", right).replace("FUNCTION", function)
    if "at" in raw:
        made = desk.reference()
        made.cells.insert(raw["at"], v4.new_code_cell(source))
    else:
        made = desk.reference({target: source})
    lost = {"answer": _needing(desk, target), "all": frozenset(desk.points())}
    return Hostile(raw["name"], _bytes(made), lost.get(raw.get("lost", ""), frozenset()),
                   raw.get("said", ""))


def _first_question(desk: Desk) -> tuple[str, str]:
    """The first answer cell that defines a function, and the check after it."""
    cells = desk.lab.source.cells
    for place, cell in enumerate(cells):
        if label(cell)["solution"] and cell.source.startswith("def "):
            check = next(c for c in cells[place:] if label(c)["grade"])
            return label(cell)["grade_id"], label(check)["grade_id"]
    raise ValueError(f"{desk.lab.name} asks for no function")


def _needing(desk: Desk, cell: str) -> frozenset[str]:
    """The checks that fall when `cell` defines nothing that works: what its mutants lose."""
    return frozenset().union(*(m.refused for m in load(desk.lab.name) if m.cell == cell))


def _bytes(notebook: NotebookNode) -> bytes:
    return json.dumps(notebook).encode("utf-8")


def _edited(desk: Desk, edit: Callable[[NotebookNode], None]) -> NotebookNode:
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


def _bare(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
