"""One submission in, one judged notebook out: what a worker does, on plain data alone.

A worker may be this process, a process beside it, or one on another machine. It never
touches the gradebook: the grader that asked writes down what it answers.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import ironlaw
import nbformat
from ironlaw.errors import choice
from nbformat import NotebookNode, v4

from .. import __version__
from ..build import labs, stamp
from ..build.lab_source import Lab, is_answer, label
from ..course import Course
from ..intake import versions
from ..judge.engine import Engine, Score
from ..judge.limits import Limits
from ..judge.restore import restore
from ..judge.shipped import Shipped
from ..simulate.submissions import Desk
from ..variants.verdict import mismatches
from . import checklist, contents

# What can change an outcome: the judge, its tests and records, and the learner's package.
_JUDGING = ("judge", "records", "variants", "build", "grading/work.py", "grading/checklist.py",
            "grading/contents.py", "intake/versions.py", "simulate/submissions.py", "__init__.py")
_SOURCES = frozenset((".py", ".toml", ".csv"))


@dataclass(frozen=True)
class Task:
    """One submission to judge; `notebook` is the JSON text of what intake read."""

    student: str
    lab: str
    notebook: str

    @classmethod
    def of(cls, student: str, lab: str, notebook: NotebookNode) -> Task:
        """The task for one read notebook: the same text whenever the same file is read."""
        data = json.loads(json.dumps(notebook))
        for place, cell in enumerate(data["cells"]):
            cell["id"] = f"cell-{place}"  # a reader gives random ones
        return cls(student, lab, json.dumps(data, sort_keys=True))

    def node(self) -> NotebookNode:
        """The submission as a notebook."""
        return nbformat.from_dict(json.loads(self.notebook))

    def to_json(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Task:
        """The task that `to_json` described."""
        return cls(**{f.name: str(data[f.name]) for f in fields(cls)})


@dataclass
class Outcome:
    """What judging one submission gave.

    `notebook` is the JSON text of the restored, executed and judged notebook; `restored`
    says what was put right, `events` what happened on the way. When the grader itself failed,
    `problem` says how, and there is no notebook and no score.
    """

    student: str
    notebook: str
    scores: list[Score] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    seconds: float = 0.0
    problem: str = ""

    def node(self) -> NotebookNode:
        """The judged notebook."""
        return nbformat.from_dict(json.loads(self.notebook))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """The outcome that `to_json` described."""
        made = cls(**{f.name: data[f.name] for f in fields(cls)})
        made.scores = [Score(**score) for score in data["scores"]]
        return made


class Marking:
    """Everything that grading one lab needs, made once per process."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        shipped = labs.release(lab)
        self.template = labs.template(lab, shipped)
        self.stamp = stamp.read(shipped.metadata)
        self.shipped = Shipped({label(cell)["grade_id"]: cell for cell in shipped.cells},
                               contents.numbers(self.template.cells))
        self.stubs = {label(cell)["grade_id"]: cell.source for cell in self.template.cells
                      if is_answer(cell)}
        self._sound: frozenset[str] | None = None

    def sound(self, engine: Engine, check: str) -> bool:
        """Whether the lab's own answers earn everything in `check`; they run at the first call."""
        if self._sound is None:
            made = restore(self.template, Desk(self.lab).reference())
            scores = engine.grade(made.notebook, self.stubs, self.lab.blocked).scores
            self._sound = frozenset(s.grade_id for s in scores if s.points == s.maximum)
        return check in self._sound

    @functools.cached_property
    def digest(self) -> str:
        """Changes with everything that decides a grade: tests, template, judge and packages.

        Two machines with the same digest give the same submission the same grade.
        """
        parts = {"template": self.template, "blocked": self.lab.blocked, "code": fingerprint()}
        return _hash(json.dumps(parts, sort_keys=True).encode())


