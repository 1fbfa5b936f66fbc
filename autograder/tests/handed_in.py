"""Small notebooks and archives as students and platforms make them, for the tests of intake."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ironlaw_autograder import intake
from ironlaw_autograder.intake.roster import Roster
from ironlaw_autograder.intake.settle import Submission

LAB = "lab_01_iron_law"
LABS = (LAB, "lab_02_memory", "selfcheck_01")


def notebook(text: str = "x = 1", labels: tuple[str, ...] = ("q",), **metadata: Any) -> bytes:
    """A notebook's file with one code cell for each label."""
    cells = [{"cell_type": "code", "source": f"# {name}\n{text}", "outputs": [], "metadata": {
        "nbgrader": {"grade_id": name, "grade": True, "points": 1}}} for name in labels]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4,
                       "nbformat_minor": 5}).encode()


def archive(path: Path, entries: Mapping[str, bytes]) -> Path:
    """A zip at `path` with these entries."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in entries.items():
            made.writestr(name, data)
    return path


def tree(folder: Path, entries: Mapping[str, bytes]) -> Path:
    """A folder with these files."""
    for name, data in entries.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def taken(path: Path, roster: Roster | None = None, **options: Any) -> dict[str, Submission]:
    """The submissions under `path` by student; those of nobody under their file's name."""
    found = intake.settle(intake.collect(path, LABS, roster), LAB, {"q"}, roster=roster, **options)
    return {s.student or f"? {s.file.name}": s for s in found}


def readable(found: Mapping[str, Submission]) -> set[str]:
    """Who has a notebook that can be graded."""
    return {student for student, s in found.items() if s.notebook is not None}
