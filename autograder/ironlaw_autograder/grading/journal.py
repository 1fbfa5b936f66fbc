"""What has been judged and written down so far, on disk: a grader that was killed goes on here.

For each student of a lab there is one file with the latest outcome, found again by what the
outcome depends on, and one that says what the gradebook holds. Both are replaced whole, so
that a grader killed at any moment leaves the old one or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ironlaw.errors import InputError
from nbformat import NotebookNode

from ..build.lab_source import is_answer, label
from .work import Outcome

_PATIENCE_SECONDS = 3.0  # the workers of a grader that was killed follow it in a moment


_WITHHELD = "withheld: "  # no digest begins like this


@dataclass(frozen=True)
class ByHand:
    """What a person gave for one question, and the machine's points and the wait beside it."""

    points: float | None
    extra: float | None
    machine: float | None
    waits: bool


@dataclass(frozen=True)
class Written:
    """What the gradebook holds of one student: which outcome, and the answers it was for.

    `key` is the outcome's, or says why there is none, or is empty where the gradebook may hold
    something else by now. `answers` maps each graded cell to a digest of the answer cells that
    it judges, as they were judged last; `place` says which gradebook it is. `aside` are marks
    that a person gave for these answers and that do not count while the answers are not there.
    """

    key: str
    answers: dict[str, str]
    place: str = ""
    aside: dict[str, ByHand] = field(default_factory=dict)

    @property
    def withheld(self) -> bool:
        """Whether the gradebook holds no outcome, though something was handed in."""
        return self.key.startswith(_WITHHELD)

    def changed(self, answers: Mapping[str, str]) -> set[str]:
        """The graded cells whose answer is another than at the last time."""
        return {name for name, digest in answers.items() if self.answers.get(name) != digest}

    def doubted(self, changed: set[str]) -> Written:
        """The record while other answers to `changed` are on their way into the gradebook: it is
        never equal to what is to be written, and takes neither answer for unchanged."""
        return replace(self, key="", answers={name: digest for name, digest in self.answers.items()
                                              if name not in changed})

    def set_aside(self, given: Mapping[str, ByHand]) -> Written:
        """The record before the marks `given` leave the gradebook.

        What was given while no outcome was there is not for these answers: it waits.
        """
        aside = dict(self.aside)
        for name, mark in given.items():
            known = aside.get(name)
            if known is None or (known.points, known.extra) != (mark.points, mark.extra):
                aside[name] = replace(mark, waits=mark.waits or self.withheld)
        return replace(self, key="", aside=aside)


def withheld(why: str) -> str:
    """The key of a record that holds no outcome, for this reason."""
    return _WITHHELD + why


class Journal:
    """The journal of one lab under `root`, the folder of the gradebook."""

    def __init__(self, root: Path, lab: str) -> None:
        self._folder = root / "journal" / lab

    def outcome(self, student: str, key: str) -> Outcome | None:
        """The outcome that was kept under this key, or None."""
        data = self._read("outcomes", student)
        if data is None or data.get("key") != key:
            return None
        try:
            return Outcome.from_json(data["outcome"])
        except (KeyError, TypeError, AttributeError):  # another version wrote it
            return None

    def keep(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome; a failure of the grader's own is not kept, but tried again."""
        if not outcome.problem:
            self._write("outcomes", outcome.student, {"key": key, "outcome": outcome.to_json()})

    def written(self, student: str) -> Written | None:
        """What was last written to the gradebook, or None."""
        data = self._read("written", student)
        try:
            if data is None:
                return None
            # Without `aside` it is of a version that did not note when a grade was withdrawn.
            return Written(str(data["key"]) if "aside" in data else "", dict(data["answers"]),
                           str(data["place"]), {name: ByHand(**mark) for name, mark
                                                in data.get("aside", {}).items()})
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def wrote(self, student: str, written: Written) -> None:
        """Note that the gradebook now holds this, after its last commit; and before the next
        one, that it may soon hold something else (an empty key)."""
        self._write("written", student, asdict(written))

    def _path(self, kind: str, student: str) -> Path:
        # Ids hold what a file's name may not, and can be longer.
        return self._folder / kind / f"{hashlib.sha256(student.encode()).hexdigest()[:32]}.json"

    def _read(self, kind: str, student: str) -> dict[str, Any] | None:
        try:
            data = json.loads(self._path(kind, student).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return data if isinstance(data, dict) and data.get("student") == student else None

    def _write(self, kind: str, student: str, data: dict[str, Any]) -> None:
        path = self._path(kind, student)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"student": student, **data}, file)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


@contextlib.contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Hold `root` for this grader alone; a second one is refused while the first works."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError("out", str(root), "a folder that can be made",
                         f"The system says: {problem.strerror}. Name another place with --out."
                         ) from problem
    if sys.platform == "win32":
        yield
        return
    import fcntl  # not on Windows

    with open(root / "journal.lock", "w", encoding="utf-8") as file:
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise InputError("out", str(root), "a folder that no other grader writes to",
                                     "Wait until that one has ended, or name another folder "
                                     "with --out.") from None
                time.sleep(0.05)
            except OSError:  # a file system that knows no locks
                break
        yield


def answers(notebook: NotebookNode) -> dict[str, str]:
    """For each graded cell, a digest of the answers it judges.

    A written answer is its own; a check judges the answers since the check before it, and
    checks that follow each other judge the same ones.
    """
    found: dict[str, str] = {}
    seen: list[str] = []
    judged = False
    for cell in notebook.cells:
        meta = label(cell)
        if is_answer(cell):
            if judged:
                seen, judged = [], False
            seen.append(cell.source)
        if meta.get("grade"):
            judged = True
            text = json.dumps([cell.source] if meta.get("solution") else seen).encode()
            found[str(meta["grade_id"])] = hashlib.sha256(text).hexdigest()
    return found
