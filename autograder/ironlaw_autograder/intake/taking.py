"""How a class's work is taken in: what an instructor may say about it, in one place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from pathlib import Path

from ironlaw.errors import InputError
from ironlaw.selfcheck import variants

from ..build.lab_source import Lab, label
from ..build.stamp import Stamp
from ..course import Course
from . import versions
from .collect import Candidate, Collection, collect
from .late import Dates
from .roster import Roster
from .settle import Submission, settle

# A second lab with at least this share of the notebooks is no slip of a student's.
_ANOTHER_LAB = 0.1
_SHOWN = 5  # files that could not be read, in a message


@dataclass(frozen=True)
class Taking:
    """The class list, which attempt counts, and when the lab is due."""

    roster: Roster | None = None
    attempt: str = "last"
    file_times: bool = False
    dates: Dates = field(default_factory=Dates)

    def collect(self, path: Path, labs: list[Lab]) -> Collection:
        """Everything under `path`."""
        found = collect(path, [lab.name for lab in labs], self.roster)
        zone = self.dates.due.tzinfo if self.dates.due else None
        return found if zone is None else _in_zone(found, zone)

    def settle(self, found: Collection, lab: Lab) -> list[Submission]:
        """One submission of `lab` for each student."""
        return settle(found, lab.name, _graded(lab), roster=self.roster, attempt=self.attempt,
                      file_times=self.file_times)

    def said(self, found: Collection, submissions: list[Submission]) -> list[str]:
        """What an instructor should know of the whole class's work."""
        unknown = self.dates.unknown(submissions)
        return [*(self.roster.said if self.roster else ()), *found.said, *self.dates.said,
                *([f"extensions for nobody here: {', '.join(unknown)}"] if unknown else [])]

    def remarks(self, submission: Submission, now: Stamp) -> list[str]:
        """What an instructor should know of one submission."""
        said = [*submission.notes, versions.remark(submission.version, now),
                _other_salt(submission.version, now), self.dates.remark(submission)]
        return [text for text in said if text]


def which(known: list[Lab], name: str | None, found: Collection) -> Lab:
    """The lab that was handed in: `name`, or the one whose labels the notebooks carry."""
    by_name = {lab.name: lab for lab in known}
    if name is not None:
        if name not in by_name:
            raise InputError("lab", name, "one of " + ", ".join(map(repr, by_name)))
        return by_name[name]
    graded = {lab.name: _graded(lab) for lab in known}
    votes: Counter[str] = Counter()
    for candidate in found.candidates:
        shared = {lab: len(candidate.labels & names) for lab, names in graded.items()}
        best = max(shared, key=lambda lab: shared[lab], default="")
        if best and shared[best]:
            votes[best] += 1
    if not votes:
        unread = [f"{c.shown}: {c.problem}" for c in found.candidates if c.problem]
        listed = "; ".join(unread[:_SHOWN]) + (
            f"; and {len(unread) - _SHOWN} more" if len(unread) > _SHOWN else "")
        if unread and not any(c.notebook is not None for c in found.candidates):
            raise InputError("path", str(found.path), "where one notebook at least can be read",
                             f"{listed}. --lab NAME takes them in as they are.")
        raise InputError("lab", name, "one of " + ", ".join(map(repr, by_name)),
                         "No notebook shows which lab it belongs to: name it with --lab."
                         + (f" Not read: {listed}." if listed else ""))
    (first, most), *others = votes.most_common(2)
    if others and others[0][1] >= _ANOTHER_LAB * most:
        listed = ", ".join(f"{lab!r} ({count} notebooks)" for lab, count in votes.most_common())
        raise InputError("lab", name, f"named, for several were handed in: {listed}",
                         f"Take one at a time, such as --lab {first}.")
    return by_name[first]


def same_salt(course: Course, lab: Lab, submissions: list[Submission]) -> None:
    """Refuse to grade a class's own figures with another salt than most were drawn from."""
    if not lab.salt:
        return
    salts = Counter(s.version.salt or variants.SALT for s in submissions if s.version)
    if not salts:
        return
    most, count = salts.most_common(1)[0]
    if most != lab.salt and 2 * count > salts.total():
        raise InputError("salt", lab.salt, f"{most!r}, by which {count} of {salts.total()} "
                         "notebooks drew their figures", f"Add --salt {most}, if that is the word "
                         "that you gave this class.")


def _other_salt(found: Stamp, now: Stamp) -> str:
    mine, ours = found.salt or variants.SALT, now.salt or variants.SALT
    if not found or mine == ours:
        return ""
    return (f"its figures were drawn from the salt {mine!r}, and are judged by this class's, "
            f"{ours!r}: a notebook of another class or year")


def _in_zone(found: Collection, zone: tzinfo) -> Collection:
    """The times in Blackboard's names, which tell no zone, in `zone` instead of this machine's."""
    def moved(candidate: Candidate) -> Candidate:
        name = candidate.name
        if name.platform != "Blackboard" or name.submitted is None:
            return candidate
        return replace(candidate, name=replace(name, submitted=name.submitted.replace(tzinfo=zone)))

    candidates = tuple(map(moved, found.candidates))
    said = next((f"Blackboard's times were read in the zone of the due date, such as "
                 f"{c.name.submitted.isoformat()}" for c in candidates
                 if c.name.platform == "Blackboard" and c.name.submitted), "")
    return replace(found, candidates=candidates, said=(*found.said, *([said] if said else [])))


def _graded(lab: Lab) -> set[str]:
    return {str(label(c)["grade_id"]) for c in lab.source.cells if label(c)["grade"]}
