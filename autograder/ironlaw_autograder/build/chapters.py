"""Chapters: `chapters/NAME.md` (jupytext Markdown) to `chapters/NAME.ipynb` beside it.

A new cell begins at every heading and after two blank lines. Only ```` ```python ````
blocks become code; a shell example is written ```` ```bash .noeval ````, which every
Markdown reader shows as shell and jupytext leaves alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import jupytext
import nbformat
from ironlaw.errors import InputError

from ..course import Course
from . import notebook

# jupytext's own front matter carries versions, which would change without the text changing.
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_KEPT = ("tags", "jupyter")
_FORMAT = {"extension": ".md", "format_name": "markdown", "split_at_heading": True}


def convert(source: str, name: str) -> str:
    """The notebook text that `source` stands for; `name` is used in messages."""
    body = _FRONT_MATTER.sub("", source.replace("\r\n", "\n"), count=1)
    made = notebook.clean(jupytext.reads(body, fmt=dict(_FORMAT)))
    for cell in made.cells:
        kept = {key: cell.metadata[key] for key in _KEPT if key in cell.metadata}
        cell.metadata = nbformat.from_dict(kept)
        if cell.cell_type == "code" and cell.source.startswith("%%"):
            first = cell.source.splitlines()[0]
            shown = f"```{first[2:].split()[0]} .noeval"
            raise InputError(name, first, "Markdown whose only executable blocks are Python",
                             f"Open the block with {shown} so that it is shown and not run.")
    made.cells = [cell for cell in made.cells if cell.source.strip()]
    notebook.ids_by_heading(made.cells)
    return notebook.text(made)


def outputs(course: Course) -> dict[Path, str]:
    """Every derived chapter notebook and the text it must hold."""
    return {
        source.with_suffix(".ipynb"): convert(source.read_text(encoding="utf-8"), source.name)
        for source in course.chapter_sources()
    }
