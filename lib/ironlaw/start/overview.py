"""What the first page says: one row per chapter, read from the learner's state and files.

Nothing here is typed in: chapters and labs are those that the course ships, and a lab's state
comes from its answer cells.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import course, workspace
from ..errors import UnavailableError
from ..selfcheck import record
from ..selfcheck.text import to_html, to_plain
from . import answers
from .marks import is_read

# Which labs measure what a chapter teaches.
LABS_OF = {1: (1,), 2: (2, 3), 3: (4,), 4: (5,), 5: (6, 7, 8), 6: (9,), 8: (10,)}
LAB_NOTE = (
    "The column *Lab* counts the answer cells that you have changed in your copy of a lab; the "
    "same goes for a notebook to hand in. It shows no points, nor whether an answer is right: for "
    "that, run the checks in the lab itself. Points come from whoever grades what you hand in.")
_CHAPTER = re.compile(r"chapters/(\d\d)_\w+\.ipynb")
_HAND_IN = re.compile(r"labs/selfcheck_(\d\d)/selfcheck_\d\d\.ipynb")
_LAB = re.compile(r"labs/lab_(\d\d)_\w+/lab_\d\d_\w+\.ipynb")


@dataclass(frozen=True)
class Entry:
    """A notebook of the course: its title, a link from the first page, a state in words."""

    title: str
    link: str
    state: str = ""


@dataclass(frozen=True)
class Row:
    """One chapter: the notebook, whether it is marked as read, its self-check and its labs."""

    number: int
    chapter: Entry
    read: bool
    selfcheck: str
    hand_in: Entry | None
    labs: tuple[Entry, ...]


@dataclass(frozen=True)
class Overview:
    """The whole table, and the sections of the question bank that have no chapter yet."""

    rows: tuple[Row, ...]
    unwritten: tuple[int, ...]

    def notes(self) -> list[str]:
        """What the table cannot say by itself: which chapters exist, what a lab's state means."""
        here = written([row.number for row in self.rows])
        told = [f"{here} {unwritten(self.unwritten)}".strip()]
        if any(row.labs for row in self.rows):
            told.append(LAB_NOTE)
        return [line for line in told if line]

    def __str__(self) -> str:
        lines = [f"{row.chapter.title}: {_mark(row.read)}; self-check {row.selfcheck}; "
                 + (", ".join(f"{lab.title} {lab.state}" for lab in row.labs) or "no lab yet")
                 for row in self.rows]
        return "\n".join([*lines, *map(to_plain, self.notes())])

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th scope='row' style='text-align:left'>{_linked(row.chapter)}</th>"
            f"<td style='text-align:left'>{_mark(row.read)}</td>"
            f"<td style='text-align:left'>{_questions(row)}</td>"
            f"<td style='text-align:left'>{_labs(row.labs)}</td></tr>" for row in self.rows)
        heads = "".join(f"<th scope='col' style='text-align:left'>{name}</th>"
                        for name in ("Chapter", "Read", "Self-check", "Lab"))
        return ("<table><caption>Where you stand</caption>"
                f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
                + "".join(f"<p>{to_html(line)}</p>" for line in self.notes()))


def overview(folder: Path | None = None) -> Overview:
    """The table as things stand; `folder` is where this page lies (default: the kernel's)."""
    here = folder or Path.cwd()
    try:
        root = course.source()
    except UnavailableError:
        return Overview((), ())
    names = course.shipped(root)
    marks = workspace.get("read")
    progress = {p.section: p for p in record.chapters()}
    chapters = {int(m[1]): name for name in names
                if (m := _CHAPTER.fullmatch(name)) and int(m[1]) > 0}
    labs = {int(m[1]): name for name in names if (m := _LAB.fullmatch(name))}
    hand_ins = {int(m[1]): name for name in names if (m := _HAND_IN.fullmatch(name))}
    rows = []
    for number, name in sorted(chapters.items()):
        questions = progress.get(number)
        rows.append(Row(
            number=number,
            chapter=Entry(title(root / name), Path(name).name),
            read=is_read(marks, number),
            selfcheck=_answered(questions) if questions else "no questions yet",
            hand_in=_lab(root, hand_ins[number], here) if number in hand_ins else None,
            labs=tuple(_lab(root, labs[n], here) for n in LABS_OF.get(number, ()) if n in labs)))
    return Overview(tuple(rows), tuple(s for s in progress if s not in chapters))


def written(chapters: Sequence[int]) -> str:
    """A sentence on the chapters that there are, or nothing."""
    if not chapters:
        return ""
    be = "is" if len(chapters) == 1 else "are"
    return f"{_named(chapters)} {be} here to read."


def unwritten(sections: Iterable[int]) -> str:
    """A sentence on chapters that do not exist yet, or nothing."""
    numbers = sorted(sections)
    if not numbers:
        return ""
    be, its = ("is", "Its") if len(numbers) == 1 else ("are", "Their")
    run = f'from ironlaw import selfcheck; selfcheck.show("{numbers[0]}")'
    return (f"{_named(numbers)} {be} not written yet. {its} self-check questions are there "
            f"already: run `{run}`, for instance.")


def title(notebook: Path) -> str:
    """A notebook's first heading, or its file name."""
    for cell in answers.cells(notebook):
        for line in answers.source(cell).splitlines():
            if cell.get("cell_type") == "markdown" and line.startswith("# "):
                return line[2:].strip()
    return notebook.stem


def _named(chapters: Sequence[int]) -> str:
    """Chapter 3; Chapters 1 and 2; Chapters 3 to 8; Chapters 2, 4 and 6."""
    first, last = chapters[0], chapters[-1]
    if len(chapters) == 1:
        return f"Chapter {first}"
    if len(chapters) > 2 and list(chapters) == list(range(first, last + 1)):
        return f"Chapters {first} to {last}"
    return f"Chapters {', '.join(map(str, chapters[:-1]))} and {last}"


def _lab(root: Path, name: str, here: Path) -> Entry:
    # The working copy keeps the course's own layout: chapters/ and labs/ side by side.
    places = [here.parent / name, here / name, here / Path(name).name]
    mine = next((p for p in places if p.is_file()), places[0])
    return Entry(title(root / name), f"../{name}", answers.state(mine))


def _questions(row: Row) -> str:
    """The self-check's cell: the cards answered, then the notebook for a course that grades."""
    said = html.escape(row.selfcheck)
    if row.hand_in is None:
        return said
    link = _linked(Entry("Notebook to hand in", row.hand_in.link))
    return f"{said}<br>{link}: {html.escape(row.hand_in.state)}"


def _answered(found: record.ChapterProgress) -> str:
    if not found.answered:
        return f"0 of {found.total} answered"
    return (f"{found.answered} of {found.total} answered, {found.right} right, "
            f"{found.points:g} of {found.out_of} points")


def _labs(labs: tuple[Entry, ...]) -> str:
    return "<br>".join(f"{_linked(lab)}: {html.escape(lab.state)}" for lab in labs) or "no lab yet"


def _linked(entry: Entry) -> str:
    return f"<a href='{html.escape(entry.link)}'>{html.escape(entry.title)}</a>"


def _mark(read: bool) -> str:
    return "● read" if read else "○ not yet"
