"""One sandbox per slot on a machine, whoever grades there.

When root grades, each sandbox runs as a user of its own, and the kernel counts processes by
user: two sandboxes in one slot would share that count and could signal each other. A slot is
taken by locking a file; the system frees it when the last process that held it is gone.
For everyone else the sandbox keeps the grader's own user, and nothing can collide.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from pathlib import Path

from ironlaw.errors import UnavailableError

COUNT = 512
_QUIET_SECONDS = 5.0


class Slot:
    """One taken slot; `close` hands it back."""

    def __init__(self, number: int, descriptor: int | None = None) -> None:
        self.number = number
        self._descriptor = descriptor

    def close(self) -> None:
        """Hand the slot back; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def take(first_uid: int) -> Slot:
    """A slot that no other grader on this machine holds; `first_uid` is the user of slot 0."""
    if sys.platform == "win32" or os.getuid() != 0:
        return Slot(0)
    return locked(_folder(), first_uid)


def locked(folder: Path, first_uid: int) -> Slot:
    """The first slot whose file in `folder` nobody has locked, and whose user runs nothing."""
    import fcntl  # not on Windows

    _keep_private(folder)
    for number in range(COUNT):
        descriptor = os.open(folder / str(number), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        # The processes of a grader that was killed may take a moment to follow it.
        if _quiet(first_uid + number):
            return Slot(number, descriptor)
        os.close(descriptor)
    raise UnavailableError("A slot for the sandbox", f"all {COUNT} in {folder} are taken.",
                           "End graders that run on this machine, or grade with fewer workers.")


def _folder() -> Path:
    """A place that only root can write to, the same for every grader."""
    run = Path("/run")
    return (run if os.access(run, os.W_OK) else Path(tempfile.gettempdir())) / "ironlaw-sandboxes"


def _keep_private(folder: Path) -> None:
    """Make `folder` if need be; refuse it where another user could meddle with it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o022:
        raise UnavailableError("A slot for the sandbox",
                               f"{folder} is not a folder that only this user can write to.",
                               f"Remove {folder} and grade again.")


def _quiet(uid: int) -> bool:
    """Whether no process of this user runs, or none does after a moment."""
    until = time.monotonic() + _QUIET_SECONDS
    while running(uid):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def running(uid: int) -> list[int]:
    """The processes of one user on this machine, those that only wait to be buried left out."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (entry.name.isdigit() and entry.stat().st_uid == uid
                    and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"):
                found.append(int(entry.name))
        except (OSError, IndexError):  # it ended while we looked
            continue
    return found
