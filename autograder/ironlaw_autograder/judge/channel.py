"""P0's end of a conversation: frames in, text in, deadlines and deaths noticed at once."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .inside import frames
from .words import clean

Frame = tuple[dict[str, Any], list[bytes]]
_BURIAL_SECONDS = 5.0


class LostError(BaseException):
    """The other process is gone or must go. Not an `Exception`: no test may swallow it.

    `timed_out` is set where `reason` says to people that an answer took too long.
    """

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.timed_out = timed_out


@dataclass
class Text:
    """What a process printed on one stream, capped while it arrives."""

    limit: int
    kept: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, data: bytes) -> None:
        room = max(0, self.limit - len(self.kept))
        self.kept += data[:room]
        self.dropped += max(0, len(data) - room)

    def take(self) -> str:
        """The text so far, with a note on what was left out; starts afresh."""
        said = clean(self.kept.decode("utf-8", "replace"))
        if self.dropped:
            said += f"\n[... {self.dropped:,} more characters of output left out]\n"
        self.kept, self.dropped = bytearray(), 0
        return said


class Channel:
    """A child process with a socket for frames and pipes for what it prints.

    `watch`, once set, is called with the process's id while an answer is awaited.
    """

    def __init__(self, words: list[str], settle: Callable[[int], list[str]], text_limit: int, *,
                 environment: dict[str, str] | None = None, folder: str | None = None,
                 max_header: int = frames.MAX_HEADER) -> None:
        ours, theirs = socket.socketpair()
        number = theirs.fileno()
        self.stdout, self.stderr = Text(text_limit), Text(text_limit)
        self._process = subprocess.Popen(
            [*words, *settle(number)], pass_fds=[number], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env=environment, cwd=folder)
        theirs.close()
        ours.setblocking(False)
        self._socket = ours
        self._reader = frames.Reader(max_header)
        self.watch: Callable[[int], None] | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(ours, selectors.EVENT_READ, None)
        for pipe, text in ((self._process.stdout, self.stdout),
                           (self._process.stderr, self.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, text)
        self._gone = False

    def send(self, header: dict[str, Any], blobs: list[bytes], seconds: float) -> None:
        """Send one frame; a process that does not take it within `seconds` is lost."""
        try:
            data = memoryview(frames.pack(header, blobs))
        except (RecursionError, ValueError):  # a relayed value that JSON cannot hold
            raise LostError("it was given nonsense") from None
        until = time.monotonic() + seconds
        while data:
            try:
                data = data[self._socket.send(data):]
            except BlockingIOError:
                if time.monotonic() > until:
                    raise LostError("it stopped listening") from None
                self._pump(0.01)
            except OSError:
                raise LostError("its process ended") from None

    def receive(self, seconds: float) -> Frame:
        """The next frame; raises `LostError` at the deadline, at death, or on nonsense."""
        until = time.monotonic() + seconds
        while True:
            try:
                found = self._reader.frame()
            except frames.FrameError as problem:
                raise LostError(f"it sent {problem}") from None
            if found is not None:
                return found
            if self._gone:
                raise LostError("its process ended")
            left = until - time.monotonic()
            if left <= 0:
                raise LostError("time")
            self._pump(min(left, 0.1))
            if self.watch is not None:
                self.watch(self._process.pid)

    def drain(self) -> None:
        """Collect what was printed before the last frame."""
        self._pump(0)

    def close(self) -> None:
        """End the process, whatever it is doing, and everything that it started."""
        children = _handles(_children(self._process.pid))
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session of its own
        self._process.wait()
        # A sandbox's first process ends after all others in it. The next sandbox runs as the
        # same user, whose processes are counted.
        until = time.monotonic() + _BURIAL_SECONDS
        for handle in children:
            select.select([handle], [], [], max(0.0, until - time.monotonic()))
            os.close(handle)
        self._selector.close()
        self._socket.close()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _pump(self, wait: float) -> None:
        if not self._selector.get_map():
            return
        for key, _ in self._selector.select(wait):
            try:
                data = os.read(key.fd, 1 << 18) if key.data else self._socket.recv(1 << 18)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if data and key.data:
                key.data.add(data)
            elif data:
                try:
                    self._reader.feed(data)
                except frames.FrameError as problem:
                    raise LostError(f"it sent {problem}") from None
            else:
                self._selector.unregister(key.fileobj)
                self._gone = self._gone or key.data is None


def _children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _handles(pids: list[int]) -> list[int]:
    """Descriptors that become readable when these processes have ended."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError, AttributeError):  # it has ended; or not on Linux
            found.append(os.pidfd_open(pid))
    return found
