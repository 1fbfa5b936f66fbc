"""Ctrl-C while a class is graded: it stops at once, and it is never lost."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class CtrlC:
    """While active, Ctrl-C raises `KeyboardInterrupt`, and remembers that it was pressed.

    Python drops an exception that is raised while an object is being destroyed or a weak
    reference called back, which libraries for databases and clusters do all the time: about
    one Ctrl-C in some hundreds would only print a line. So `check` raises it once more, and
    so does the end. Outside the main thread signals cannot be handled, and nothing changes.
    """

    def __init__(self) -> None:
        self._pressed = False
        self._before: Any = None

    def check(self) -> None:
        """Stop if Ctrl-C was pressed and the exception got lost."""
        if self._pressed:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if kind is None:
            self.check()

    def _press(self, number: int, frame: FrameType | None) -> None:
        self._pressed = True
        raise KeyboardInterrupt
