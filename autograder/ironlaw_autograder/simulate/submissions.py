"""Submissions made from a lab's source: the reference, and changes to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from ironlaw.lab import recording
from nbformat import NotebookNode

from ..build import labs
from ..build.lab_source import Lab, is_answer, label
from ..check import MARKS
from ..mutants import Mutant


class Desk:
    """Makes submissions of one lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.handed_out = labs.release(lab)
        self._record = recorded(lab.name)
        self._answers = {label(cell)["grade_id"]: self._solved(cell)
                         for cell in lab.source.cells if is_answer(cell)}

    def untouched(self) -> NotebookNode:
        """The notebook as it was handed out."""
        return copy.deepcopy(self.handed_out)

    def reference(self, changes: Mapping[str, str] | None = None) -> NotebookNode:
        """Every answer right, but for the cells in `changes`."""
        made = self.untouched()
        answers = {**self._answers, **(changes or {})}
        for cell in made.cells:
            name = label(cell)["grade_id"]
            if name in answers:
                cell.source = answers[name]
        return made

    def answer(self, name: str) -> str:
        """The right answer to the cell `name`."""
        return self._answers[name]

    def mutant(self, mutant: Mutant) -> NotebookNode:
        """The reference with one plausible mistake."""
        if mutant.record:
            text = changed(self._record, mutant.record)
            source = recording.fill(self._handed_out_text(mutant.cell), text)
            return self.reference({mutant.cell: str(source)})
        return self.reference({mutant.cell: mutant.source})

    def points(self) -> dict[str, float]:
        """Points by graded cell that a machine judges."""
        return {label(c)["grade_id"]: float(label(c)["points"]) for c in self.lab.source.cells
                if label(c)["grade"] and not label(c)["solution"]}

    def written(self) -> dict[str, float]:
        """Points by graded cell that a person marks."""
        return {label(c)["grade_id"]: float(label(c)["points"]) for c in self.lab.source.cells
                if label(c)["grade"] and label(c)["solution"]}

    def _handed_out_text(self, name: str) -> str:
        return next(str(cell.source) for cell in self.handed_out.cells
                    if label(cell)["grade_id"] == name)

    def _solved(self, cell: NotebookNode) -> str:
        lines = [line for line in cell.source.splitlines()
                 if not any(mark in line for mark in MARKS)]
        text = "\n".join(lines)
        if label(cell)["solution"] or not self._record:
            return text
        return recording.fill(text, self._record) or text


def changed(record: str, changes: Mapping[str, Any]) -> str:
    """The JSON text `record` with values replaced by path, or multiplied ("*2")."""
    data = json.loads(record)
    for path, value in changes.items():
        *above, last = path.split(".")
        place = data
        for step in above:
            place = place[step]
        place[last] = place[last] * float(value[1:]) if str(value).startswith("*") else value
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def recorded(name: str) -> str:
    """The measurement that synthetic students of the lab `name` hand in, or ''.

    It was made by the lab's own cell on two CPU cores, not written by hand.
    """
    file = resources.files(__package__).joinpath("recorded", f"{name}.json")
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""
