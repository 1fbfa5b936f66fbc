"""Zip archives, read in memory: nothing is ever unpacked onto the disk.

So no name in an archive can reach a file outside it, and no link or device in it can be
made. Only notebooks, hand-in times and one level of archives within are decompressed; each
by no more bytes than it may have, whatever its header promises.
"""

from __future__ import annotations

import io
import lzma
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from .notebooks import MAX_BYTES
from .spelling import shown

_UNREADABLE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError,
               NotImplementedError, ValueError)
_OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".bz2", ".xz")
_NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)
_JUNK = re.compile(r"^(\.|__MACOSX$|__pycache__$|desktop\.ini$|thumbs\.db$)", re.IGNORECASE)
DEEPEST, LONGEST = 12, 255  # folders, and characters of one name
_TIME = "timestamp.txt"
_TIME_BYTES = 1_000
# Text shrinks up to about 1,000-fold when it repeats one line; small files may.
_RATIO, _RATIO_FROM = 500, 5_000_000


@dataclass(frozen=True)
class Limits:
    """What an archive may hold: entries, bytes decompressed in all, bytes of one inside it."""

    entries: int
    total: int
    inner: int


WHOLE = Limits(entries=100_000, total=20_000_000_000, inner=100_000_000)  # a class's
ONE_OF = Limits(entries=20_000, total=2_000_000_000, inner=100_000_000)  # in a folder
INNER = Limits(entries=5_000, total=200_000_000, inner=0)  # in another archive


@dataclass(frozen=True)
class Found:
    """One thing that was handed in, by its path below what was given.

    `data` are a notebook's bytes, or the text of a `timestamp.txt`; both None and `problem`
    empty for a file of another kind. `folder` marks a folder. `when` is the time that file
    or archive records, which a copy or a download may have set.
    """

    parts: tuple[str, ...]
    data: bytes | None = None
    when: datetime | None = None
    problem: str = ""
    folder: bool = False

    @property
    def is_time(self) -> bool:
        """Whether this is nbgrader's note of the hand-in time."""
        return self.data is not None and self.parts[-1] == _TIME

    @property
    def is_notebook(self) -> bool:
        """Whether this is a notebook by its name."""
        return bool(self.parts) and is_notebook(self.parts[-1])


def is_junk(name: str) -> bool:
    """Whether a system made this file or folder, and no student."""
    return bool(_JUNK.match(name))


def is_notebook(name: str) -> bool:
    """Whether the name is a notebook's; mail programs and browsers append to it."""
    return bool(_NOTEBOOK.search(name))


def stem(name: str) -> str:
    """A file's name without what says its kind."""
    return _NOTEBOOK.sub("", name) if is_notebook(name) else PurePosixPath(name).stem


def wanted_bytes(name: str) -> int:
    """How many bytes of a file with this name are read at most; 0 for none."""
    if is_notebook(name):
        return MAX_BYTES + 1
    return _TIME_BYTES if name == _TIME else 0


def another_archive(name: str) -> str:
    """What to say of an archive that is not opened, '' for everything else."""
    if name.lower().endswith(_OTHER_ARCHIVES):
        return "it is an archive of a kind that is not opened; only .zip is"
    return ""


def members(source: Path | io.BytesIO, above: tuple[str, ...] = (),
            limits: Limits = WHOLE) -> Iterator[Found]:
    """Everything in an archive, by its path in it below `above`.

    An archive that cannot be read is one problem at `above`. One that a student can have made
    tells no time of handing in.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            entries = archive.infolist()
            if above:  # an empty archive is somebody's, too
                yield Found(above, folder=True)
            if len(entries) > limits.entries:
                yield Found(above, problem=f"the archive has {len(entries):,} entries; at most "
                            f"{limits.entries:,} are read")
                return
            yield from _members(archive, entries, above, limits)
    except UnicodeDecodeError:
        yield Found(above, problem="the archive has a name that is no UTF-8, as it says it were; "
                    "pack it again")
    except _UNREADABLE as problem:
        yield Found(above, problem=f"the archive cannot be opened ({problem})")


def _members(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], above: tuple[str, ...],
             limits: Limits) -> Iterator[Found]:
    left = limits.total
    for entry in entries:
        parts, problem = _parts(entry)
        if not parts or any(is_junk(part) for part in parts):
            continue
        name, place, when = parts[-1], above + parts, _time(entry)
        if entry.is_dir():
            yield Found(place, when=when, folder=True)
            continue
        packed = name.lower().endswith(".zip")
        most = limits.inner if packed else wanted_bytes(name)
        if name == _TIME and limits is not WHOLE:
            most = 0
        problem = problem or _special(entry) or another_archive(name)
        if packed and not problem and not limits.inner:
            problem = "it lies too deep: an archive within an archive is opened, and no further one"
        if problem or not most:
            yield Found(place, when=when, problem=problem)
            continue
        data, problem = _inflated(archive, entry, most, left)
        left -= len(data)
        if problem:
            yield Found(place, when=when, problem=problem)
        elif packed:
            yield from members(io.BytesIO(data), (*place[:-1], stem(name)), INNER)
        else:
            yield Found(place, data, when)


def _inflated(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int,
              left: int) -> tuple[bytes, str]:
    """An entry's bytes, or what is wrong with it; never more than `most` and `left`."""
    if entry.file_size > most:
        return b"", f"the file is larger than {most / 1e6:.0f} MB"
    if entry.file_size > _RATIO_FROM and entry.file_size > _RATIO * max(1, entry.compress_size):
        return b"", (f"it would swell from {entry.compress_size:,} to {entry.file_size:,} bytes; "
                     "files packed like that are not opened")
    if entry.file_size > left:
        return b"", "the archive holds more than may be decompressed in all"
    try:
        with archive.open(entry) as stream:
            return stream.read(most), ""
    except _UNREADABLE as problem:
        return b"", f"it cannot be read from the archive ({problem})"


def _parts(entry: zipfile.ZipInfo) -> tuple[tuple[str, ...], str]:
    """The path of an entry, and what is wrong with it; steps that lead out are left out."""
    name = _decoded(entry).replace("\\", "/")  # some systems pack with their own separator
    parts = [part for part in name.split("/") if part not in ("", ".")]
    kept = tuple(part for part in parts if part != ".." and not re.fullmatch("[A-Za-z]:", part))
    bad = ""
    if name.startswith("/") or kept != tuple(parts):
        bad = f"its name leads out of the archive: {shown(name)!r}"
    elif "\0" in entry.orig_filename:
        bad = "its name holds a zero byte"
    elif len(kept) > DEEPEST or any(len(part) > LONGEST for part in kept):
        bad = "its name is longer, or lies deeper, than any disk's"
    return tuple(part[:LONGEST] for part in kept[:DEEPEST]), bad


def _decoded(entry: zipfile.ZipInfo) -> str:
    """An entry's name. macOS writes UTF-8 and does not say so; then it is read as that."""
    if entry.flag_bits & 0x800:
        return entry.filename
    try:
        return entry.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return entry.filename


def _special(entry: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "it is a link to another place; links are refused"
    if kind not in (0, stat.S_IFREG):
        return "it is no ordinary file"
    if entry.flag_bits & 0x1:
        return "it is locked with a password"
    return ""


def _time(entry: zipfile.ZipInfo) -> datetime | None:
    """The entry's time, which archives keep without a zone: this machine's is meant."""
    try:
        found = datetime(*entry.date_time)
        return found.astimezone() if found.year > 1980 else None
    except (ValueError, OverflowError, OSError):
        return None
