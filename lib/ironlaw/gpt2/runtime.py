"""Process-wide circumstances of a run: memory allocator and interruptions. No torch here."""

from __future__ import annotations

import ctypes
import platform
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h


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
