"""Points in time, each with its zone: due dates, extensions, and when work was handed in."""

from __future__ import annotations

import contextlib
import re
import warnings
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path

from dateutil import parser
from ironlaw.errors import InputError

from . import tables
from .spelling import key

_WHO = ("id", "student", "student id", "login", "username", "email", "e-mail", "email address")
_YEAR_FIRST = re.compile(r"\s*\d{4}\D")  # then the month follows, everywhere
_ISO_DAY = re.compile(r"\s*(\d{4})-?(\d\d)-?(\d\d)(?!\d)")
_DAY_ALONE = re.compile(r"\s*\d{4}-?\d\d-?\d\d\s*|\s*\d{1,2}[./]\d{1,2}[./]\d{4}\s*")


def read(argument: str, text: str) -> tuple[datetime, str]:
    """A point in time, and what had to be assumed to read it ('' for nothing).

    A time without a zone is read in this machine's, and that is said. A day without an hour is
    refused: its first minute is not what anybody means.
    """
    shape = "a day, an hour and a zone, such as 2026-10-01T23:59+02:00"
    if _no_such_day(text):
        raise InputError(argument, text, shape, "That date does not exist: correct month or day.")
    if _DAY_ALONE.fullmatch(text):
        raise InputError(argument, text, shape, "Add the hour: a day alone has twenty-four.")
    found = _parsed(text)
    if found is None:
        raise InputError(argument, text, shape)
    if found.tzinfo is not None:
        return found, ""
    local = found.astimezone()
    return local, f"{argument} {text} was read as {local.isoformat()}, the zone of this machine"


def handed_in(text: str, zone: tzinfo | None = None) -> tuple[datetime | None, bool]:
    """A hand-in time from a platform's table, and whether its zone had to be assumed.

    Without a zone of its own it is in `zone`, or in this machine's for None. No time: unread.
    """
    found = _parsed(text)
    if found is None or _DAY_ALONE.fullmatch(text):
        return None, False
    assumed = found.tzinfo is None
    return (found.replace(tzinfo=zone) if assumed and zone else found.astimezone()), assumed


def of_nbgrader(text: str) -> datetime | None:
    """A time as nbgrader writes it; without a zone it is UTC, as nbgrader reads it."""
    found = _parsed(text.strip())
    if found is None:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def of_parts(text: str) -> datetime | None:
    """`2026-09-30-23-41-02`, in this machine's zone."""
    try:
        return datetime(*map(int, text.split("-"))).astimezone()  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None


def extensions(path: Path, due: datetime) -> tuple[dict[str, timedelta], list[str]]:
    """How much later than `due` each student may hand in, and what was assumed.

    The file has a column for the student (`id`, `login`, `email` ...) and one called `due`.
    Keys are spelled as `spelling.key` spells them.
    """
    found: dict[str, timedelta] = {}
    said: list[str] = []
    rows = tables.read(path, "extensions")
    head = list(rows[0]) if rows else []
    if rows and not ("due" in head and set(head) & set(_WHO)):
        raise InputError("extensions", head, "a table with a student's id under one of "
                         f"{', '.join(_WHO)}, and a time under due",
                         "Correct the line of column names.")
    for place, row in enumerate(rows, start=2):
        where = f"{path.name}, line {place}"
        who = next((row[name] for name in _WHO if row.get(name)), "")
        if not who and not row.get("due"):
            continue
        if not who or not row.get("due"):
            raise InputError(where, row, "a student's id under `id` and a time under `due`")
        until, assumed = read(where, row["due"])
        if until < due:
            raise InputError(where, row["due"], f"no earlier than the due date, {due.isoformat()}")
        if key(who) in found:
            raise InputError(where, who, "a student who has no other line", "Keep one of them.")
        found[key(who)] = until - due
        said += [assumed] if assumed else []
    return found, said


def plainly(when: datetime) -> str:
    """A point in time for a table."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M %Z").strip()


def span(seconds: float) -> str:
    """A length of time in days, hours and minutes."""
    minutes = int(seconds // 60)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "under a minute"


def _no_such_day(text: str) -> bool:
    """Whether `text` begins with year, month and day in figures, and no calendar has that day."""
    found = _ISO_DAY.match(text)
    if found is None:
        return False
    try:
        date(*map(int, found.groups()))
    except ValueError:
        return True
    return False


def _parsed(text: str) -> datetime | None:
    """The one time that `text` can mean, or None: for none, and for more than one.

    Day and month in figures alone can stand for each other; a name for a zone that is not
    known could be any; and what is not written out would be filled from some default day.
    """
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text.strip())
    orders = (False,) if _YEAR_FIRST.match(text) else (False, True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", parser.UnknownTimezoneWarning)
            found = {parser.parse(text, dayfirst=first, default=datetime(2000 + n, 1 + n, 1 + n))
                     for n in (0, 1) for first in orders}
        return found.pop() if len(found) == 1 else None
    except (ValueError, OverflowError, TypeError, AttributeError, Warning):
        return None
