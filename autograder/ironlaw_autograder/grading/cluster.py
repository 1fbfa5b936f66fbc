"""Submissions judged on other machines, by the workers of a Dask cluster.

The grader hands each worker one submission per thread and one that waits, so that a class of
five hundred never sits in the scheduler. A worker that dies costs nothing: what it had goes to
another. A submission whose worker dies is tried once more, alone on a worker; if that one dies
too, the submission is named and left to a person. Dask's own retries play no part.
"""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ironlaw.errors import InputError, UnavailableError

from ..course import Course
from ..judge.limits import Limits
from . import cluster_worker
from .cluster_scheduler import CONNECT_SECONDS, Scheduler, check, connect
from .pool import Outcomes
from .work import Outcome, Task, failed

if TYPE_CHECKING:
    from distributed import Future

PATIENCE_SECONDS = 60.0  # a restarted worker is back in a few
_INSPECT_SECONDS = 180.0  # the first import of everything, on a machine that is busy
_LOOK_SECONDS = 1.0
_TRIES = 2
_KEPT = "What is graded is kept: run the same command again and it goes on from there."


def run(tasks: Iterable[Task], course: Course, lab: str, limits: Limits | None = None, *,
        scheduler: Scheduler, isolated: bool = True, patience: float | None = None,
        notice: Callable[[str], None] = lambda text: None) -> Outcomes:
    """The outcomes of `tasks`, each as soon as it is there, from the workers of a cluster.

    As with the pool of this machine: close what comes back to end early. A submission that a
    worker has begun there runs to its end.

    Every worker must have the grader's own course, tests and packages, and a sandbox that
    works; those that are there at the start and lack one of them are named before anything
    runs. Workers may come and go: `notice` hears of a later one that cannot serve. Without any
    worker for `patience` seconds (60) the run ends with `UnavailableError`; what came before has
    been handed out.
    """
    require_isolation(isolated)
    return _Grader(check(scheduler), list(tasks), limits or Limits(),
                   PATIENCE_SECONDS if patience is None else patience, notice,
                   cluster_worker.identity(course, lab), {"lab": lab, "salt": course.salt})


def require_isolation(isolated: bool) -> None:
    """Refuse to run student code on a cluster without a sandbox: it could reach the scheduler,
    and through it every worker."""
    if not isolated:
        raise InputError("accept_risk", True, "left out together with --scheduler",
                         "Workers run student code in their sandbox or not at all.")


@dataclass
class _Station:
    """One worker as the grader sees it; `flying` maps the places handed to it to futures."""

    address: str
    threads: int
    name: str
    ready: bool = False
    flying: dict[int, Future] = field(default_factory=dict)
    alone: bool = False

    def room(self) -> int:
        """How many more submissions it takes: one per thread, and one that waits."""
        return 0 if self.alone or not self.ready else self.threads + 1 - len(self.flying)


