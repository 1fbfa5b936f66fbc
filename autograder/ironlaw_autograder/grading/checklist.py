"""A helping hand for whoever marks written answers: which expected words an answer holds.

A rubric line may end in a note, invisible in a notebook, that lists terms. In the graded
notebook the note becomes a line of ticks. It is there to find one's way in an answer; no
point depends on it, since a good answer can use other words and a poor one the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ironlaw.selfcheck.reading import unaccented
from nbformat import NotebookNode

from ..build.lab_source import label

_NOTE = re.compile(r"<!-- terms: (.*?) -->")
_SEPARATOR = "; "


def note(terms: Iterable[str]) -> str:
    """The invisible note for these terms; alternatives of one term are parted by "|"."""
    listed = list(terms)
    return f"<!-- terms: {_SEPARATOR.join(listed)} -->" if listed else ""


def fill(notebook: NotebookNode) -> None:
    """Turn the notes of every marking scheme into ticks for the written answer above it."""
    answer = ""
    for cell in notebook.cells:
        meta = label(cell)
        if meta.get("grade") and meta.get("solution") and cell.cell_type == "markdown":
            answer = cell.source
        elif cell.cell_type == "markdown" and "BEGIN MARK SCHEME" in cell.source:
            cell.source = ticked(cell.source, answer)


def ticked(scheme: str, answer: str) -> str:
    """A marking scheme with its notes turned into ticks."""
    return _NOTE.sub(lambda found: ticks(found[1].split(_SEPARATOR), answer), scheme)


def ticks(terms: Iterable[str], answer: str) -> str:
    """The terms with a mark for each: found in the answer, or not."""
    marked = [f"{'☑' if holds(answer, term) else '☐'} {term.replace('|', ' / ')}"
              for term in terms]
    return "(words found, no points: " + ", ".join(marked) + ")"


def holds(answer: str, term: str) -> bool:
    """Whether a word of the answer begins with one of the term's alternatives."""
    text = _plain(answer)
    return any(re.search(rf"(?<![\w.]){re.escape(_plain(word))}", text)
               for word in term.split("|") if word.strip())


def _plain(text: str) -> str:
    """Case, accents, hyphens and line breaks do not count."""
    return " ".join(re.sub(r"[‐‑‒–-]", " ", unaccented(text)).split())
