"""Reading the clock honestly.

An accelerator works behind the program's back: a call returns once the work is
queued. A clock read before the device has finished flatters every result, so each
timer here waits for the device on both sides, or lets the device stamp the time
itself (CUDA events).
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import count, positive
from ._torch import torch

_SHORTEST_ON_MPS = 10e-3


def synchronise(device: torch.device) -> None:
    """Wait until everything queued on `device` is done. A CPU has no queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@contextlib.contextmanager
def on(device: torch.device) -> Iterator[None]:
    """Make `device` current: CUDA events and streams belong to the current device."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            yield
    else:
        yield


def seconds_per_call(call: Callable[[], Any], device: torch.device, repeats: int = 1) -> float:
    """Seconds of one `call`, from `repeats` of them queued back to back.

    On CUDA the device stamps start and end; elsewhere the wall clock is read with the
    device idle before and after.
    """
    with on(device):
        synchronise(device)
        if device.type == "cuda":
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(repeats):
                call()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / 1e3 / repeats
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        synchronise(device)
        return (time.perf_counter() - began) / repeats


def sample(
    call: Callable[[], Any],
    device: torch.device,
    *,
    seconds: float,
    shortest: float = 2e-3,
    least: int = 3,
    most: int = 100,
) -> list[float]:
    """Seconds per call, sampled for about `seconds` after one call of warm-up.

    Each sample repeats the call until it lasts at least `shortest` seconds, so that
    neither the clock's resolution nor one launch shows; on MPS, where each sample ends
    with the wall clock waiting for the device, at least 10 ms. Always at least `least`
    samples, however slow the call.
    """
    positive("seconds", seconds)
    count("least", least)
    if device.type == "mps" and shortest:
        shortest = max(shortest, _SHORTEST_ON_MPS)
    call()  # compiles, allocates, picks an algorithm: not part of the steady state
    once = seconds_per_call(call, device)
    repeats = max(1, min(100_000, round(shortest / max(once, 1e-9))))
    found: list[float] = []
    began = time.perf_counter()
    while len(found) < least or (len(found) < most and time.perf_counter() - began < seconds):
        found.append(seconds_per_call(call, device, repeats))
    return found


def processor_share(seconds: float = 0.1) -> float:
    """The part of its threads' CPU time that this program gets now, from 0 to about 1.

    All threads compute sines; on a quiet machine CPU time passes as fast as the clock on
    each of them. Half of it means that another program takes the other half. (A matrix
    product would not do: some libraries keep to threads of their own number.)
    """
    threads = torch.get_num_threads()
    values = torch.ones(threads * 65_536)  # two of the smallest pieces that PyTorch hands out
    result = torch.sin(values)
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        torch.sin(values, out=result)
    clock = time.perf_counter() - began
    return (time.process_time() - used) / (clock * threads)


@dataclass(frozen=True)
class Spread:
    """Median and interquartile range of samples, in the samples' unit."""

    median: float
    interquartile: float


def spread(samples: list[float]) -> Spread:
    """Median and interquartile range; a single sample has a range of zero.

    The median shrugs off the odd step that met another program; the mean does not.
    """
    count("number of samples", len(samples))
    if len(samples) == 1:
        return Spread(samples[0], 0.0)
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(middle, high - low)
