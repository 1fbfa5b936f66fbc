"""Process-wide circumstances of a run: threads, allocator, interruptions. No torch here."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h


def prepare() -> None:
    """Make the best of a CPU's cores and memory; call before torch is imported."""
    wait_patiently()
    keep_freed_memory()


def wait_patiently() -> None:
    """Let OpenMP's threads sleep soon when they wait for each other.

    A step has thousands of short parallel sections. At the end of each, GNU's library
    lets a waiting thread spin for milliseconds, which on a machine with other work takes
    the core from the very thread that is waited for: steps become several times slower.
    1,000 turns is what that library takes itself once it knows that cores are short.
    A choice of the user's (OMP_WAIT_POLICY, GOMP_SPINCOUNT) stands.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def keep_freed_memory() -> bool:
    """Ask glibc to keep freed memory for the next step; call before torch is imported.

    A training step frees and asks for the same large blocks again and again. By default
    each comes fresh from the kernel, zeroed page by page, several times slower than
    memory that is used again. Returns whether it could be set (Linux with glibc).
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    return bool(libc.mallopt(_M_MMAP_MAX, 0) and libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


class Interruption:
    """While active, Ctrl-C (or SIGTERM) asks for a stop at the next safe point.

    `requested` turns true at the first one; a second one interrupts at once. Outside the
    main thread signals cannot be handled, and nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
