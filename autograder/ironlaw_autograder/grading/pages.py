"""Feedback pages that are safe to open, fetch nothing, and call the questions by name."""

from __future__ import annotations

from typing import Any

from jinja2 import pass_context
from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades

from ..build.lab_source import label
from . import contents, markup
from .compiled import QuickHTMLExporter


class Marks(GetGrades):
    """nbgrader's scores and comments beside each cell, and a first line that holds today.

    The notebook's own first line is from the day when it was judged; since then a person may
    have marked what was waiting.
    """

    def preprocess(self, nb: NotebookNode,
                   resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """The notebook with scores, comments and the first line made afresh."""
        self._waiting = self._doubtful = 0.0
        nb, resources = super().preprocess(nb, resources)
        found = resources["nbgrader"]
        found["score"] = max(0.0, found["score"] - self._doubtful)
        line = contents.summary(found["score"], found["max_score"], self._waiting,
                                found["late_penalty"])
        for cell in nb.cells:
            if cell.get("id") == contents.SUMMARY and not label(cell):
                _, *rest = cell.source.partition("\n")
                cell.source = "".join([line, *rest])
        return nb, resources

    def _get_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        grade = self.gradebook.find_grade(label(cell)["grade_id"], self.notebook_id,
                                          self.assignment_id, self.student_id)
        cell.metadata.nbgrader["score"] = grade.score
        cell.metadata.nbgrader["points"] = grade.max_score
        if grade.needs_manual_grade:  # a mark that is there was given for an earlier answer
            cell.metadata.nbgrader["score"] = 0.0
            self._waiting += grade.max_score
            self._doubtful += grade.score or 0.0


class FeedbackPage(QuickHTMLExporter):
    """nbgrader's feedback page; Markdown is cleaned, whoever wrote it, and no script is left."""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Markdown as cleaned HTML, every hint open: a page may be printed."""
        return markup.rendered(source).replace("<details>", "<details open>")

    def from_notebook_node(self, nb: Any, resources: Any = None, **options: Any) -> Any:
        """The page, with named contents."""
        page, found = super().from_notebook_node(nb, resources, **options)
        return contents.named(page, nb.cells), found
