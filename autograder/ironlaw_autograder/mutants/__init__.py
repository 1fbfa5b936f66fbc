"""Plausible wrong answers: each hidden test must refuse at least three of them.

`LAB.toml` holds, per mutant, the answer cell that it replaces, the wrong text (or the
changes to the recorded measurement), and the checks that must score 0. Every other check
must still give full points, so that a mutant also proves that questions stand alone.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """A wrong answer to one cell and the checks that refuse it."""

    name: str
    cell: str
    source: str
    record: dict[str, Any]
    refused: tuple[str, ...]


def load(lab_name: str) -> list[Mutant]:
    """The mutants of a lab, in the order of its file; an empty list when it has none."""
    file = resources.files(__package__).joinpath(f"{lab_name}.toml")
    if not file.is_file():
        return []
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    return [Mutant(name=raw["name"], cell=raw["cell"], source=raw.get("source", "").strip("\n"),
                   record=raw.get("record", {}), refused=tuple(raw["refused"]))
            for raw in data["mutant"]]
