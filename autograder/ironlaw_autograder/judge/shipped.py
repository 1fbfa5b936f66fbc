"""What a notebook holds otherwise than the lab that was handed out, and how a student is told.

A notebook that carries the stamp of today's version is compared with it cell by cell, and each
change is named. Any other may honestly hold another text: there one general line is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode

from ..build.lab_source import label

_FREE = " That cost no points."
_GENERAL = ("Cells that are not the student's to change differed from the version that was graded; "
            f"this version's text, points and order were put in their place.{_FREE}")


@dataclass(frozen=True)
class Shipped:
    """The lab's cells as students got them, and the question that each belongs to, by label."""

    cells: Mapping[str, NotebookNode]
    questions: Mapping[str, str] = field(default_factory=dict)

    def called(self, name: str) -> str:
        """A cell's label with the name of its question, where it has one."""
        question = self.questions.get(name)
        return f"{name} (question {question})" if question else name

    def rewritten(self, name: str, found: NotebookNode) -> bool:
        """Whether text or type differ; white space at the ends of lines and cells is nothing."""
        own = self.cells.get(name)
        if own is None:  # it was not handed out, so nothing can stand under its label
            return True
        return own.cell_type != found.cell_type or _text(own.source) != _text(found.source)

    def repriced(self, name: str, found: NotebookNode) -> bool:
        """Whether a cell says other points than it was handed out with."""
        own = self.cells.get(name)
        return own is not None and _points(label(own)) != _points(label(found))


class Changes:
    """Gathers what was done to the cells of one notebook; `lines` says it.

    Without `shipped` nothing is compared. `same` is whether the notebook says that it is of the
    version at hand; `new` are labels that it cannot have.
    """

    def __init__(self, shipped: Shipped | None, *, same: bool = True,
                 new: Collection[str] = ()) -> None:
        self._shipped = shipped or Shipped({})
        self._compares = shipped is not None
        self._same = same
        self._new = new
        self._moved: list[str] = []
        self._rewritten: list[str] = []
        self._repriced: list[str] = []
        self._missing: list[str] = []
        self._repeated: list[tuple[str, int]] = []

    def called(self, name: str) -> str:
        """What a cell is called in a note."""
        return self._shipped.called(name)

    def order(self, found: Sequence[str], wanted: Sequence[str]) -> None:
        """Note the fewest cells of `found` that must move for the order `wanted`."""
        rank = {name: place for place, name in enumerate(wanted)}
        chains: list[list[str]] = [[]]
        for name in found:
            before = max((c for c in chains if not c or rank[c[-1]] < rank[name]), key=len)
            chains.append([*before, name])
        stays = max(chains, key=len)
        self._moved = [self.called(name) for name in found if name not in stays]

    def locked(self, name: str, found: Sequence[NotebookNode]) -> None:
        """Note how the copies of a locked cell differ from it; one that is right is enough."""
        if len(found) > 1:
            self._repeated.append((self.called(name), len(found)))
        if not self._compares:
            return
        if not found and name in self._shipped.cells and name not in self._new:
            self._missing.append(self.called(name))
        elif found and all(self._shipped.rewritten(name, cell) for cell in found):
            self._rewritten.append(self.called(name))
        self.points(name, found)

    def points(self, name: str, found: Sequence[NotebookNode]) -> None:
        """Note it when no copy of a cell says the points that were handed out."""
        if self._compares and found and all(self._shipped.repriced(name, c) for c in found):
            self._repriced.append(self.called(name))

    def lines(self) -> list[str]:
        """One line for each kind of change, each naming all its cells."""
        if self._same:
            said = _line(self._moved, "{} had been moved; it was put back into its place.",
                         "had been moved", "they were put back into their places.")
            said += _line(self._rewritten, "{} was not as handed out; the lab's own text was put "
                          "back.", "were not as handed out", "the lab's own text was put back.")
            said += _line(self._repriced, "{} said other points than handed out; the lab's own "
                          "points count.", "said other points than handed out",
                          "the lab's own points count.")
            said += _line(self._missing, "{} was missing; it was put back.", "were missing",
                          "they were put back.")
        else:
            changed = self._moved or self._rewritten or self._repriced or self._missing
            said = [_GENERAL] if changed else []
        times = [f"{name}, {count} times" for name, count in self._repeated]
        one = "".join(f"{name} was there {count} times" for name, count in self._repeated)
        return said + _line(times, one + "; one was kept.", "were there more than once",
                            "one of each was kept.")


def _line(names: list[str], one: str, many: str, done: str) -> list[str]:
    """No line, one about the one cell, or one about all of them."""
    if len(names) < 2:
        return [f"The cell {one.format(name)}{_FREE}" for name in names]
    return [f"{len(names)} cells {many} ({'; '.join(names)}): {done}{_FREE}"]


def _text(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.splitlines()).rstrip()


def _points(record: Mapping[str, Any]) -> Any:
    return record.get("points") if record.get("grade") else None