class _Grader:
    """The state of one run on a cluster."""

    def __init__(self, scheduler: Scheduler, tasks: list[Task], limits: Limits, patience: float,
                 notice: Callable[[str], None], identity: dict[str, str],
                 what: dict[str, str]) -> None:
        self._tasks = tasks
        self._what = what
        self._limits = limits
        self._identity = identity
        self._patience = patience
        self._notice = notice
        self._todo = deque(range(len(tasks)))
        self._suspects: deque[int] = deque()
        self._deaths: Counter[int] = Counter()
        self._stations: dict[str, _Station] = {}
        self._refused: dict[str, str] = {}
        self._until: dict[int, float] = {}
        # Without an answer, though the worker may live; True when it ended meanwhile.
        self._adrift: dict[int, bool] = {}
        self._events: queue.SimpleQueue[tuple[_Station, int | None, Future]] = queue.SimpleQueue()
        self._left = len(tasks)
        self._begun = False
        self._client = connect(scheduler)
        self._stream = self._outcomes()
        try:
            self._admit()  # they load everything while the caller makes ready
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Outcome]:
        return self

    def __next__(self) -> Outcome:
        return next(self._stream)

    def close(self) -> None:
        """Take back what no worker has begun, and leave the cluster."""
        for station in self._stations.values():
            self._cancel(list(station.flying.values()))
        self._client.close(timeout=5)

    def _outcomes(self) -> Iterator[Outcome]:
        if self._left:
            self._gather_stations()
        self._begun = True
        seen = time.monotonic()
        while self._left:
            yield from self._look()
            if any(station.ready for station in self._stations.values()):
                seen = time.monotonic()
            elif time.monotonic() - seen > self._patience:
                raise self._deserted()
            self._hand_out()
            yield from self._arrived()
        self._release()

    # Workers

    def _gather_stations(self) -> None:
        """Wait until the workers that are there have said who they are; all must be fit."""
        until = time.monotonic() + self._patience
        while not self._stations:
            self._admit()
            if time.monotonic() > until:
                raise self._deserted()
            if not self._stations:
                time.sleep(min(_LOOK_SECONDS, self._patience))
        until = time.monotonic() + _INSPECT_SECONDS
        while not all(station.ready for station in self._stations.values()):
            list(self._arrived())
            self._admit()
            for station in list(self._stations.values()):
                if not station.ready and time.monotonic() > until:
                    self._refuse(station, f"no answer for {_INSPECT_SECONDS:g} s")
        if self._refused:
            raise UnavailableError(
                "A worker", "; ".join(self._refused.values()) + ".",
                "Bring its checkout and packages to this one's state (binder/constraints.txt "
                "pins them), start it again, or leave it out.")

    def _admit(self) -> list[_Station]:
        """Have new workers looked at; returns those that have gone."""
        try:
            there = self._client.nthreads(callback_timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError, RuntimeError) as problem:
            raise UnavailableError("The scheduler", f"it went away ({type(problem).__name__}).",
                                   f"Start it again. {_KEPT}") from None
        for address, threads in there.items():
            if address not in self._stations and address not in self._refused:
                station = _Station(address, max(1, threads), address)
                self._stations[address] = station
                self._send(station, None, cluster_worker.inspect, json.dumps(self._what))
        gone = [station for address, station in self._stations.items() if address not in there]
        for station in gone:
            del self._stations[station.address]
        return gone

    def _inspected(self, station: _Station, future: Future) -> None:
        """Let a worker serve, or keep the reason why it must not."""
        if station.address not in self._stations:
            return
        try:
            said = json.loads(future.result(timeout=CONNECT_SECONDS))
            station.name = f"{station.address} (host {said['host']}, process {said['process']})"
            reason = said.get("problem") or cluster_worker.difference(
                self._identity, said["identity"])
        except Exception as problem:  # its package may be missing or too old to answer
            reason = f"it could not say who it is ({type(problem).__name__}: {problem})"
        if reason:
            self._refuse(station, reason)
        else:
            station.ready = True

    def _refuse(self, station: _Station, reason: str) -> None:
        del self._stations[station.address]
        self._refused[station.address] = f"{station.name}: {reason}"
        if self._begun:
            self._notice(f"worker left out: {self._refused[station.address]}")

    # Submissions

    def _hand_out(self) -> None:
        while self._suspects:  # alone on a worker, so that nobody else is blamed or lost
            free = [s for s in self._stations.values() if s.ready and not s.flying]
            if not free:
                break
            free[0].alone = True
            self._give(free[0], self._suspects.popleft())
        while self._todo:
            station = max(self._stations.values(), key=_Station.room, default=None)
            if station is None or station.room() < 1 or (self._suspects and station.flying):
                break
            self._give(station, self._todo.popleft())

    def _give(self, station: _Station, place: int) -> None:
        order = {**self._what, "task": self._tasks[place].to_json(),
                 "identity": self._identity, "limits": asdict(self._limits)}
        station.flying[place] = self._send(station, place, cluster_worker.grade,
                                           json.dumps(order))
        # The limits bound a submission long before this, also the one that waits its turn.
        self._until[place] = time.monotonic() + 2 * (3 * self._limits.total_seconds + 60.0)

    def _send(self, station: _Station, place: int | None, what: Callable[[str], str],
              order: str) -> Future:
        # The key names no student: the scheduler's pages show it.
        future = self._client.submit(what, order, workers=[station.address], pure=False,
                                     allow_other_workers=False, retries=0)
        future.add_done_callback(lambda done: self._events.put((station, place, done)))
        return future

    def _arrived(self) -> Iterator[Outcome]:
        """What has come in since the last call; waits a moment when nothing has."""
        wait = True
        while True:
            try:
                station, place, future = self._events.get(timeout=_LOOK_SECONDS if wait else 0)
            except queue.Empty:
                return
            wait = False
            if place is None:
                self._inspected(station, future)
            elif station.flying.get(place) is future:
                yield from self._answered(station, place, future)
            future.release()  # here, because its destructor would swallow a Ctrl-C

    def _answered(self, station: _Station, place: int, future: Future) -> Iterator[Outcome]:
        from distributed import KilledWorker

        if future.status in ("cancelled", "lost"):
            self._adrift[place] = False
            return
        try:
            said = json.loads(future.result(timeout=CONNECT_SECONDS))
        except TimeoutError:  # the answer went with its worker
            self._adrift[place] = False
            return
        except KilledWorker:
            self._adrift[place] = True
            return
        except Exception as problem:  # Dask's own: nothing is raised by what it calls
            said = {"broke": f"{type(problem).__name__}: {problem}"}
        del station.flying[place]
        station.alone = False
        if "broke" in said:
            said = failed(self._tasks[place], f"worker {station.name}: {said['broke']}").to_json()
        if "refused" in said:
            if station.address in self._stations:
                self._refuse(station, str(said["refused"]))
            self._ground(station, [place, *station.flying])
        else:
            self._left -= 1
            yield Outcome.from_json(said)

    # Deaths

    def _look(self) -> Iterator[Outcome]:
        """Notice workers that came, went, or hang; give what they had to others."""
        gone = self._admit()
        now = time.monotonic()
        for station in list(self._stations.values()):
            if any(now > self._until[place] for place in station.flying):
                self._refuse(station, "it did not answer in time")
                gone.append(station)
        for station in gone:
            yield from self._lost(station)
        for station in self._stations.values():
            for place in [place for place in station.flying if place in self._adrift]:
                del station.flying[place]
                station.alone = False
                if self._adrift.pop(place):  # it died and came back under the same address
                    yield from self._blame(station, place)
                else:
                    self._todo.appendleft(place)

    def _lost(self, station: _Station) -> Iterator[Outcome]:
        """A worker died: what it had in work is suspect, what waited there is not."""
        places = list(station.flying)
        self._ground(station, places[station.threads:])
        for place in places[:station.threads]:
            yield from self._blame(station, place)

    def _blame(self, station: _Station, place: int) -> Iterator[Outcome]:
        self._deaths[place] += 1
        if self._deaths[place] < _TRIES:
            self._suspects.append(place)
        else:
            self._left -= 1
            yield failed(self._tasks[place], f"the worker that judged it ended {_TRIES} times "
                                             f"(last: {station.name})")

    def _ground(self, station: _Station, back: list[int]) -> None:
        """Take everything from a worker that serves no more; `back` goes to others first."""
        self._cancel(list(station.flying.values()))
        for place in station.flying:
            self._adrift.pop(place, None)
        station.flying.clear()
        self._todo.extendleft(reversed(back))

    def _cancel(self, futures: list[Future]) -> None:
        with contextlib.suppress(Exception):  # the scheduler may have gone as well
            self._client.cancel(futures, force=True)
            for future in futures:
                future.release()

    def _release(self) -> None:
        """At the end, have the workers end the judges that they keep warm."""
        sent = [self._client.submit(cluster_worker.release, workers=[address], pure=False)
                for address, station in self._stations.items() if station.ready]
        for future in sent:
            with contextlib.suppress(Exception):  # they cost a little memory, no more
                future.result(timeout=5)

    def _deserted(self) -> UnavailableError:
        done = len(self._tasks) - self._left
        left_out = "".join(f" Left out: {reason}." for reason in self._refused.values())
        return UnavailableError(
            "A worker", f"none was there for {self._patience:g} s; {done} of {len(self._tasks)} "
            f"submissions came back.{left_out}",
            f"Start one where the course is installed (`dask worker ADDRESS`). {_KEPT}")
