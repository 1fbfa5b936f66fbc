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
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ironlaw.errors import InputError
from nbformat import NotebookNode

from ..build.lab_source import is_answer, label
from .work import Outcome

_PATIENCE_SECONDS = 3.0  # the workers of a grader that was killed follow it in a moment


@dataclass(frozen=True)
class Written:
    """What the gradebook holds of one student: which outcome, and the answers it was for.

    `key` is the outcome's; `answers` maps each graded cell to a digest of the answer cells
    that it judges; `place` says which gradebook it is.
    """

    key: str
    answers: dict[str, str]
    place: str = ""


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
        """What was last written to the gradebook in full, or None."""
        data = self._read("written", student)
        try:
            return Written(data["key"], dict(data["answers"]), str(data["place"])) if data else None
        except (KeyError, TypeError, ValueError):
            return None

    def wrote(self, student: str, written: Written) -> None:
        """Note that the gradebook now holds this; called after its last commit."""
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
    root.mkdir(parents=True, exist_ok=True)
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
