"""Self-check notebooks under nbgrader alone: own figures are judged for the folder's student."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from ironlaw.selfcheck import variants
from ironlaw_autograder.build import labs, selfcheck_lab
from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.adapter import Classroom, at_peace
from ironlaw_autograder.variants import right
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory

LAB = selfcheck_lab.lab(4)


def answered(who: str, says: str, scale: float = 1.0) -> Any:
    """The student's notebook with the answers to `who`'s figures, under the id `says`."""
    notebook = labs.release(LAB)
    own = {f"answer-{p.id.replace('.', '-').lower()}": p.id for p in variants.in_section(4)}
    for cell in notebook.cells:
        name = label(cell)["grade_id"]
        if name == "your-id":
            cell.source = cell.source.replace('STUDENT_ID = ""', f'STUDENT_ID = "{says}"')
        elif name in own:
            value = scale * right(variants.variant(own[name], who))
            cell.source = f"{variants.variable(own[name])} = {value!r}"
    return notebook


def test_plain_autograde_gives_the_same_points(course: Course, tmp_path: Path) -> None:
    handed_in = {"ada": (answered("ada", ""), 10.0),
                 "cleo": (answered("cleo", "cleo", 1 / 7), 0.0)}
    room = Classroom(tmp_path, course, LAB)
    room.prepare()
    for name, (notebook, _) in handed_in.items():
        folder = tmp_path / "submitted" / name / LAB.name
        folder.mkdir(parents=True)
        (folder / f"{LAB.name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    config = labs.settings(tmp_path, LAB)
    log = logging.getLogger("plain")
    log.setLevel(logging.CRITICAL)
    with at_peace():
        Autograde(coursedir=CourseDirectory(config=config), config=config, log=log).start()
    assert {name: room.totals(name)[0] for name in handed_in} == {
        name: points for name, (_, points) in handed_in.items()}
