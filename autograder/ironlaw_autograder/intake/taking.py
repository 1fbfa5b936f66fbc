"""How a class's work is taken in: what an instructor may say about it, in one place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ironlaw.errors import InputError
from ironlaw.selfcheck import variants

from ..build.lab_source import Lab, label
from ..build.stamp import Stamp
from ..course import Course
from . import versions
from .collect import Collection, collect
from .late import Dates
from .roster import Roster
from .settle import Submission, settle

# A second lab with at least this share of the notebooks is no slip of a student's.
_ANOTHER_LAB = 0.1


@dataclass(frozen=True)
class Taking:
    """The class list, which attempt counts, and when the lab is due."""

    roster: Roster | None = None
    attempt: str = "last"
    file_times: bool = False
    dates: Dates = field(default_factory=Dates)

    def collect(self, path: Path, labs: list[Lab]) -> Collection:
        """Everything under `path`."""
        return collect(path, [lab.name for lab in labs], self.roster)

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
        raise InputError("lab", name, "one of " + ", ".join(map(repr, by_name)),
                         "No notebook shows which lab it belongs to: name it with --lab.")
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


def _graded(lab: Lab) -> set[str]:
    return {str(label(c)["grade_id"]) for c in lab.source.cells if label(c)["grade"]}
