"""Several submissions at once: workers forked from a grader that has everything loaded.

A worker holds one sandbox at a time and the judge beside it. One that dies costs nothing: its
submission goes to a new worker. A submission that takes its worker with it twice is named and
left to a person. When the grader ends, however it ends, its workers and sandboxes end too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing as mp
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from ironlaw.errors import UnavailableError

from ..course import Course
from ..judge.limits import Limits
from .work import Outcome, Task, Worker, failed, marking

_TRIES = 2
# One task in work and one that waits: no worker waits for a grader that is busy with writing.
_IN_HAND = 2
_PR_SET_PDEATHSIG = 1


class Outcomes(Protocol):
    """Outcomes as they come; `close` ends early whatever is still being judged."""

    def __iter__(self) -> Iterator[Outcome]: ...

    def __next__(self) -> Outcome: ...

    def close(self) -> None: ...


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(tasks: Iterable[Task], course: Course, lab: str, limits: Limits | None = None, *,
        workers: int | None = None, isolated: bool = True) -> Outcomes:
    """The outcomes of `tasks`, each as soon as it is there, from `workers` processes.

    Without `workers` there is one for each core. They begin at once, not at the first `next`;
    close the iterator to end them early. On systems that cannot fork, the tasks run one after
    another in this process.
    """
    limits = limits or Limits()
    if "fork" not in mp.get_all_start_methods():
        return _here(tasks, course, lab, limits, isolated)
    marking(course, lab)  # once, before any fork
    return _Pool(list(tasks), workers or cores(), course, lab, limits, isolated)


def _here(tasks: Iterable[Task], course: Course, lab: str, limits: Limits,
          isolated: bool) -> Generator[Outcome, None, None]:
    with contextlib.closing(Worker(course, lab, limits, isolated=isolated)) as worker:
        for task in tasks:
            yield worker.grade(task)


class _Hand:
    """One worker's process as the grader holds it; of its `places`, the first is in work."""

    def __init__(self, process: BaseProcess, line: Connection) -> None:
        self.process = process
        self.line = line
        self.places: deque[int] = deque()
        self.until = 0.0

    def give(self, place: int, seconds: float) -> None:
        """Hand over one task by its place; it must be answered in `seconds` from its turn."""
        if not self.places:
            self.until = time.monotonic() + seconds
        self.places.append(place)
        with contextlib.suppress(OSError):  # it has died: no answer will tell
            self.line.send_bytes(str(place).encode())

    def end(self) -> None:
        """End the process, whatever it is doing; its sandbox ends with it."""
        self.line.close()
        self.process.kill()
        self.process.join()


class _Pool:
    """The workers of one run, made as they are needed and replaced when they die.

    A worker is forked with all tasks in its memory, so that the grader sends it nothing but
    places in the list: it never waits for a busy worker to read.
    """

    def __init__(self, tasks: list[Task], workers: int, course: Course, lab: str,
                 limits: Limits, isolated: bool) -> None:
        self._tasks = tasks
        self._workers = workers
        self._arguments = (tasks, course, lab, limits, isolated)
        # The limits bound a submission long before this; only a worker that hangs gets here.
        self._patience = 3 * limits.total_seconds + 60.0
        self._todo = deque(range(len(tasks)))
        self._deaths: Counter[int] = Counter()
        self._hands: list[_Hand] = []
        self._there: deque[Outcome] = deque()
        self._hand_out()

    def __iter__(self) -> _Pool:
        return self

    def __next__(self) -> Outcome:
        while not self._there:
            if not any(hand.places for hand in self._hands):
                self.close()
                raise StopIteration
            self._there += filter(None, map(self._answer, self._heard()))
            self._hand_out()
        return self._there.popleft()

    def close(self) -> None:
        """End every worker and what it runs."""
        for hand in self._hands:
            hand.end()
        self._hands = []

    def _hand_out(self) -> None:
        """One task for each worker, then a second while there are more tasks than workers."""
        while self._todo and len(self._hands) < self._workers:
            self._hands.append(self._hand())
            self._hands[-1].give(self._todo.popleft(), self._patience)
        for most in range(1, _IN_HAND + 1):
            for hand in self._hands:
                spare = len(self._todo) > (0 if most == 1 else len(self._hands))
                if spare and len(hand.places) < most:
                    hand.give(self._todo.popleft(), self._patience)

    def _hand(self) -> _Hand:
        ours, theirs = mp.get_context("fork").Pipe()
        # Held open in the new worker, a sister's line would never tell that the grader has gone.
        others = [ours, *(hand.line for hand in self._hands)]
        process = mp.get_context("fork").Process(
            target=_work, args=(theirs, others, os.getpid(), *self._arguments), daemon=True)
        process.start()
        theirs.close()
        return _Hand(process, ours)

    def _heard(self) -> list[_Hand]:
        """Workers that have answered, died, or kept silent for too long."""
        busy = {hand.line: hand for hand in self._hands if hand.places}
        soonest = min((hand.until for hand in busy.values()), default=0.0)
        ready = wait(list(busy), timeout=max(0.0, min(soonest - time.monotonic(), 60.0)))
        late = [hand for line, hand in busy.items()
                if line not in ready and time.monotonic() > hand.until]
        return [hand for line, hand in busy.items() if line in ready] + late

    def _answer(self, hand: _Hand) -> Outcome | None:
        """What a worker said; None when it died and its submission is tried again."""
        try:
            data = json.loads(hand.line.recv_bytes()) if hand.line.poll() else None
        except (OSError, EOFError):
            data = None
        if data is None:
            return self._died(hand)
        if "refused" in data:
            raise UnavailableError("A worker", *data["refused"])
        hand.places.popleft()
        hand.until = time.monotonic() + self._patience
        return Outcome.from_json(data)

    def _died(self, hand: _Hand) -> Outcome | None:
        self._hands.remove(hand)
        hand.end()
        first, *others = hand.places
        self._deaths[first] += 1
        self._todo.extendleft(reversed(others))
        if self._deaths[first] < _TRIES:
            self._todo.appendleft(first)
            return None
        return failed(self._tasks[first], f"the process that judged it ended {_TRIES} times "
                                          f"({_how(hand.process)})")


def _how(process: BaseProcess) -> str:
    code = process.exitcode or 0
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit status {code}"


def _work(line: Connection, others: list[Connection], grader: int, tasks: list[Task],
          course: Course, lab: str, limits: Limits, isolated: bool) -> None:
    """A worker's life: one task after another until the grader hangs up."""
    for other in others:
        other.close()
    # Ctrl-C reaches every process at the terminal; the grader alone decides what follows. An
    # ignored signal would stay ignored in the student's process, a handled one does not.
    signal.signal(signal.SIGINT, _heed_nothing)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with(grader)
    try:
        worker = Worker(course, lab, limits, isolated=isolated)
    except UnavailableError as problem:
        line.send_bytes(json.dumps({"refused": [problem.why, problem.next_step]}).encode())
        return
    with contextlib.closing(worker), contextlib.suppress(EOFError):
        while True:
            task = tasks[int(line.recv_bytes())]
            line.send_bytes(json.dumps(worker.grade(task).to_json()).encode())


def _heed_nothing(number: int, frame: object) -> None:
    return


def _die_with(grader: int) -> None:
    """Have the system end this process when the grader ends, even by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != grader:  # it went before the line above
        os._exit(1)
