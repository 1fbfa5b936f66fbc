"""What a sandbox uses as a whole: the kernel limits each process, this adds them up.

Memory is what its processes hold, shared pages counted once, and what lies in its private
folders. Only the system's own figures are read; nothing inside is asked.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .channel import LostError
from .limits import Limits

_PAUSE = 0.2
_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass
class Use:
    """Bytes that processes hold, seconds of processor time, bytes and files in private folders.

    `processes` are all of them, with `threads` threads together.
    """

    memory: int = 0
    seconds: float = 0.0
    stored: int = 0
    threads: int = 0
    files: int = 0
    processes: list[int] = field(default_factory=list)


class Watch:
    """Looks at a sandbox now and then; `LostError` names the limit that it exceeds."""

    def __init__(self, limits: Limits, folders: tuple[str, ...]) -> None:
        self._limits = limits
        self._folders = folders
        self._looked = 0.0
        self._crowded = False
        self._busy = max(limits.busy, len(os.sched_getaffinity(0))
                         if hasattr(os, "sched_getaffinity") else 1)

    def __call__(self, pid: int) -> None:
        """Look at the processes that descend from `pid`, unless that was done just now."""
        now = time.monotonic()
        if now - self._looked < _PAUSE:
            return
        self._looked = now
        use = measure(pid, self._folders)
        if use.seconds > self._limits.processor_seconds:
            raise LostError("processor")
        # Whoever keeps many at work slows down the sandboxes beside: once may be an accident.
        before, self._crowded = self._crowded, (use.threads > self._busy
                                                and _at_work(use.processes) > self._busy)
        if before and self._crowded:
            raise LostError("busy")
        # Every open socket or pipe can hold a buffer that belongs to no process's memory.
        if sum(map(_open, use.processes)) > 8 * self._limits.open_files:
            raise LostError("open")
        if use.files > self._limits.files:
            raise LostError("files")
        # Pages that a fork shares are counted for each at first; look closely before blaming.
        if (use.memory + use.stored > self._limits.memory_bytes
                and sum(map(_own, use.processes)) + use.stored > self._limits.memory_bytes):
            raise LostError("memory")


def measure(root: int, folders: tuple[str, ...]) -> Use:
    """What `root`, all that descend from it, and their private `folders` use.

    All zero on a system that does not tell (macOS): each process has its own limits all the same.
    """
    children: dict[int, list[int]] = {}
    seen: dict[int, tuple[int, float, int]] = {}
    for entry in _entries():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
        except (OSError, IndexError):  # it ended while we looked
            continue
        pid = int(entry.name)
        children.setdefault(int(fields[1]), []).append(pid)
        # utime, stime, and the same of children that it buried; then resident pages
        seen[pid] = (int(fields[21]) * _PAGE, sum(map(int, fields[11:15])) / _TICKS,
                     int(fields[17]))
    use, todo = Use(), [root]
    while todo:
        pid = todo.pop()
        memory, seconds, threads = seen.get(pid, (0, 0.0, 0))
        use.memory += memory
        use.seconds += seconds
        use.threads += threads
        use.processes.append(pid)
        todo += children.get(pid, [])
    # The sandbox's first process belongs to bubblewrap: what it sees, the student cannot change.
    for inner in children.get(root, [])[:1] if folders else ():
        for folder in folders:
            try:
                found = os.statvfs(f"/proc/{inner}/root{folder}")
            except OSError:
                continue
            use.stored += (found.f_blocks - found.f_bfree) * found.f_frsize
            use.files += found.f_files - found.f_ffree
    return use


def _entries() -> Iterator[Path]:
    """What the system tells of its processes, where it does so in files."""
    return _PROC.iterdir() if _PROC.is_dir() else iter(())


def _at_work(processes: list[int]) -> int:
    """How many threads of these processes run, or wait for a processor to run on."""
    found = 0
    for pid in processes:
        with contextlib.suppress(OSError):  # it ended while we looked
            for thread in Path(f"/proc/{pid}/task").iterdir():
                state = (thread / "stat").read_text(errors="replace").rsplit(")", 1)[-1]
                found += state.split()[:1] == ["R"]
    return found


def _open(pid: int) -> int:
    """How many files, sockets and pipes a process has open, as far as it lets that be seen."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _own(pid: int) -> int:
    """Resident bytes of one process, shared ones divided among those that share them."""
    place = Path(f"/proc/{pid}")
    try:
        lines = (place / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (StopIteration, ProcessLookupError):  # it has ended
        return 0
    except OSError:  # it hides, and pays for it
        return _held(place)


def _held(place: Path) -> int:
    """Resident bytes of one process, shared ones included."""
    try:
        return int((place / "statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
