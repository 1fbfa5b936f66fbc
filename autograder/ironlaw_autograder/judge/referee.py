"""P2, the judge: runs a hidden test on plain values that the grader relays.

Run as `python -m ironlaw_autograder.judge.referee FD`. Each test runs in a fork of this
process, so that no test and no student's value can leave anything behind. Nothing here
executes or unpickles what a student sent.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import traceback
from typing import Any

import ironlaw.selfcheck
import numpy as np
from ironlaw.lab import checking
from ironlaw.lab.student import Student, StudentFault
from ironlaw.selfcheck import variants as selfcheck_variants

from .. import variants
from .inside import frames

# What the notebook's first cells import for its checks.
_AT_HAND: dict[str, Any] = {"check": checking.check, "math": math, "np": np}


class RemoteStudent(Student):
    """The handle whose questions travel to the sandbox and back."""

    def __init__(self, channel: socket.socket, reader: frames.Reader, owner: str = "") -> None:
        super().__init__()
        self.owner = owner
        self._channel = channel
        self._reader = reader

    def _ask(self, question: dict[str, Any],
             blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        frames.send(self._channel, {"ask": question}, blobs)
        found = frames.receive(self._channel, self._reader)
        if found is None:
            raise SystemExit(1)
        return found


class Sitting:
    """One test cell being judged; `checking.check` hands its tests to this."""

    def __init__(self, student: Student) -> None:
        self._student = student
        self.share = 1.0
        self.ran = 0

    def run(self, test: checking.Test) -> None:
        self.ran += 1
        self.share = min(self.share, checking.share_of(test(self._student)))


def judge(source: str, name: str, student: Student) -> dict[str, Any]:
    """The outcome of one test cell: share of points, message, notes, and `broken` if it is."""
    sitting = Sitting(student)
    outcome: dict[str, Any] = {"share": 0.0, "message": "", "broken": "", "got": ""}
    token = checking.session.set(sitting)
    try:
        exec(compile(source, f"<{name}>", "exec"), {"__name__": "hidden_tests", **_AT_HAND})
    except AssertionError as problem:
        outcome["message"] = str(problem)[:4_000] or "A check did not hold."
        outcome["got"] = student.offending(problem)
    except StudentFault as fault:
        outcome["message"] = fault.message
    except Exception:
        outcome["broken"] = traceback.format_exc()[-3_000:]
    else:
        if sitting.ran:
            outcome["share"] = sitting.share
            outcome["got"] = student.offending() if sitting.share < 1 else ""
            outcome["message"] = ("All checks passed." if sitting.share == 1
                                  else f"Partly right: {sitting.share:.0%} of the points.")
        else:
            outcome["broken"] = "The cell ran no check: it must call check(test)."
    finally:
        checking.session.reset(token)
    outcome["notes"] = student.notes[:50]
    return outcome


def main() -> None:
    ironlaw.selfcheck.item("1.1")  # load questions and answers once, before any fork
    variants.right(selfcheck_variants.variant("V1.1", "warm-up"))
    channel = socket.socket(fileno=int(sys.argv[1]))
    reader = frames.Reader(frames.MAX_RELAYED)
    frames.send(channel, {"ready": True})
    while True:
        found = frames.receive(channel, reader)
        if found is None:
            return
        question, _ = found
        child = os.fork()
        if child == 0:
            status = 1
            try:
                outcome = judge(question["source"], question["name"],
                                RemoteStudent(channel, reader, question["owner"]))
                frames.send(channel, {"outcome": outcome})
                status = 0
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status != 0:
            frames.send(channel, {"outcome": {"share": 0.0, "message": "", "notes": [],
                                              "ended": True,
                                              "broken": f"The test's process ended ({status})."}})


if __name__ == "__main__":
    main()
