"""Labs: a source with solutions and hidden tests to what a student gets.

nbgrader's own `generate_assignment` strips solutions, hidden tests and marking
schemes in a build tree of its own; only the notebook leaves it.
"""

from __future__ import annotations

import copy
import logging
import tempfile
from pathlib import Path

import nbformat
from ironlaw.errors import InputError, IronlawError
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from ..course import Course
from . import lab_source, notebook, selfcheck_lab, stamp
from .lab_source import Lab, label

TEXT_STUB = "*Your answer here.*"
PLAIN_SETTINGS = """c = get_config()
# Rubrics stand in locked cells below the answer that they mark.
c.ClearMarkScheme.enforce_metadata = False
"""
_KEPT = ("nbgrader", "tags", "jupyter", "deletable", "editable")


class BuildError(IronlawError):
    """nbgrader refused a lab's source."""


def settings(root: Path, lab: Lab) -> Config:
    """nbgrader's settings for `lab` in a course tree under `root`; for build and grading."""
    config = Config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.source_directory = "source"
    config.CourseDirectory.release_directory = "release"
    config.CourseDirectory.db_url = f"sqlite:///{root / 'gradebook.db'}"
    config.ClearSolutions.code_stub = {"python": lab.stub}
    config.ClearSolutions.text_stub = TEXT_STUB
    # Rubrics stand in locked cells below the answer that they mark.
    config.ClearMarkScheme.enforce_metadata = False
    config.CourseDirectory.assignment_id = lab.name
    return config


def release(lab: Lab) -> NotebookNode:
    """The student's notebook: no solution, no hidden test, the same bytes every time."""
    with tempfile.TemporaryDirectory(prefix="ironlaw-build-") as name:
        root = Path(name)
        write_source(lab, root)
        config = settings(root, lab)
        config.GenerateAssignment.no_database = True
        config.GenerateAssignment.preprocessors = [
            f"nbgrader.preprocessors.{step}"
            for step in ("LockCells", "ClearSolutions", "ClearOutput", "CheckCellMetadata",
                         "ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums",
                         "CheckCellMetadata")
        ]
        generate(lab, config)
        made = nbformat.read(root / "release" / lab.name / f"{lab.name}.ipynb", as_version=4)
    return _as_shipped(made, lab)


def write_source(lab: Lab, root: Path) -> None:
    """Put the lab's full source where nbgrader looks for it under `root`."""
    path = root / "source" / lab.name / f"{lab.name}.ipynb"
    notebook.write_if_changed(path, notebook.text(copy.deepcopy(lab.source)))


def write_plain(course: Course, folder: Path) -> list[Path]:
    """A tree in which nbgrader grades every lab by itself; the files that were written.

    It holds the solutions. `InputError` where it would lie in the checkout, or where other
    settings of nbgrader lie already.
    """
    root, file = folder.resolve(), folder.resolve() / "nbgrader_config.py"
    if root.is_relative_to(course.root) or (root.exists() and not root.is_dir()):
        raise InputError("plain", str(folder), "a folder outside the course's checkout")
    if file.exists() and file.read_text(encoding="utf-8") != PLAIN_SETTINGS:
        raise InputError("plain", str(folder), f"a folder without a {file.name} of its own",
                         "Name a new one; nothing was written.")
    for lab in labs(course):
        write_source(lab, root)
    notebook.write_if_changed(file, PLAIN_SETTINGS)
    return [file, *sorted(root.glob("source/*/*.ipynb"))]


def generate(lab: Lab, config: Config) -> None:
    """Run nbgrader's `generate_assignment` for one lab; errors become `BuildError`."""
    log = logging.getLogger("ironlaw_autograder.nbgrader")
    log.setLevel(logging.CRITICAL)
    course = CourseDirectory(config=config)
    converter = GenerateAssignment(coursedir=course, config=config, log=log)
    converter.force = True
    try:
        converter.start()
    except Exception as problem:
        raise BuildError(f"nbgrader cannot derive {lab.name}: {problem}") from problem


def template(lab: Lab, student: NotebookNode | None = None) -> NotebookNode:
    """What grading restores from: the student's notebook with hidden tests and rubrics kept."""
    shipped = {label(cell)["grade_id"]: cell
               for cell in (student if student is not None else release(lab)).cells}
    made = copy.deepcopy(lab.source)
    for cell in made.cells:
        name = label(cell)["grade_id"]
        if name in shipped:
            cell.metadata = copy.deepcopy(shipped[name].metadata)
        if not label(cell)["locked"]:
            cell.source = shipped[name].source
    return made


def _as_shipped(made: NotebookNode, lab: Lab) -> NotebookNode:
    notebook.clean(made)
    # A cell that held nothing but a rubric is empty now; grading puts it back.
    made.cells = [cell for cell in made.cells if cell.source.strip()]
    for cell in made.cells:
        kept = {key: cell.metadata[key] for key in _KEPT if key in cell.metadata}
        cell.metadata = nbformat.from_dict(kept)
        cell["id"] = label(cell)["grade_id"]
    made.metadata[stamp.KEY] = stamp.of(lab.name, made.cells, lab.salt).to_metadata()
    return made


def labs(course: Course) -> list[Lab]:
    """Every lab of the course: those written in `solutions/`, and the self-checks."""
    written = [lab_source.read(path) for path in course.lab_sources()]
    return [*written, *selfcheck_lab.labs(course.salt)]


def outputs(course: Course) -> dict[Path, str]:
    """Every derived lab notebook and the text it must hold."""
    return {course.labs / lab.name / f"{lab.name}.ipynb": notebook.text(release(lab))
            for lab in labs(course)}
