"""Who handed in what, and which attempt counts: one submission for each student."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ironlaw.errors import choice
from nbformat import NotebookNode

from ..build.stamp import UNKNOWN, Stamp
from . import times
from .archives import stem
from .collect import Candidate, Collection
from .roster import Enrolled, Roster
from .spelling import key, shown, student_name

ATTEMPTS = ("last", "first")
NOTHING = "nothing handed in"
_NAMELESS = ("its name does not say whose it is; rename it to the student's id, or put it into a "
             "folder of that name")


@dataclass(frozen=True)
class Submission:
    """One student's work; `notebook` is None when it cannot be graded, and `problem` says why.

    `student` is '' when nothing says whose it is. `submitted` is None when no time is known.
    `attempt` is the place among the student's attempts, from 1, and `attempts` their number.
    `version` is what the notebook says of the version it was handed out in. `notes` are for
    the instructor: what was renamed, set aside, or is not on the class list.
    """

    student: str
    file: Path
    notebook: NotebookNode | None
    problem: str = ""
    submitted: datetime | None = None
    attempt: int = 1
    attempts: int = 1
    version: Stamp = UNKNOWN
    notes: tuple[str, ...] = ()
    enrolled: Enrolled | None = None
    late: bool = False
    ids: tuple[str, ...] = field(default=())


def settle(found: Collection, lab: str = "", graded: Names[str] = (), *,
           roster: Roster | None = None, attempt: str = "last",
           file_times: bool = False) -> list[Submission]:
    """One submission for each student in `found`, in its order, then who handed in nothing.

    `graded` are the labels by which a notebook shows that it belongs to the lab. `file_times`
    takes the times that files and archives record for the times of handing in.
    """
    choice("attempt", attempt, ATTEMPTS)
    groups: dict[str, list[Candidate]] = {}
    nameless = []
    for candidate in _no_namesakes(found.candidates):
        if candidate.enrolled is None and not candidate.name.student:
            nameless.append(candidate)
            continue
        who = candidate.enrolled.id if candidate.enrolled else candidate.name.student
        groups.setdefault(key(student_name(who)), []).append(candidate)
    made = [_one(group, lab, set(graded), roster, attempt, file_times)
            for group in groups.values()]
    made += [Submission("", Path(*c.parts), None, f"{c.problem}; {_NAMELESS}" if c.problem
                        else _NAMELESS, version=c.stamp) for c in nameless]
    there = {key(s.student) for s in made}
    made += [Submission(student.id, Path(), None, NOTHING, attempt=0, attempts=0, enrolled=student)
             for student in (roster.students if roster else ()) if key(student.id) not in there]
    return made


def _no_namesakes(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Without guesses by name where the platform knows two people of that name."""
    people: dict[str, set[str]] = {}
    for c in candidates:
        if c.enrolled is not None and c.name.platform:
            people.setdefault(c.enrolled.id, set()).add(c.name.student)
    return [replace(c, enrolled=None, by_name=False)
            if c.by_name and c.enrolled and len(people.get(c.enrolled.id, ())) > 1 else c
            for c in candidates]


def _one(group: list[Candidate], lab: str, graded: set[str], roster: Roster | None,
         attempt: str, file_times: bool) -> Submission:
    enrolled = next((c.enrolled for c in group if c.enrolled), None)
    student = enrolled.id if enrolled else student_name(_spelling(group))
    notes = _about_names(group, student, enrolled, roster)
    readable = [c for c in group if c.notebook is not None]
    of_lab = [c for c in readable if c.labels & graded]
    pool = _named_as_the_lab(_distinct(of_lab or readable), lab)
    problem = ""
    if not readable:
        problem = (group[0].problem if len(group) == 1
                   else "; ".join(f"{c.shown}: {c.problem}" for c in group))
        chosen, ordered = group[0], group[:1]
    elif len(pool) > 1 and graded and not of_lab:
        problem = (f"{len(pool)} notebooks were handed in, and none shows that it belongs to "
                   f"this lab: {_listed(pool)}")
        chosen, ordered = pool[0], pool
    else:
        ordered, how = _in_order(pool, file_times)
        chosen = ordered[-1 if attempt == "last" else 0]
        if not how:
            problem = (f"{len(pool)} notebooks were handed in, and nothing says which one counts: "
                       f"{_listed(pool)}; keep one, or name each after its student")
        elif len(pool) > 1:
            aside = [c for c in ordered if c is not chosen]
            notes.append(f"{len(pool)} attempts, by {how}: the {attempt} counts, "
                         f"{_dated(chosen, file_times)}; set aside: "
                         + ", ".join(_dated(c, file_times) for c in aside))
    notes += _set_aside(group, pool, chosen)
    return Submission(
        student, Path(*chosen.parts), None if problem else chosen.notebook, problem,
        _submitted(chosen, enrolled, file_times), ordered.index(chosen) + 1, len(ordered),
        chosen.stamp, tuple(notes), enrolled, chosen.name.late, chosen.name.ids)


