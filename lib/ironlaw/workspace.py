"""The learner's own state: device profile, guesses, progress and lab points.

One JSON file in the platform's user folder (or `IRONLAW_HOME`), written
atomically, so that a closed lid never costs a learner an answer. `save` and
`restore` move it as a single file, for Binder and Colab where disks vanish.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs

from .errors import InputError
from .results import DeviceProfile

VERSION = 1
SECTIONS = ("profile", "guesses", "answers", "read", "labs")


class _OtherFileError(ValueError):
    """JSON that is not the learner's state; says in words what is amiss."""


def home() -> Path:
    """The folder that holds the learner's state (made when first written)."""
    chosen = os.environ.get("IRONLAW_HOME")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("ironlaw", appauthor=False))


def path() -> Path:
    """The state file itself."""
    return home() / "workspace.json"


def read() -> dict[str, Any]:
    """The whole state; an absent file is an empty state.

    A file that cannot be understood is moved aside, never overwritten, and a fresh
    state starts: nothing a learner wrote is lost.
    """
    file = path()
    if not file.exists():
        return _empty()
    try:
        return _checked(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, OSError):
        with contextlib.suppress(OSError):
            file.replace(file.with_name(f"workspace-unreadable-{time.time_ns()}.json"))
        return _empty()


def get(section: str) -> Any:
    """One section of the state: `profile`, `guesses`, `answers`, `read` or `labs`."""
    return read()[_section(section)]


def put(section: str, key: str, value: Any) -> None:
    """Set one entry of a section and save at once."""
    with _editing() as state:
        state[_section(section)][key] = value


def reset(*sections: str) -> Path | None:
    """Empty the given sections, or everything; returns the backup of the state before.

    None when there was nothing to back up.
    """
    chosen = [_section(name) for name in sections or SECTIONS]
    with _editing() as state:
        backup = _backup("reset")
        for name in chosen:
            state[name] = {}
    return backup


def guess(name: str, value: float, unit: str = "") -> None:
    """Commit a prediction under `name`; the first one stays, so that it stays honest."""
    with _editing() as state:
        state["guesses"].setdefault(name, {"value": value, "unit": unit, "time": time.time()})


def profile() -> DeviceProfile | None:
    """The device profile that `ironlaw calibrate` saved, or None."""
    data = get("profile").get("this")
    return DeviceProfile.from_json(data) if data else None


def save_profile(measured: DeviceProfile) -> None:
    """Keep `measured` as this device's profile."""
    put("profile", "this", measured.to_json())


def save(file: str | Path) -> Path:
    """Write the whole state to `file`; returns its path.

    Folders that are missing on the way are made, and a file of that name is replaced: a
    backup should not fail for want of a folder. `InputError` when it cannot be written.
    """
    target = Path(file)
    try:
        _write(target, read())
    except OSError as problem:
        raise InputError("file", str(file), "a file that can be written",
                         f"{problem.strerror or problem}: choose another name.") from None
    return target


def restore(file: str | Path) -> Path | None:
    """Replace the state by the one in `file`; returns the backup of the state before.

    Raises `InputError` for anything that `save` did not write; then nothing changes.
    """
    try:
        data = Path(file).read_bytes()
    except OSError as problem:
        raise _refused(str(file), problem) from None
    return restore_bytes(data, str(file))


def restore_bytes(data: bytes, name: str) -> Path | None:
    """The same from a file's content, as a browser uploads it; `name` is used in messages."""
    try:
        state = _checked(json.loads(data.decode("utf-8")))
    except (ValueError, RecursionError) as problem:
        raise _refused(name, problem) from None
    with _editing() as present:
        backup = _backup("restore")
        present.clear()
        present.update(state)
    return backup


def _refused(name: str, problem: Exception) -> InputError:
    if isinstance(problem, OSError):
        why = problem.strerror or str(problem)
    elif isinstance(problem, _OtherFileError):
        why = str(problem)
    else:
        why = "It is no JSON file, or only a part of one"
    return InputError("file", name, "a progress file that this course saved",
                      f"{why}. Nothing was changed.")


def _backup(reason: str) -> Path | None:
    """A copy of the state file under a name of its own, so that no backup replaces another."""
    file = path()
    if not file.exists():
        return None
    copy = file.with_name(f"workspace-before-{reason}-{time.time_ns()}.json")
    copy.write_bytes(file.read_bytes())
    return copy


def _empty() -> dict[str, Any]:
    return {"version": VERSION, **{name: {} for name in SECTIONS}}


def _checked(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise _OtherFileError("It holds something else, or another version's progress")
    merged = _empty() | state
    for name in SECTIONS:
        if not isinstance(merged[name], dict):
            raise _OtherFileError(f"Its part {name!r} has been changed by another program")
    return merged


def _section(name: str) -> str:
    if name not in SECTIONS:
        raise InputError("section", name, "one of " + ", ".join(SECTIONS))
    return name


@contextlib.contextmanager
def _editing() -> Iterator[dict[str, Any]]:
    """Read, change, write under a lock: two notebooks may be open at once."""
    home().mkdir(parents=True, exist_ok=True)
    with _locked(home() / "workspace.lock"):
        state = read()
        yield state
        _write(path(), state)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("a") as handle:
        try:
            import fcntl
        except ImportError:  # Windows: one atomic replace per write still holds
            yield
            return
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def _write(file: Path, state: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".workspace-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            json.dump(state, handle, indent=1, sort_keys=True)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
