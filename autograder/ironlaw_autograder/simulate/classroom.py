"""A whole synthetic class as files, with the grade that each member must get."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

from ironlaw.errors import InputError, count
from nbformat import NotebookNode

from ..mutants import Mutant, load
from . import hostile
from .submissions import Desk

NAMES = ("Ada", "Boris", "Chidi", "Dunya", "Emre", "Farah", "Goro", "Hana", "Ines", "Jonas",
         "Kavya", "Linh", "Mateo", "Nadia", "Ottilie", "Priya", "Quang", "Rosa", "Sami", "Tove")

# What every instructor meets first; the other deeds follow, each of another kind in turn.
FIRST = ("ends the process in a function", "loops in a function", "copies every cell",
         "returns an object that equals everything", "is cut off", "syntax error")


@dataclass(frozen=True)
class Member:
    """One synthetic student: the expected points by check, and a word expected in the remarks.

    `content` is the file's bytes; `expected` has no entry for a file that cannot be read.
    """

    name: str
    deed: str
    honest: bool
    content: bytes
    expected: dict[str, float]
    said: str = ""

    @property
    def total(self) -> float:
        """Points that the machine awards."""
        return sum(self.expected.values())


def members(desk: Desk, students: int, hostiles: int) -> list[Member]:
    """`students` members of which the last `hostiles` are hostile; always the same ones.

    The honest ones take turns: everything right, one plausible mistake, nothing done.
    """
    count("students", students)
    count("hostile", hostiles, low=0)
    if hostiles > students:
        raise InputError("hostile", hostiles, f"at most the number of students, {students}")
    wrong = load(desk.lab.name)
    deeds = _deeds(desk, hostiles) if hostiles else []
    found = [_honest(desk, place, wrong) for place in range(students - hostiles)]
    return found + [_hostile(desk, place, deeds[place % len(deeds)]) for place in range(hostiles)]


def _deeds(desk: Desk, hostiles: int) -> list[hostile.Hostile]:
    """Every deed for the lab, those first that every instructor meets, then one of each kind."""
    if not hostile.possible(desk):
        raise InputError("hostile", hostiles, f"0 for {desk.lab.name}, which asks for no function",
                         "Attacks are written against a function: take a lab, such as "
                         "--lab lab_01_iron_law.")
    every = {deed.name: deed for deed in hostile.variants(desk)}
    first = [every.pop(name) for name in FIRST]
    kinds: dict[str, list[hostile.Hostile]] = {}
    for deed in every.values():
        kinds.setdefault(deed.kind, []).append(deed)
    turns = itertools.zip_longest(*kinds.values())
    return first + [deed for turn in turns for deed in turn if deed is not None]


def write(folder: Path, found: list[Member]) -> None:
    """Write one `.ipynb` per member into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for member in found:
        (folder / f"{member.name}.ipynb").write_bytes(member.content)


def _honest(desk: Desk, place: int, wrong: list[Mutant]) -> Member:
    name = f"{NAMES[place % len(NAMES)]} {place + 1:03d}"
    full = desk.points()
    turn = place % 4
    if turn == 3:
        return Member(name, "hands in the empty notebook", True,
                      _bytes(desk.untouched()), dict.fromkeys(full, 0.0), "No answer yet")
    if turn == 0 or not wrong:
        return Member(name, "everything right", True, _bytes(desk.reference()), full)
    mutant = wrong[(place * 7) % len(wrong)]
    points = {check: 0.0 if check in mutant.refused else value for check, value in full.items()}
    return Member(name, mutant.name, True, _bytes(desk.mutant(mutant)), points)


def _hostile(desk: Desk, place: int, deed: hostile.Hostile) -> Member:
    points = {check: 0.0 if check in deed.lost else value
              for check, value in desk.points().items()}
    # Named so that a folder in order has them among the others, and they are graded together.
    name = f"{NAMES[place % len(NAMES)]} hostile {place + 1:03d}"
    return Member(name, deed.name, False, deed.content, points, deed.said)


def _bytes(notebook: NotebookNode) -> bytes:
    return json.dumps(notebook).encode("utf-8")
