"""The two steps that replace nbgrader's own execution, usable from any nbgrader front end.

`JudgeNotebook` puts the judged notebook in the place of the submitted one; `SaveGrades` keeps
the scores, a question that could not be judged waiting for a person instead of scoring 0.
"""

from __future__ import annotations

from typing import Any

from ironlaw.selfcheck import variants
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Unicode

from ..course import find
from .work import Marking, Outcome, Task, Worker

__all__ = ["JudgeNotebook", "Marking", "SaveGrades"]


class Ready:
    """Outcomes that are at hand for the next conversion, by student, and the marks to keep."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.changed: dict[str, set[str]] = {}


ready = Ready()
_workers: dict[tuple[str, str, str], Worker] = {}


class JudgeNotebook(NbGraderPreprocessor):
    """The judged notebook: from the outcome at hand, or restored, run and judged here and now."""

    course_root = Unicode("", help="the checkout that holds solutions/").tag(config=True)
    salt = Unicode(variants.SALT, help="from which a class's own figures are drawn").tag(
        config=True)

    def preprocess(self, nb: NotebookNode,
                   resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """One restored and executed notebook, its outcome in `resources["ironlaw"]`."""
        where = resources["nbgrader"]
        student = str(where["student"])
        outcome = ready.outcomes.get(student)
        if outcome is None:
            task = Task.of(student, where["assignment"], nb)
            outcome = _worker(self.course_root, self.salt, task.lab).grade(task)
        if outcome.problem:
            raise RuntimeError("\n".join([outcome.problem, *outcome.events]))
        resources["ironlaw"] = outcome
        return outcome.node(), resources


class SaveGrades(SaveAutoGrades):
    """nbgrader's own saving; a person's turn where the judge could not decide, and no other.

    A mark that a person gave stays. nbgrader asks for a second look at it whenever it grades
    again; here only a changed answer, or a changed score of the machine, does.
    """

    def _add_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        name = cell.metadata["nbgrader"]["grade_id"]
        outcome: Outcome = resources["ironlaw"]
        score = next(s for s in outcome.scores if s.grade_id == name)
        grade = self.gradebook.find_grade(name, self.notebook_id, self.assignment_id,
                                          self.student_id)
        marked, waited, before = (grade.manual_score, grade.needs_manual_grade, grade.auto_score)
        super()._add_score(cell, resources)
        changed = ready.changed.get(self.student_id)
        if score.points is None:
            grade.auto_score = None
            grade.needs_manual_grade = True
        if marked is not None and changed is not None and name not in changed:
            grade.needs_manual_grade = bool(waited or before != grade.auto_score)
        self.gradebook.db.commit()


def _worker(root: str, salt: str, lab: str) -> Worker:
    key = (root, salt, lab)
    if key not in _workers:
        _workers[key] = Worker(find(root or None, salt), lab)
    return _workers[key]