def _spelling(group: list[Candidate]) -> str:
    """Of several spellings of one id the one that sorts first, whatever the order of the files."""
    return min(c.name.student for c in group)


def _about_names(group: list[Candidate], student: str, enrolled: Enrolled | None,
                 roster: Roster | None) -> list[str]:
    notes = list(dict.fromkeys(c.name.said for c in group if c.name.said))
    if roster is not None and enrolled is None:
        notes.append("not on the class list")
    if enrolled is not None and all(c.by_name for c in group):
        notes.append(f"known to be {student} by the name {shown(group[0].name.person)!r} alone")
    return notes


def _distinct(pool: list[Candidate]) -> list[Candidate]:
    """One of each content: the same file sent twice is one attempt, made at the later time."""
    kept: dict[str, Candidate] = {}
    for candidate in pool:
        before = kept.get(candidate.digest)
        if before is None or _rank(candidate) > _rank(before):
            kept[candidate.digest] = candidate
    return [c for c in pool if kept[c.digest] is c]


def _rank(candidate: Candidate) -> tuple[float, int, int]:
    when = candidate.name.submitted
    return (when.timestamp() if when else 0.0, candidate.name.upload or 0, -candidate.name.copy)


def _named_as_the_lab(pool: list[Candidate], lab: str) -> list[Candidate]:
    """Without those beside which, in a student's folder, lies one called as the lab was."""
    named = {c.parts[:-1] for c in pool if len(c.parts) > 1 and stem(c.parts[-1]) == lab}
    return [c for c in pool if c.parts[:-1] not in named or stem(c.parts[-1]) == lab]


def _in_order(pool: list[Candidate], file_times: bool) -> tuple[list[Candidate], str]:
    """The attempts from the first to the last, and what told their order ('' when nothing)."""
    if len(pool) == 1:
        return pool, "being the only one"
    folders = {c.parts[:-1] for c in pool}
    orders: list[tuple[str, list[Any]]] = [
        ("the time of handing in", [c.name.submitted for c in pool]),
        ("the platform's number of the upload", [c.name.upload for c in pool]),
    ]
    if file_times or len(folders) == 1 or any(c.name.platform for c in pool):
        orders += [("the times of the files", [c.when for c in pool]),
                   ("the numbers of the copies", [c.name.copy for c in pool])]
    for how, keys in orders:
        if None not in keys and len(set(keys)) == len(keys):
            pairs = sorted(zip(keys, range(len(pool)), strict=True))
            return [pool[place] for _, place in pairs], how
    return pool, ""


def _submitted(chosen: Candidate, enrolled: Enrolled | None, file_times: bool) -> datetime | None:
    listed = enrolled.submitted if enrolled else None
    return chosen.name.submitted or listed or (chosen.when if file_times else None)


def _set_aside(group: list[Candidate], pool: list[Candidate], chosen: Candidate) -> list[str]:
    """What else the student handed in: another lab's notebook, or something unreadable."""
    digests = {c.digest for c in pool}
    rest = [c for c in group if c not in pool and c is not chosen]
    broken = [c for c in rest if c.problem]
    other = [c for c in rest if not c.problem and c.digest not in digests]
    notes = [f"{c.shown} could not be read: {c.problem}" for c in broken
             if chosen.notebook is not None]
    if other:
        notes.append(f"not graded, for another notebook counts: {_listed(other)}")
    return notes


def _dated(candidate: Candidate, file_times: bool) -> str:
    when = candidate.name.submitted or (candidate.when if file_times else None)
    return candidate.shown + (f" ({times.plainly(when)})" if when else "")


def _listed(candidates: Iterable[Candidate]) -> str:
    found = [c.shown for c in candidates]
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")
