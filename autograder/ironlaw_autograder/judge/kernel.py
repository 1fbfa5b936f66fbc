"""P1 as the grader sees it: runs cells and answers questions, within limits, in a sandbox."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import sandbox
from .channel import Channel, LostError
from .limits import Limits


@dataclass
class CellRun:
    """What a cell did: nbformat outputs, and `status` ok, error, timeout or lost."""

    status: str
    outputs: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""


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
                    limits.output_characters, self._watch_memory)
            if self._folder is None else
            Channel([], settle, limits.output_characters, self._watch_memory,
                    environment=sandbox.open_environment(self._folder.name),
                    folder=self._folder.name))
        self._looked = 0.0
        self._number = 0
        try:
            self._done(limits.start_seconds, [])
        except LostError as lost:
            said = self._channel.stderr.take()[-500:]
            self._channel.close()
            raise RuntimeError(f"the sandbox did not start ({lost.reason}): {said}") from None

    def run(self, source: str, seconds: float) -> CellRun:
        """Run one cell; text that it prints is kept up to the limit."""
        outputs: list[dict[str, Any]] = []
        try:
            self._send({"op": "cell", "source": source, "seconds": seconds}, [], 5.0)
            done, _ = self._done(seconds + self._limits.grace_seconds, outputs)
            ended = CellRun(str(done.get("status")))
        except LostError as lost:
            ended = CellRun("timeout" if lost.reason == "time" else "lost",
                            reason=self._why(lost, "the cell", seconds))
        self._channel.drain()
        for name, text in (("stderr", self._channel.stderr), ("stdout", self._channel.stdout)):
            said = text.take()
            if said:
                outputs.insert(0, {"output_type": "stream", "name": name, "text": said})
        ended.outputs = outputs
        if ended.status == "timeout" and not ended.reason:
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
            raise LostError(self._why(lost, name, seconds)) from None
        self._channel.drain()
        self._channel.stdout.take()  # what a student prints during a hidden test stays untold
        self._channel.stderr.take()
        reply = {key: reply[key] for key in ("status", "value", "message", "kinds") if key in reply}
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
        if lost.reason.startswith("memory"):
            return f"{what} used more than {self._limits.memory_bytes / 1e9:g} GB of memory"
        return f"{what} ended the Python process ({lost.reason})"

    def _watch_memory(self, pid: int) -> None:
        """The limit per process is the kernel's; the sum over a process tree is ours."""
        now = time.monotonic()
        if now - self._looked < 0.2:
            return
        self._looked = now
        if _tree_memory(pid) > self._limits.memory_bytes:
            raise LostError("memory")


def _checked(event: Any) -> dict[str, Any] | None:
    """An output that a notebook may hold, or None: the sender is the student's process."""
    if not isinstance(event, dict):
        return None
    kind = event.get("output_type")
    if kind == "error":
        traceback = event.get("traceback")
        lines = [str(t)[-20_000:] for t in traceback[:50]] if isinstance(traceback, list) else []
        return {"output_type": "error", "ename": str(event.get("ename"))[:200],
                "evalue": str(event.get("evalue"))[:2_000], "traceback": lines}
    data = event.get("data")
    if kind not in ("display_data", "execute_result") or not isinstance(data, dict):
        return None
    kept = {mime: value for mime, value in data.items()
            if mime in ("text/plain", "text/markdown", "image/png") and isinstance(value, str)
            and len(value) <= 1_000_000}
    # A result stays a display: in a graded cell only the judge may state one.
    return {"output_type": "display_data", "data": kept, "metadata": {}} if kept else None


def _tree_memory(root: int) -> int:
    """Resident bytes of a process and all that descend from it."""
    page = 4096
    children: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        pid = int(entry.name)
        children.setdefault(int(fields[1]), []).append(pid)
        sizes[pid] = int(fields[21]) * page
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        total += sizes.get(pid, 0)
        todo += children.get(pid, [])
    return total
