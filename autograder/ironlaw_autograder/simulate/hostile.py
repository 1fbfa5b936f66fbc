"""Submissions that attack or break a grader, each with the grade that is fair.

A hostile submission is the reference solution with one deed done to it. `lost` are the
checks that the deed itself forfeits; everything else must still give full points.
`said` must stand in the student's feedback or in the instructor's table.

Deeds in code are written in `deeds/*.toml`: `source` replaces the answer that defines FUNCTION,
or stands in a new cell at place `at`. RIGHT is the right answer's text. `lost` is "answer" when
the deed forfeits the checks that need FUNCTION, "all" (but for those in `kept`), or a list of
checks; without it nothing is lost. `lab` names the one lab that a deed is for. Deeds done to the
file or to the notebook's shape are in `shapes.py`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from nbformat import v4

from ..build.lab_source import label
from ..mutants import load
from .shapes import as_bytes, bare, edited, odd, shapes, unreadable
from .submissions import Desk


@dataclass(frozen=True)
class Hostile:
    """One deed: the file's bytes, the checks that it forfeits, a word that must be said.

    `kind` is "file", "shape", or the name of the file in `deeds/` that it is written in.
    """

    name: str
    content: bytes
    lost: frozenset[str] = frozenset()
    said: str = ""
    unreadable: bool = False
    kind: str = "file"


def variants(desk: Desk) -> list[Hostile]:
    """Every deed for this lab, those to the file first."""
    every = frozenset(desk.points())
    target, check = _first_question(desk)
    whole = as_bytes(desk.reference())
    found = [Hostile(name, data, every, why, True) for name, data, why in unreadable(whole)]
    found += [Hostile(name, data) for name, data in odd(whole)]
    found += [Hostile(name, as_bytes(edited(desk, edit)), said=said, kind="shape")
              for name, edit, said in shapes(target, check)]
    found.append(Hostile("has no metadata", as_bytes(edited(desk, bare)), every, "No answer",
                         kind="shape"))
    return found + [_deed(desk, target, kind, raw) for kind, raw in _written()
                    if raw.get("lab", desk.lab.name) == desk.lab.name]


def _written() -> list[tuple[str, dict[str, Any]]]:
    folder = resources.files(__package__).joinpath("deeds")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return [(file.name.removesuffix(".toml"), deed) for file in files
            for deed in tomllib.loads(file.read_text("utf-8"))["deed"]]


def _deed(desk: Desk, target: str, kind: str, raw: dict[str, Any]) -> Hostile:
    right = desk.answer(target)
    function = right.split("def ", 1)[1].split("(", 1)[0]
    source = raw["source"].strip("\n").replace("RIGHT", right).replace("FUNCTION", function)
    if "at" in raw:
        made = desk.reference()
        made.cells.insert(raw["at"], v4.new_code_cell(source))
    else:
        made = desk.reference({target: source})
    lost = raw.get("lost", [])
    if isinstance(lost, str):
        lost = {"answer": _needing(desk, target), "all": frozenset(desk.points())}[lost]
    return Hostile(raw["name"], as_bytes(made), frozenset(lost) - set(raw.get("kept", [])),
                   raw.get("said", ""), kind=kind)


def possible(desk: Desk) -> bool:
    """Whether the lab asks for a function; every deed needs one."""
    return bool(_functions(desk))


def _functions(desk: Desk) -> list[int]:
    """Places of the answer cells that define a function."""
    return [place for place, cell in enumerate(desk.lab.source.cells)
            if label(cell)["solution"] and cell.source.startswith("def ")]


def _first_question(desk: Desk) -> tuple[str, str]:
    """The first answer cell that defines a function, and the check after it."""
    cells = desk.lab.source.cells
    place = _functions(desk)[0]
    check = next(c for c in cells[place:] if label(c)["grade"])
    return label(cells[place])["grade_id"], label(check)["grade_id"]


def _needing(desk: Desk, cell: str) -> frozenset[str]:
    """The checks that fall when `cell` defines nothing that works: what its mutants lose."""
    return frozenset().union(*(m.refused for m in load(desk.lab.name) if m.cell == cell))
