"""Whose work is it? What the name of a file or folder says, by the platform that gave it.

Where each form comes from, and how sure it is:

- Canvas, "Download Submissions": its own source (`ContentZipper` of canvas-lms) writes the
  sortable name in small letters without spaces or commas, `LATE` when it was late, the number
  of the user, the number of the uploaded file, and the student's own file name. The second
  number is the upload's and rises with every upload, so that it orders attempts. An anonymous
  assignment has `anon_` and letters in place of name and number. Typed text and links have no
  second number and end in `_text.html` and `_link.html`. The download carries no hand-in time;
  the times of its entries are those of the download.
- Moodle, "Download all submissions": its own source (`mod_assign`, class `downloader`) writes
  the full name, the participant's number in this assignment and `assignsubmission_file`, as a
  folder, or, without folders, in front of the file's own name. Older versions end the folder's
  name in one more underscore. With anonymous marking the name is the word for participant; a
  team has the group's name and number. No hand-in time either.
- Blackboard: assignment, user name, `attempt` and the time of the attempt down to the second,
  with dashes. Taken from programs that read it, not from its source; the zone is not said.
- JupyterHub with nbgrader's exchange: `student+lab+time`, and `+` and letters when configured.
- nbgrader's own tree: `submitted/STUDENT/LAB/`, with the time in `timestamp.txt`.

In every other case the outermost folder, or else the file's name, is the student's id.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from . import times
from .archives import is_notebook, stem

_EXCHANGE = re.compile(r"^(?P<student>[^+]+)\+(?P<lab>[^+]+)\+(?P<time>\d{4}-[^+]+)(\+[^+]*)?$")
_MOODLE = re.compile(r"^(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?P<how>file|onlinetext)"
                     r"_?(?P<file>.*)$", re.DOTALL)
_BLACKBOARD = re.compile(r"^(?P<work>.+?)_(?P<user>[^_]+)_attempt_"
                         r"(?P<time>\d{4}(-\d\d){5})(_(?P<file>.+))?$")
_CANVAS = re.compile(r"^(?P<name>[^\W\d_]\S*?)(?P<late>_LATE)?_(?P<user>[1-9]\d*)"
                     r"_(?P<upload>[1-9]\d*)_(?P<file>.+)$", re.DOTALL)
_CANVAS_HIDDEN = re.compile(r"^(?P<late>LATE_)?anon_(?P<user>\w+?)_(?P<upload>[1-9]\d*)"
                            r"_(?P<file>.+)$", re.DOTALL)
_CANVAS_TYPED = re.compile(r"^(?P<name>[^\W\d_]\S*?)(?P<late>_LATE)?_(?P<user>[1-9]\d*)"
                           r"_(?P<how>text|link)\.html$")

_COPY = re.compile(r"(?:[\s_-]*\((?P<number>\d+)\)|[\s_-]+cop(?:y|ie)[\s_-]*(?P<copied>\d*))$",
                   re.IGNORECASE)
# Words that a file or folder of anybody could be called; a name of these alone says nothing.
_SAYS_NOTHING = re.compile(
    r"(?:(?:my|the|final|finished|done|new|old|copy|of|untitled|notebook|labs?|self-?checks?|"
    r"assignments?|home-?work|hw|exercises?|submissions?|submitted|submit|solutions?|answers?|"
    r"hand(?:ed)?|in|inbound|downloads?|uploads?|drafts?|versions?|v|colab|attempts?)[\W_\d]*)+",
    re.IGNORECASE)


@dataclass(frozen=True)
class Name:
    """What a path says. `student` is '' when it says nothing about that.

    `ids` are what a roster may know the student by, the surest first; `person` is a name of a
    person. `upload` and `copy` rise with each attempt. `late` is the platform's own word.
    `said` is what was read differently from how it stands there.
    """

    student: str = ""
    platform: str = ""
    ids: tuple[str, ...] = ()
    person: str = ""
    upload: int | None = None
    copy: int = 0
    submitted: datetime | None = None
    late: bool = False
    typed: bool = False
    said: str = ""


def says_nothing(text: str, labs: Collection[str] = ()) -> bool:
    """Whether a name, without what marks it as a copy, could be anybody's."""
    plain = without_copy(text)[0].strip(" ._-")
    shorter = re.split(r"[\s._-]+", plain.lower())
    return not plain or bool(_SAYS_NOTHING.fullmatch(plain)) or any(
        re.split(r"[\s._-]+", lab.lower())[:len(shorter)] == shorter for lab in labs)


def without_copy(text: str) -> tuple[str, int]:
    """A name without " (1)", "-Copy1" and the like, and which copy it was (0: none)."""
    number = 0
    while (found := _COPY.search(text)) and found.start() > 0:
        digits = found["number"] or found["copied"]
        number = number or (int(digits[-6:]) if digits else 1)
        text = text[:found.start()]
    return text, number


def of_platform(part: str) -> Name | None:
    """What a platform wrote into the name of a file or folder.

    A student's own file name stands behind what the platform writes, and may be made to look
    like it: the first place where a form fits is the platform's.
    """
    text = unicodedata.normalize("NFC", part.strip())
    for read in (_exchange, _moodle, _blackboard, _canvas):
        found = read(text)
        if found is not None:
            return found
    return None


def of_path(parts: tuple[str, ...], labs: Collection[str] = ()) -> Name:
    """Whose work lies at this path, when no platform named it."""
    whole = parts[0] if len(parts) > 1 else stem(parts[0])
    if len(parts) > 1:
        return Name("" if says_nothing(whole, labs) else whole, ids=(whole,), person=whole)
    plain, copy = without_copy(whole)
    if says_nothing(whole, labs):
        return Name(ids=(whole,), copy=copy)
    said = f"the file's name, {parts[0]!r}, was read as {plain!r}" if copy else ""
    return Name(plain, ids=(whole, plain), person=plain, copy=copy, said=said)


def _exchange(part: str) -> Name | None:
    found = _EXCHANGE.match(part)
    if found is None:
        return None
    when = times.of_nbgrader(found["time"])
    return None if when is None else Name(found["student"], "nbgrader", (found["student"],),
                                          submitted=when)


def _moodle(part: str) -> Name | None:
    found = _MOODLE.match(part)
    if found is None:
        return None
    copy = without_copy(stem(found["file"]))[1] if found["file"] else 0
    return Name(f"{found['name']}_{found['id']}", "Moodle", (found["id"],), found["name"],
                copy=copy, typed=found["how"] == "onlinetext")


def _blackboard(part: str) -> Name | None:
    found = _BLACKBOARD.match(part)
    if found is None:
        return None
    when = times.of_parts(found["time"])
    return Name(found["user"], "Blackboard", (found["user"],), submitted=when,
                typed=not is_notebook(found["file"] or ""))


def _canvas(part: str) -> Name | None:
    found = _CANVAS.match(part)
    if found and not says_nothing(found["name"]):
        return Name(f"{found['name']}_{found['user']}", "Canvas", (found["user"],), found["name"],
                    upload=int(found["upload"]), late=bool(found["late"]),
                    copy=without_copy(stem(found["file"]))[1])
    found = _CANVAS_HIDDEN.match(part)
    if found:
        return Name(f"anon_{found['user']}", "Canvas", (f"anon_{found['user']}", found["user"]),
                    upload=int(found["upload"]), late=bool(found["late"]))
    found = _CANVAS_TYPED.match(part)
    if found and not says_nothing(found["name"]):
        return Name(f"{found['name']}_{found['user']}", "Canvas", (found["user"],), found["name"],
                    late=bool(found["late"]), typed=True)
    return None
