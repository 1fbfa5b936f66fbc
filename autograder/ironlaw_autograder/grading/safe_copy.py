"""The two places where student text is made harmless: as it is stored, and as it is shown.

The file that was handed in, and nbgrader's own copy of it in `submitted/`, stay as they are.
"""

from __future__ import annotations

import html
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from ..build.lab_source import label
from . import markup

# What a page may show of an output; everything else either runs or is never made by grading.
_SHOWN = ("text/plain", "text/html", "text/markdown", "image/png", "image/jpeg")
_NAMES = ("student", "first_name", "last_name", "notebook_path")


class SafeCopy(NbGraderPreprocessor):
    """The last step of grading: in the graded copy, student text is text and nothing else."""

    def preprocess(self, nb: NotebookNode,
                   resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """One graded notebook, fit to be opened."""
        nb.metadata.pop("widgets", None)
        room = markup.MOST_SHOWN
        for cell in nb.cells:
            cell.pop("attachments", None)
            if cell.cell_type == "code":
                cell.source = markup.shortened(cell.source, markup.LONGEST_CODE)
                for output in cell.outputs:
                    room -= len(output.get("data", {}).get("text/markdown", ""))
                    _store(output, room >= 0)
            elif label(cell).get("locked") is not True:
                cell.source = markup.as_text(cell.source)
        return nb, resources


class SafePage(NbGraderPreprocessor):
    """The first step of showing a notebook, also one that was stored by other hands."""

    def preprocess(self, nb: NotebookNode,
                   resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Outputs of harmless kinds, sanitised; names as text."""
        nb.metadata.pop("widgets", None)
        for cell in nb.cells:
            cell.pop("attachments", None)
            cell.metadata.pop("tags", None)
            for output in cell.get("outputs", ()):
                if "data" in output:
                    output.data = NotebookNode(
                        {kind: markup.cleaned(text, links=False) if kind == "text/html" else text
                         for kind, text in output.data.items() if kind in _SHOWN})
                    output.metadata = NotebookNode()
        for name in _NAMES:
            if isinstance(resources.get(name), str):
                resources[name] = html.escape(resources[name])
        return nb, resources


def _store(output: NotebookNode, rendered: bool) -> None:
    """Make an output as the graded copy keeps it; HTML is the judge's own, and escaped by it.

    Markdown that must not be `rendered` leaves a word of its absence.
    """
    if "data" in output:
        data = {kind: text for kind, text in output.data.items() if kind in _SHOWN}
        if "text/markdown" in data and rendered:
            data["text/markdown"] = markup.as_text(data["text/markdown"])
        elif "text/markdown" in data:
            data = {"text/plain": "[Left out: the outputs of this notebook hold more than "
                                  f"{markup.MOST_SHOWN:,} characters of Markdown.]"}
        output.data, output.metadata = NotebookNode(data), NotebookNode()
