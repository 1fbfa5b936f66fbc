"""Pipelines played out in time: who works on which batch, when, and who waits.

A schedule is a list of `Event`s, ready to be drawn. `serial` and `overlapped` give
the two timelines of sections 1.1 and 1.5.2; `scaling.pipeline` uses the same events
for model stages on several accelerators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import InputError, count, positive


@dataclass(frozen=True)
class Stage:
    """One stage: its seconds per batch, and how many batches it works on at once."""

    name: str
    seconds: float
    workers: int = 1

    def __post_init__(self) -> None:
        positive(f"{self.name}.seconds", self.seconds)
        count(f"{self.name}.workers", self.workers)


@dataclass(frozen=True)
class Event:
    """One piece of work: `stage` handles `batch` from `start` to `end`, in seconds."""

    stage: str
    batch: int
    start: float
    end: float
    worker: int = 0
    kind: str = ""

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.end - self.start


@dataclass(frozen=True)
class Gap:
    """A stretch in which a stage waits: an accelerator bubble if the stage is compute."""

    stage: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long the wait lasts."""
        return self.end - self.start


def serial(stages: Sequence[Stage], batches: int) -> list[Event]:
    """Every stage of a batch in a row, then the next batch: nothing overlaps."""
    _checked(stages)
    now, events = 0.0, []
    for batch in range(count("batches", batches)):
        for stage in stages:
            events.append(Event(stage.name, batch, now, now + stage.seconds))
            now += stage.seconds
    return events


def overlapped(stages: Sequence[Stage], batches: int, buffer: int = 2) -> list[Event]:
    """Stages work on different batches at once, with at most `buffer` batches in between.

    A stage starts a batch when the stage before has finished it, one of its workers is
    free, and the next stage has taken all but `buffer` of the earlier ones (a full
    buffer stops the producer, as a bounded prefetch queue does).
    """
    _checked(stages)
    depth = count("buffer", buffer)
    starts: list[list[float]] = [[] for _ in stages]
    ends: list[list[float]] = [[] for _ in stages]
    events = []
    for batch in range(count("batches", batches)):
        for k, stage in enumerate(stages):
            ready = ends[k - 1][batch] if k else 0.0
            if batch >= stage.workers:
                ready = max(ready, ends[k][batch - stage.workers])
            room = batch - depth - (stage.workers - 1)
            if k + 1 < len(stages) and room >= 0:
                ready = max(ready, starts[k + 1][room])
            starts[k].append(ready)
            ends[k].append(ready + stage.seconds)
            events.append(Event(stage.name, batch, ready, ready + stage.seconds,
                                worker=batch % stage.workers))
    return sorted(events, key=lambda event: (event.start, event.end))


def makespan(events: Iterable[Event]) -> float:
    """Seconds from the first start to the last end."""
    known = list(events)
    if not known:
        raise InputError("events", [], "a schedule with at least one event")
    return max(e.end for e in known) - min(e.start for e in known)


def busy_seconds(events: Iterable[Event], stage: str) -> float:
    """Seconds in which at least one worker of `stage` is busy."""
    busy, reached = 0.0, float("-inf")
    for event in sorted(_of(events, stage), key=lambda e: e.start):
        busy += max(0.0, event.end - max(event.start, reached))
        reached = max(reached, event.end)
    return busy


def utilisation(events: Iterable[Event], stage: str) -> float:
    """Share of the whole schedule in which `stage` is busy."""
    known = list(events)
    return busy_seconds(known, stage) / makespan(known)


def gaps(events: Iterable[Event], stage: str) -> list[Gap]:
    """The waits of `stage`, from the start of the schedule to its end."""
    known = list(events)
    begin = min(e.start for e in known) if known else 0.0
    end = begin + makespan(known)
    found, reached = [], begin
    for event in sorted(_of(known, stage), key=lambda e: e.start):
        if event.start > reached:
            found.append(Gap(stage, reached, event.start))
        reached = max(reached, event.end)
    if end > reached:
        found.append(Gap(stage, reached, end))
    return found


def interval(events: Iterable[Event], stage: str) -> float:
    """Seconds between the last two completions of `stage`: the settled pace."""
    ends = sorted(e.end for e in _of(events, stage))
    if len(ends) < 2:
        raise InputError("events", len(ends), "a schedule with at least two batches",
                         "Play more batches to see a pace.")
    return ends[-1] - ends[-2]


def _of(events: Iterable[Event], stage: str) -> list[Event]:
    found = [e for e in events if e.stage == stage]
    if not found:
        raise InputError("stage", stage, "the name of a stage of this schedule")
    return found


def _checked(stages: Sequence[Stage]) -> None:
    names = [stage.name for stage in stages]
    if not names or len(set(names)) != len(names):
        raise InputError("stages", names, "at least one stage, each with its own name")
