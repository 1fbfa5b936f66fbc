"""Folders, files and archives as one stream of what was handed in; only ever read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from .archives import (
    DEEPEST,
    ONE_OF,
    Found,
    another_archive,
    is_junk,
    members,
    stem,
    wanted_bytes,
)

_MOST = 200_000


def walk(path: Path) -> Iterator[Found]:
    """Everything under `path`, a folder, an archive or one file, in the order of the names."""
    if path.is_dir():
        yield from _folder(path, (), [_MOST])
    elif path.suffix.lower() == ".zip":
        yield from members(path)
    else:
        yield _file(path, (path.name,))


def _folder(folder: Path, above: tuple[str, ...], left: list[int]) -> Iterator[Found]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as problem:
        yield Found(above, problem=f"the folder cannot be read ({problem.strerror})")
        return
    for entry in entries:
        if is_junk(entry.name):
            continue
        left[0] -= 1
        place, path = (*above, entry.name), Path(entry.path)
        if left[0] < 0 or len(place) > DEEPEST:
            yield Found(place, problem="there are too many files, or folders too deep")
            return
        if entry.is_symlink():
            yield Found(place, problem="it is a link to another place; links are refused")
        elif entry.is_dir(follow_symlinks=False):
            yield Found(place, folder=True)
            yield from _folder(path, place, left)
        elif entry.name.lower().endswith(".zip") and entry.is_file(follow_symlinks=False):
            yield from members(path, (*above, stem(entry.name)), ONE_OF)
        else:
            yield _file(path, place)


def _file(path: Path, place: tuple[str, ...]) -> Found:
    """One file; its bytes when it can be a notebook or a hand-in time."""
    most, problem = wanted_bytes(path.name), another_archive(path.name)
    if problem or not most:
        return Found(place, problem=problem)
    try:
        # Neither a link nor a pipe that was put here after looking is followed or waited for.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
                         | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as stream:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                return Found(place, problem="it is no ordinary file")
            when = datetime.fromtimestamp(about.st_mtime, UTC)
            return Found(place, stream.read(most), when)
    except (OSError, OverflowError, ValueError) as problem_:
        return Found(place, problem=f"it cannot be read ({problem_})")
