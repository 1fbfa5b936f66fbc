"""Threads against processes for preparing data, and what Python's global lock does to each.

Two transformations of the same text: one in plain Python, which holds the interpreter's
lock all the while, and one in a native library, which lets go of it. Each is run by growing
numbers of threads and of processes. Plain Python gains nothing from threads on an
interpreter with that lock; processes have one each.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack

from ..errors import count, number
from ..results_instruments import WorkerRate, WorkersMeasurement
from . import host, loader, timing
from .device import Device, find
from .origin import origin, timed
from .pipeline import usual_workers

_ROUNDS = 3
_TEXT = "def add(first, second):\n    return first + second\n\n\n" * 40


def python_transform(text: str) -> int:
    """Work that holds the lock: a checksum, character by character."""
    total = 0
    for character in text:
        total = (31 * total + ord(character)) % 65_521
    return total


def native_transform(text: str) -> int:
    """Work that lets go of the lock: compression in C."""
    return len(zlib.compress(text.encode() * 4, 9))


TRANSFORMS: dict[str, Callable[[str], int]] = {
    "python": python_transform, "native": native_transform}


def measure_workers(
    workers: Sequence[int] | None = None,
    *,
    items: int = 400,
    device: str | Device | None = None,
    seconds: float = 10.0,
) -> WorkersMeasurement:
    """Items per second of both transformations by threads and by processes.

    `workers` are their numbers (default: 1, 2, ... up to the CPUs here, at most 4; 1 is
    always among them). A sample is `items` items handed out together; `seconds` is about
    how long it takes beyond starting the processes.
    """
    here = find(device)
    count("items", items)
    budget = number("seconds", seconds, low=0.05, high=600.0, unit="s")
    counts = sorted({count("workers", n, high=64)
                     for n in (workers if workers is not None else usual_workers()) if n} | {1})
    share = timing.processor_share()
    samples: dict[tuple[str, str, int], list[float]] = {}
    with ExitStack() as stack:
        pools = {(kind, n): stack.enter_context(_pool(kind, n))
                 for kind in ("thread", "process") for n in counts}
        for (_, n), pool in pools.items():  # starts the processes, too
            list(pool.map(python_transform, [_TEXT] * n))
        todo = [(*place, name) for name in TRANSFORMS for place in pools]
        ends = time.perf_counter() + budget
        turn = 0
        while turn < _ROUNDS or (time.perf_counter() < ends and turn < 20):
            for kind, n, name in todo:
                began = time.perf_counter()
                _share_out(pools[kind, n], TRANSFORMS[name], items, n)
                samples.setdefault((name, kind, n), []).append(time.perf_counter() - began)
            turn += 1
    found = []
    for (name, kind, n), taken in samples.items():
        found.append(WorkerRate(transform=name, kind=kind, workers=n, samples=taken,
                                items_per_second=items / timed(name, taken).seconds))
    return WorkersMeasurement(
        **origin(here), items=items, has_global_lock=has_global_lock(), rates=found,
        notes={**host.circumstances(here.threads, share),
               "start": f"Processes are started by {loader.start_method()!r}, before the clock."})


def has_global_lock() -> bool:
    """Whether only one thread of this interpreter runs Python at a time."""
    enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return enabled()


def _pool(kind: str, workers: int) -> Executor:
    if kind == "thread":
        return ThreadPoolExecutor(workers)
    return ProcessPoolExecutor(workers, multiprocessing.get_context(loader.start_method()))


def _share_out(pool: Executor, transform: Callable[[str], int], items: int,
               workers: int) -> None:
    """Each worker gets its part at once, so that handing out costs next to nothing."""
    parts = [items // workers + (n < items % workers) for n in range(workers)]
    results = [pool.submit(_several, transform, part) for part in parts]
    for result in results:
        result.result()


def _several(transform: Callable[[str], int], times: int) -> int:
    return sum(transform(_TEXT) for _ in range(times))
