"""Which chapters the learner has marked as read; light enough for a chapter's last cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import workspace
from ..errors import count

LAST = 99


def key(chapter: int) -> str:
    """The name of a chapter's mark in the workspace's section `read`."""
    return f"{chapter:02d}"


def mark_read(chapter: int, yes: bool = True) -> None:
    """Mark a chapter as read, or take the mark away; saved at once.

    `chapter` is its number, from 1. Raises `InputError` for anything else.
    """
    workspace.put("read", key(count("chapter", chapter, high=LAST)), bool(yes))


def is_read(marks: Mapping[str, Any], chapter: int) -> bool:
    """Whether `marks`, the workspace's section `read`, holds the mark of `chapter`.

    Marks were once kept under "1" instead of "01". These still count, unless the chapter
    has been marked, or unmarked, since.
    """
    return marks.get(key(chapter), marks.get(str(chapter))) is True


def chapters_read(marks: Mapping[str, Any]) -> list[int]:
    """The numbers of all chapters that are marked as read, each once, in order."""
    return sorted({number for number in _numbers(marks) if is_read(marks, number)})


def _numbers(marks: Mapping[str, Any]) -> Iterator[int]:
    for name in marks:
        if name.isascii() and name.isdigit() and len(name) <= len(str(LAST)):
            yield int(name)
