"""The course as files: where it comes from, and the copy that a learner works in.

A learner never edits the course itself, so updating it never meets a conflict. The
working copy remembers, per file, what was laid there. A later `lay` brings an update
when the learner has not touched the file; otherwise the new version lands beside the
learner's as `NAME.new.ipynb`, once. Nothing that a learner wrote is overwritten.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .errors import InputError, UnavailableError

FIRST_CHAPTER = "chapters/01_iron_law.ipynb"
STATE_FOLDER = ".ironlaw"
PARTS = ("chapters", "labs")
# Sources of the notebooks: a learner reads the notebooks that are made from them.
_NOT_FOR_LEARNERS = {".md", ".pyc"}


@dataclass
class Laid:
    """What one `lay` did; paths are relative to the folder, with forward slashes."""

    folder: Path
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """One line of plain words per thing worth telling."""
        told = []
        if self.added:
            told.append(f"Added {_files(len(self.added))} to {self.folder}.")
        if self.updated:
            told.append(f"Updated {_files(len(self.updated))} that you had not changed.")
        for name, new in self.beside:
            told.append(f"You changed {name}; its new version is beside it as {new}.")
        return told


def checkout() -> Path | None:
    """The git checkout that this package runs from, or None for an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "chapters").is_dir() else None


def source() -> Path:
    """The folder that holds `chapters` and `labs` as the course ships them.

    Raises `UnavailableError` when an installation carries no course files.
    """
    root = checkout() or Path(__file__).resolve().parent / "content"
    if not (root / "chapters").is_dir():
        raise UnavailableError("the course's notebooks", f"{root} has no chapters folder.",
                               "Install ironlaw again, or run from a checkout.")
    return root


def default_folder() -> Path:
    """Where the working copy goes when nobody says otherwise."""
    root = checkout()
    return root / "workbook" if root else Path.cwd() / "ironlaw-workbook"


def shipped(root: Path) -> list[str]:
    """The files of the course for learners, relative to `root`, sorted."""
    found = []
    for part in PARTS:
        for file in (root / part).rglob("*"):
            name = file.relative_to(root)
            if any(p.startswith((".", "__")) for p in name.parts):
                continue
            if file.is_file() and file.suffix not in _NOT_FOR_LEARNERS:
                found.append(name.as_posix())
    return sorted(found)


def lay(folder: Path, root: Path | None = None) -> Laid:
    """Bring the working copy in `folder` up to date with the course in `root`.

    Raises `InputError` when `folder` cannot be one: a file, inside the course's own
    sources, or not writable.
    """
    root = root or source()
    folder = folder.expanduser().absolute()
    _refuse_unfit(folder, root)
    done = Laid(folder)
    record = _read_record(folder)
    try:
        for name in shipped(root):
            _lay_one(root, name, done, record)
        _write_record(folder, record)
    except OSError as problem:
        raise InputError("dir", str(folder), "a folder that can be written",
                         f"{problem.strerror or problem}: choose another with --dir.") from None
    return done


def _lay_one(root: Path, name: str, done: Laid, record: dict[str, str]) -> None:
    """Lay one file. `record` maps each name to the fingerprint of what was laid there."""
    fresh, mine = root / name, done.folder / name
    now = fingerprint(fresh)
    if not mine.exists():
        _copy(fresh, mine)
        done.added.append(name)
    else:
        held, laid = fingerprint(mine), record.get(name)
        if held == now:
            pass
        elif held == laid:
            _copy(fresh, mine)
            done.updated.append(name)
        elif laid == now:
            done.kept.append(name)
        else:
            new = _beside(done.folder, name, record)
            _copy(fresh, done.folder / new)
            record[new] = now
            done.beside.append((name, new))
    record[name] = now


def _beside(folder: Path, name: str, record: dict[str, str]) -> str:
    """A name for the new version: `NAME.new.ipynb`, unless the learner has work in that too."""
    path = PurePosixPath(name)
    number = 1
    while True:
        tail = ".new" if number == 1 else f".new-{number}"
        candidate = path.with_name(path.stem + tail + path.suffix).as_posix()
        file = folder / candidate
        if not file.exists() or fingerprint(file) == record.get(candidate):
            return candidate
        number += 1


def fingerprint(file: Path) -> str:
    """A hash of what the file says to a learner, in hexadecimal.

    For a chapter this is the text of its cells: running a chapter changes only outputs,
    which the next run brings back, and must not count as the learner's own change. A
    lab carries its measurements inside itself, so there every byte counts.
    """
    data = file.read_bytes()
    if file.suffix == ".ipynb" and file.parent.name == "chapters":
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
            cells = [(cell["cell_type"], "".join(cell["source"]), cell.get("attachments"))
                     for cell in json.loads(data)["cells"]]
            data = json.dumps(cells, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def _refuse_unfit(folder: Path, root: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError("dir", str(folder), "a folder, or a path where one can be made")
    place = folder.resolve()
    for part in PARTS:
        if place == root.resolve() or (root / part).resolve() in (place, *place.parents):
            raise InputError("dir", str(folder), "outside the course's own files",
                             "The copy you work in must not be the original.")


def _record_file(folder: Path) -> Path:
    return folder / STATE_FOLDER / "laid.json"


def _read_record(folder: Path) -> dict[str, str]:
    """What earlier runs laid. Unreadable means unknown, and then every file counts as changed."""
    try:
        record = json.loads(_record_file(folder).read_text(encoding="utf-8"))["files"]
        return {str(name): str(value) for name, value in record.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write_record(folder: Path, record: dict[str, str]) -> None:
    file = _record_file(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    spare = file.with_suffix(".part")
    spare.write_text(json.dumps({"version": 1, "files": record}, indent=1, sort_keys=True),
                     encoding="utf-8")
    os.replace(spare, file)


def _copy(fresh: Path, target: Path) -> None:
    """Copy in one step, so that an interrupted update leaves the old file whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, spare = tempfile.mkstemp(dir=target.parent, prefix=".laying-")
    os.close(descriptor)
    try:
        shutil.copyfile(fresh, spare)
        os.chmod(spare, 0o644)
        os.replace(spare, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(spare)


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"