class Worker:
    """Judges one submission after another; close it when done.

    `slot` is the sandbox's place on this machine (None: a free one is taken).
    """

    def __init__(self, course: Course, lab: str, limits: Limits | None = None, *,
                 isolated: bool = True, slot: int | None = None) -> None:
        self._marking = marking(course, lab)
        self._engine = Engine(limits, slot, isolated=isolated)

    def grade(self, task: Task) -> Outcome:
        """The outcome of one task; a failure of the grader's own is an outcome too.

        It is tried twice: a machine that is short of everything may fail to start a sandbox.
        """
        start = time.monotonic()
        for _ in range(2):
            try:
                made = judged(self._marking, self._engine, task)
                break
            except Exception as problem:  # one submission must never stop the others
                made = failed(task, f"{type(problem).__name__}: {problem}",
                              traceback.format_exc()[-3_000:])
        made.seconds = round(time.monotonic() - start, 2)
        return made

    def close(self) -> None:
        """End the judge's process and give the slot back."""
        self._engine.close()


def judged(marking: Marking, engine: Engine, task: Task) -> Outcome:
    """One submission restored, run in the sandbox, and every question judged."""
    submitted = task.node()
    said = stamp.read(submitted.metadata)
    new = versions.new_cells(marking.template, submitted, said, marking.stamp)
    restored = restore(marking.template, submitted, new, shipped=marking.shipped,
                       same=versions.same(said, marking.stamp))
    graded = engine.grade(restored.notebook, marking.stubs, marking.lab.blocked, task.student,
                          sound=lambda check: marking.sound(engine, check))
    scores = versions.waiting(graded.scores, new)
    notes = restored.notes + mismatches(note for s in scores for note in s.notes)
    checklist.fill(graded.notebook)
    graded.notebook.cells.insert(0, _report(scores, notes))
    return Outcome(task.student, json.dumps(graded.notebook), scores, notes, graded.events)


def failed(task: Task, reason: str, detail: str = "") -> Outcome:
    """The outcome of a task that could not be judged: no score, and the reason."""
    return Outcome(task.student, "", events=[detail] if detail else [],
                   problem=f"could not be graded: {reason}")


_markings: dict[tuple[Course, str], Marking] = {}


def use_marking(course: Course, made: Marking) -> None:
    """Have `made` at hand for its lab, here and in every process forked from here."""
    _markings[course, made.lab.name] = made


def marking(course: Course, name: str) -> Marking:
    """What grading the lab `name` needs, made at the first call."""
    key = (course, name)
    if key not in _markings:
        known = {lab.name: lab for lab in labs.labs(course)}
        _markings[key] = Marking(known[choice("lab", name, known)])
    return _markings[key]


@functools.cache
def fingerprint() -> str:
    """A digest of the code that judges: the autograder's, and the learner's package."""
    here = Path(__file__).parents[1]
    roots = [Path(ironlaw.__file__).parent, *(here / part for part in _JUDGING)]
    found = hashlib.sha256(__version__.encode())
    for root in roots:
        inside = sorted(p for p in root.rglob("*") if p.suffix in _SOURCES) or [root]
        for path in inside:
            found.update(path.relative_to(root.parent).as_posix().encode())
            found.update(_hash(path.read_bytes()).encode())
    return found.hexdigest()


def key(task: Task, digest: str, limits: Limits, isolated: bool) -> str:
    """What an outcome depends on, as one digest; `digest` is the marking's."""
    parts = [task.to_json(), digest, asdict(limits), isolated]
    return _hash(json.dumps(parts, sort_keys=True).encode())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _report(scores: list[Score], notes: list[str]) -> NotebookNode:
    """The first cell of what the student gets back."""
    earned = sum(s.points for s in scores if s.points is not None)
    waiting = sum(s.maximum for s in scores if s.points is None)
    lines = [contents.summary(earned, sum(s.maximum for s in scores), waiting)]
    lines += [f"- {note}" for note in notes]
    cell = v4.new_markdown_cell("\n\n".join([lines[0], "\n".join(lines[1:])]).strip())
    cell["id"] = contents.SUMMARY
    return cell
