"""Due dates, extensions and what lateness costs, kept where nbgrader's own tools find them.

nbgrader knows a due date for each lab, an extension for each student and a time for each
submission; from them it works out how late each one is and asks a plugin for the penalty. The
plugin is here, so that the form grader, its export and feedback show the same points.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ironlaw.errors import InputError
from nbgrader.api import Gradebook
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from traitlets import Float
from traitlets.config import Config

from ..build import notebook
from . import times
from .settle import Submission
from .spelling import key

FILE = "late.json"
_DAY = 86_400.0
_COST = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


class LatePenalty(LateSubmissionPlugin):
    """So many points for every day that has begun; nbgrader takes no more than there are."""

    points_per_day = Float(0.0, help="points for each day that has begun").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float,
                                total_seconds_late: float) -> float | None:
        """The points to take off, or None for none."""
        if self.points_per_day <= 0 or total_seconds_late <= 0:
            return None
        return float(self.points_per_day * math.ceil(total_seconds_late / _DAY))


@dataclass(frozen=True)
class Dates:
    """When a lab is due. `due` None: no date, and nobody is late.

    `extensions` are by any id of a student. `cost` are points for each day that has begun, or,
    with `percent`, per cent of the lab's points. `said` is what was assumed to read it all.
    """

    due: datetime | None = None
    extensions: Mapping[str, timedelta] = field(default_factory=dict)
    cost: float = 0.0
    percent: bool = False
    said: tuple[str, ...] = ()

    @classmethod
    def read(cls, due: str | None = None, extensions: Path | None = None,
             late: str | None = None) -> Dates:
        """From what an instructor wrote; `InputError` for what cannot be meant."""
        if due is None:
            for name, given in (("extensions", extensions), ("late", late)):
                if given is not None:
                    raise InputError(name, str(given), "given together with a due date",
                                     "Add --due, such as --due 2026-10-01T23:59+02:00.")
            return cls()
        when, said = times.read("due", due)
        longer, more = times.extensions(extensions, when) if extensions else ({}, [])
        cost = _COST.fullmatch((late or "0").strip())
        if cost is None or (cost[2] and float(cost[1]) > 100):
            raise InputError("late", late, "points or per cent of the lab's points for each day "
                             "that has begun, such as 2 or 10%")
        return cls(when, longer, float(cost[1]), bool(cost[2]),
                   tuple(dict.fromkeys([*([said] if said else []), *more])))

    @classmethod
    def remembered(cls, root: Path) -> Dates:
        """As the folder was graded last; no date where it had none, or the file is damaged."""
        try:
            kept = json.loads((root / FILE).read_text(encoding="utf-8"))
            due = datetime.fromisoformat(kept["due"])
            return cls(due, {str(who): timedelta(seconds=seconds)
                             for who, seconds in kept["extensions"].items()},
                       float(kept["cost"]), bool(kept["percent"]),
                       (f"due {times.plainly(due)}, as the last time; --due none takes it back",))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def points_per_day(self, maximum: float) -> float:
        """What a day costs in a lab of `maximum` points."""
        return self.cost * maximum / 100 if self.percent else self.cost

    def extension(self, submission: Submission) -> timedelta:
        """How much later than `due` this student may hand in."""
        return next((self.extensions[key(text)] for text in _ids(submission)
                     if key(text) in self.extensions), timedelta(0))

    def unknown(self, submissions: list[Submission]) -> list[str]:
        """Students with an extension whom nothing else names: a slip in the file, most likely."""
        known = {key(text) for submission in submissions for text in _ids(submission)}
        return sorted(set(self.extensions) - known)

    def remark(self, submission: Submission) -> str:
        """What an instructor should know of this submission's time, '' for nothing."""
        if self.due is None or submission.notebook is None:
            return ""
        if submission.submitted is None:
            said = "no time of handing in is known: no late penalty"
            return f"{said}, though the platform marks it late" if submission.late else said
        until = self.due + self.extension(submission)
        seconds = (submission.submitted - until).total_seconds()
        longer = f" of the extended date, {times.plainly(until)}" if until != self.due else ""
        return f"late by {times.span(seconds)}{longer}" if seconds > 0 else ""


def configure(config: Config, root: Path) -> None:
    """Have nbgrader in the graded folder `root` take off what `write` noted there."""
    try:
        cost = float(json.loads((root / FILE).read_text(encoding="utf-8"))["points_per_day"])
    except (OSError, ValueError, KeyError, TypeError):
        cost = 0.0
    config.AssignLatePenalties.plugin_class = f"{__name__}.LatePenalty"
    config.LatePenalty.points_per_day = cost


def write(root: Path, dates: Dates, maximum: float) -> bool:
    """Note in the graded folder when the lab was due and what lateness costs.

    False when it never had a date: one that somebody set by hand in nbgrader stays then.
    """
    file = root / FILE
    if dates.due is None:
        had = file.exists()
        file.unlink(missing_ok=True)
        return had
    kept = {"due": dates.due.isoformat(), "cost": dates.cost, "percent": dates.percent,
            "points_per_day": dates.points_per_day(maximum),
            "extensions": {who: more.total_seconds() for who, more in dates.extensions.items()}}
    notebook.write_if_changed(file, json.dumps(kept, indent=1) + "\n")
    return True


def enter_due(book: Gradebook, lab: str, dates: Dates) -> None:
    """Enter the due date of a lab, or that it has none."""
    book.update_or_create_assignment(lab, duedate=_utc(dates.due))


def enter(book: Gradebook, lab: str, url: str, submission: Submission, dates: Dates,
          config: Config) -> bool:
    """Enter when one submission came and how late that was.

    The gradebook must hold the submission. nbgrader's own step works out the penalty; True
    when it is another than before.
    """
    found = book.find_submission(lab, submission.student)
    before = float(found.late_submission_penalty or 0.0)
    found.timestamp = _utc(submission.submitted)
    if dates.due is not None:
        found.extension = dates.extension(submission) or None
    elif found.assignment.duedate is None:
        found.extension = None  # nbgrader fails on an extension of no date
    book.db.commit()
    where: dict[str, Any] = {"notebook": lab, "assignment": lab, "student": submission.student,
                             "db_url": url}
    step = AssignLatePenalties(config=config)
    step.log.setLevel("ERROR")
    step.preprocess(_Empty(), {"nbgrader": where})
    found = book.find_submission(lab, submission.student)
    return float(found.late_submission_penalty or 0.0) != before


class _Empty:
    """A notebook without cells, which is all that the step looks at."""

    cells: tuple[Any, ...] = ()


def _utc(when: datetime | None) -> datetime | None:
    """nbgrader's gradebook holds times in UTC and without saying so."""
    return None if when is None else when.astimezone(UTC).replace(tzinfo=None)


def _ids(submission: Submission) -> list[str]:
    who = submission.enrolled
    listed = [who.login, who.email, who.number, who.lms] if who else []
    return [text for text in (submission.student, *submission.ids, *listed) if text]
