"""P1 as the grader sees it: runs cells and answers questions, within limits, in a sandbox."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from ironlaw.lab import wire

from . import sandbox
from .channel import Channel, LostError
from .limits import Limits
from .watch import Watch
from .words import clean

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")


@dataclass
class CellRun:
    """What a cell did: nbformat outputs, and `status` ok, error, timeout or lost.

    `timed_out` is whether it ran past its limit, `gone` whether its process can do no more.
    `reason` says both to people.
    """

    status: str
    outputs: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    timed_out: bool = False
    gone: bool = False


class Kernel:
    """One student's process. After `LostError` it is closed and a new one must be made."""

    def __init__(self, blocked: tuple[str, ...], limits: Limits, slot: int = 0,
                 isolated: bool = True) -> None:
        self._limits = limits
        who = sandbox.identity(slot) if isolated else sandbox.Identity(None, None)
        bounds = limits.resource_limits()
        if not isolated:  # the grader's own processes would count too
            del bounds["RLIMIT_NPROC"]
        settings = {"uid": who.uid, "gid": who.gid, "limits": bounds, "filter": isolated}

        def settle(number: int) -> list[str]:
            told = json.dumps({**settings, "channel": number})
            return [sys.executable, "-m", "inside.agent", told]

        self._folder = None if isolated else tempfile.TemporaryDirectory(prefix="ironlaw-open-")
        self._channel = (
            Channel(sandbox.command(blocked, limits.disk_bytes), settle,
                    limits.output_characters, environment={})
            if self._folder is None else
            Channel([], settle, limits.output_characters,
                    environment=sandbox.open_environment(self._folder.name),
                    folder=self._folder.name))
        self._number = 0
        try:
            self._done(limits.start_seconds, [])
        except LostError as lost:
            said = self._channel.stderr.take()[-500:]
            self._channel.close()
            raise RuntimeError(f"the sandbox did not start ({lost.reason}): {said}") from None
        # Not before: while bubblewrap sets up, its private folders are still the machine's own.
        self._channel.watch = Watch(limits, sandbox.PRIVATE if isolated else ())

    def run(self, source: str, seconds: float) -> CellRun:
        """Run one cell; text that it prints is kept up to the limit."""
        outputs: list[dict[str, Any]] = []
        try:
            self._send({"op": "cell", "source": source, "seconds": seconds}, [], 5.0)
            done, _ = self._done(seconds + self._limits.grace_seconds, outputs)
            ended = CellRun(str(done.get("status")))
        except LostError as lost:
            late = lost.reason == "time"
            ended = CellRun("timeout" if late else "lost", timed_out=late, gone=True,
                            reason=self._why(lost, "the cell", seconds))
        self._channel.drain()
        for name, text in (("stderr", self._channel.stderr), ("stdout", self._channel.stdout)):
            said = text.take()
            if said:
                outputs.insert(0, {"output_type": "stream", "name": name, "text": said})
        ended.outputs = outputs
        if ended.status == "timeout" and not ended.gone:
            ended.timed_out = True
            ended.reason = f"the cell ran past its limit of {seconds:g} s"
        return ended

    def ask(self, question: dict[str, Any], blobs: list[bytes],
            seconds: float) -> tuple[dict[str, Any], list[bytes]]:
        """Answer one question; `LostError` when no answer can come any more."""
        name = str(question.get("name"))
        try:
            self._send({**question, "seconds": seconds}, blobs, seconds)
            reply, back = self._done(seconds + self._limits.grace_seconds, [])
        except LostError as lost:
            raise LostError(self._why(lost, name, seconds),
                            timed_out=lost.reason == "time") from None
        self._channel.drain()
        self._channel.stdout.take()  # what a student prints during a hidden test stays untold
        self._channel.stderr.take()
        reply = _vetted(reply, name)
        if reply.get("status") == "timeout":
            reply = {"status": "timeout",
                     "message": f"{name} ran past its limit of {seconds:g} s."}
        return reply, back

    def close(self) -> None:
        """End the sandbox and everything in it."""
        self._channel.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _send(self, question: dict[str, Any], blobs: list[bytes], seconds: float) -> None:
        self._number += 1
        self._channel.send({**question, "number": self._number}, blobs, seconds)

    def _done(self, seconds: float,
              outputs: list[dict[str, Any]]) -> tuple[dict[str, Any], list[bytes]]:
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            if left <= 0:  # also while displays arrive faster than time passes
                raise LostError("time")
            frame, blobs = self._channel.receive(left)
            if isinstance(frame.get("done"), dict):
                if frame.get("number") != self._number:
                    continue  # a forked copy of the student's process answers late
                return frame["done"], blobs
            event = _checked(frame.get("event"))
            if event is not None and len(outputs) < self._limits.display_count:
                outputs.append(event)

    def _why(self, lost: LostError, what: str, seconds: float) -> str:
        if lost.reason == "time":
            return f"{what} ran past its limit of {seconds:g} s and could not be interrupted"
        most = self._limits
        limit = {"memory": f"{most.memory_bytes / 1e9:g} GB of memory",
                 "processor": f"{most.processor_seconds:g} s of processor time",
                 "files": f"{most.files:,} files",
                 "open": f"{8 * most.open_files:,} open files, sockets and pipes",
                 }.get(lost.reason)
        if lost.reason == "busy":
            return f"{what} kept too many processes or threads at work at once"
        if limit is not None:
            return f"{what} used more than {limit}"
        return f"{what} ended the Python process ({lost.reason})"


def _checked(event: Any) -> dict[str, Any] | None:
    """An output that a notebook may hold, or None: the sender is the student's process."""
    if not isinstance(event, dict):
        return None
    kind = event.get("output_type")
    if kind == "error":
        traceback = event.get("traceback")
        lines = traceback[:50] if isinstance(traceback, list) else []
        return {"output_type": "error", "ename": _text(event.get("ename"))[:200],
                "evalue": _text(event.get("evalue"))[:2_000],
                "traceback": [_text(line)[-20_000:] for line in lines]}
    data = event.get("data")
    if kind not in ("display_data", "execute_result") or not isinstance(data, dict):
        return None
    kept = {mime: clean(value) for mime, value in data.items()
            if mime in ("text/plain", "text/markdown", "image/png") and isinstance(value, str)
            and len(value) <= 1_000_000}
    if not _BASE64.fullmatch(kept.get("image/png", "A")):
        del kept["image/png"]
    # A result stays a display: in a graded cell only the judge may state one.
    return {"output_type": "display_data", "data": kept, "metadata": {}} if kept else None


def _vetted(reply: dict[str, Any], name: str) -> dict[str, Any]:
    """A reply that the judge can read, whatever was made of it: what comes is the student's."""
    if _too_deep(reply.get("value")):
        return {"status": "refused", "message": f"{name} gave a value nested too deeply."}
    kinds = reply.get("kinds")
    return {"status": _text(reply.get("status"))[:20], "value": reply.get("value"),
            "message": _text(reply.get("message"))[:2_000],
            "kinds": [_text(k)[:100] for k in kinds[:20]] if isinstance(kinds, list) else []}


def _too_deep(tree: Any) -> bool:
    """Whether JSON nests deeper than any encoded value does: each of its levels takes three."""
    level = [tree]
    for _ in range(4 * wire.MAX_DEPTH):
        level = [inner for outer in level if isinstance(outer, list | dict)
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return False
    return True


def _text(value: Any) -> str:
    return clean(value) if isinstance(value, str) else ""
