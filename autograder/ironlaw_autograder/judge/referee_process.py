"""P2 as the grader sees it: a judge that outlives tests, and is replaced when one hangs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from .channel import Channel, LostError
from .limits import Limits

Ask = Callable[[dict[str, Any], list[bytes]], tuple[dict[str, Any], list[bytes]]]
_SEND_SECONDS = 10.0


class Referee:
    """P2: one per grader, restarted when a test hangs."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._channel: Channel | None = None

    def judge(self, source: str, name: str, ask: Ask, owner: str = "") -> dict[str, Any]:
        """The outcome of a test cell; `ask(question, blobs)` reaches the student.

        `owner` is the id that the submission belongs to. `broken` in the outcome says why a
        test could not be completed; then `ended` is True when its process died of itself.
        """
        try:
            channel = self._started()
            channel.send({"source": source, "name": name, "owner": owner}, [], _SEND_SECONDS)
            until = time.monotonic() + self._limits.test_seconds
            while True:
                frame, blobs = channel.receive(max(0.0, until - time.monotonic()))
                if "outcome" in frame:
                    return frame["outcome"]
                asked = time.monotonic()
                reply, back = ask(frame["ask"], blobs)
                until += time.monotonic() - asked  # who is slow there has limits of his own
                channel.send(reply, back, _SEND_SECONDS)
        except LostError as lost:
            self.close()
            return {"share": 0.0, "message": "", "notes": [], "ended": lost.reason != "time",
                    "broken": f"The test did not finish ({lost.reason})."}

    def close(self) -> None:
        """End the process; the next test starts a new one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _started(self) -> Channel:
        if self._channel is None:
            # -P: no module of the folder that the grader happens to work in, which may well
            # hold files of students.
            words = [sys.executable, "-P", "-m", "ironlaw_autograder.judge.referee"]
            self._channel = Channel(words, lambda number: [str(number)], 20_000)
            self._channel.receive(self._limits.start_seconds)
        return self._channel
