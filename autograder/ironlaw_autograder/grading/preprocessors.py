"""The two steps that replace nbgrader's own execution, usable from any nbgrader front end.

`JudgeNotebook` restores and grades a submission in isolation; `SaveGrades` keeps the
scores, a question that could not be judged waiting for a person instead of scoring 0.
"""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode, v4
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Unicode

from ..build import labs
from ..build.lab_source import Lab, is_answer, label
from ..course import Course, find
from ..judge.engine import Engine, Graded
from ..judge.restore import restore
from ..variants.verdict import mismatches
from . import checklist


class Marking:
    """Everything that grading one lab needs, made once per process."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.template = labs.template(lab)
        self.stubs = {label(cell)["grade_id"]: cell.source for cell in self.template.cells
                      if is_answer(cell)}


_engines: list[Engine] = []
_markings: dict[tuple[str, str], Marking] = {}
last: dict[str, Any] = {}


def use_engine(engine: Engine) -> None:
    """Grade with `engine` from now on in this process."""
    _engines[:] = [engine]


def use_marking(course: Course, marking: Marking) -> None:
    """Have `marking` at hand for its lab."""
    _markings[str(course.root), marking.lab.name] = marking


def _engine() -> Engine:
    if not _engines:
        _engines.append(Engine())
    return _engines[0]


def _marking(root: str, name: str) -> Marking:
    key = (root, name)
    if key not in _markings:
        course = find(root or None)
        lab = next(lab for lab in labs.labs(course) if lab.name == name)
        _markings[key] = Marking(lab)
    return _markings[key]


class JudgeNotebook(NbGraderPreprocessor):
    """Restore the notebook's shape, run it in the sandbox and judge every question."""

    course_root = Unicode("", help="the checkout that holds solutions/").tag(config=True)

    def preprocess(self, nb: NotebookNode,
                   resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """One restored and executed notebook, its outcome in `resources["ironlaw"]`."""
        marking = _marking(self.course_root, resources["nbgrader"]["assignment"])
        restored = restore(marking.template, nb)
        graded = _engine().grade(restored.notebook, marking.stubs, marking.lab.blocked,
                                 resources["nbgrader"]["student"])
        restored.notes += mismatches(note for s in graded.scores for note in s.notes)
        checklist.fill(graded.notebook)
        graded.notebook.cells.insert(0, _report(graded, restored.notes))
        resources["ironlaw"] = graded
        last.clear()
        last.update(graded=graded, notes=restored.notes)
        return graded.notebook, resources


class SaveGrades(SaveAutoGrades):
    """nbgrader's own saving, and a person's turn where the judge could not decide."""

    def _add_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        super()._add_score(cell, resources)
        name = cell.metadata["nbgrader"]["grade_id"]
        graded: Graded = resources["ironlaw"]
        score = next(s for s in graded.scores if s.grade_id == name)
        if score.points is None:
            grade = self.gradebook.find_grade(name, self.notebook_id, self.assignment_id,
                                              self.student_id)
            grade.auto_score = None
            grade.needs_manual_grade = True
            self.gradebook.db.commit()


def _report(graded: Graded, notes: list[str]) -> NotebookNode:
    """The first cell of what the student gets back."""
    earned = sum(s.points for s in graded.scores if s.points is not None)
    waiting = sum(s.maximum for s in graded.scores if s.points is None)
    lines = [f"**Graded: {earned:g} of {sum(s.maximum for s in graded.scores):g} points"
             + (f", and up to {waiting:g} more wait for a person.**" if waiting else ".**")]
    lines += [f"- {note}" for note in notes]
    cell = v4.new_markdown_cell("\n\n".join([lines[0], "\n".join(lines[1:])]).strip())
    cell["id"] = "graded"
    return cell
