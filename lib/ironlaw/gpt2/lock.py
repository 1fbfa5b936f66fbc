"""One run, one process: a folder that is being trained in is refused to a second run.

Two runs that save into one folder would each remove the other's checkpoints. The lock is
the operating system's, on an open file, so it ends with the process that holds it, however
that ends: after a kill the file is still there and the next run simply takes it over.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ..errors import IronlawError, UnavailableError

NAME = "running.lock"


class LockedRunError(IronlawError):
    """Another process trains in this folder."""


class RunLock:
    """Holds `folder` for this process while it is entered. Use as a context."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._handle: IO[str] | None = None

    def check(self) -> None:
        """Raise `LockedRunError` when another process holds the folder now.

        `UnavailableError` when there can be none: its name is that of a file.
        """
        if self.path.parent.exists() and not self.path.parent.is_dir():
            raise self._impossible("it is a file")
        if self.path.exists():
            with self:
                pass

    def __enter__(self) -> Self:
        while self._handle is None:
            self._handle = self._acquired()
        self._handle.seek(0)
        self._handle.truncate()
        json.dump({"pid": os.getpid(), "host": socket.gethostname(),
                   "since": time.strftime("%Y-%m-%d %H:%M:%S")}, self._handle)
        self._handle.flush()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        with contextlib.suppress(OSError):
            # Removed while it is still held. (Windows allows that only afterwards: there
            # the empty lock stays, which does no harm.)
            self.path.unlink()
        handle.close()

    def _acquired(self) -> IO[str] | None:
        """The open and locked file; None when its holder removed it just now."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = self.path.open("a+", encoding="utf-8")
        except OSError as problem:
            raise self._impossible(str(problem.strerror)) from problem
        try:
            _lock(handle)
        except OSError:
            words = self._holder(handle)
            handle.close()
            raise LockedRunError(
                f"{self.path.parent} is being trained in {words}. Wait for it, stop it (it "
                "saves itself), or name another folder with --out.") from None
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle.fileno()), os.stat(self.path)):
                return handle
        handle.close()
        return None

    def _impossible(self, why: str) -> UnavailableError:
        return UnavailableError(
            "A folder for the run", f"{self.path.parent} cannot be written to ({why}).",
            "Name another folder with --out.")

    @staticmethod
    def _holder(handle: IO[str]) -> str:
        try:
            handle.seek(0)
            about = json.load(handle)
            return f"by process {about['pid']} on {about['host']}, since {about['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "by another process"


def _lock(handle: IO[str]) -> None:
    """Take the system's lock on the file, or raise `OSError` when another has it."""
    if sys.platform == "win32":  # one byte far behind the content, which others still read
        import msvcrt

        os.lseek(handle.fileno(), 1 << 20, os.SEEK_SET)
        msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
