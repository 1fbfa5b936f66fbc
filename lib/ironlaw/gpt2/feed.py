"""From a corpus to the device: batches made ahead, by other processes if asked, in order.

`Batches` makes any batch from its position alone. So worker processes can make batches
ahead of time, the order is that without workers, and what a checkpoint keeps is one number:
the position after the last batch that was really used, whatever is ready beyond it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from ..errors import count
from .corpus import Batches

PREFETCH = 2
"""Batches that each worker keeps ready, PyTorch's own default."""


class Feed:
    """Deals out the batches of `source` on `device`; close it, or use it as a context.

    `workers` processes cut batches ahead (0: this one does it when asked). Memory is
    page-locked for CUDA only, whose copies then run beside the computation.
    """

    def __init__(self, source: Batches, device: torch.device, workers: int = 0) -> None:
        self.source, self.device = source, device
        self.workers = count("loader_workers", workers, low=0, high=64)
        self._ready: deque[tuple[Tensor, Tensor]] = deque()
        self._position = source.position
        self._stream: Iterator[list[Tensor]] | None = None

    @property
    def position(self) -> int:
        """Sequences dealt out so far. Setting it goes on from there, and drops what is ready."""
        return self._position

    @position.setter
    def position(self, value: int) -> None:
        self.close()
        self._position = self.source.position = value

    def next(self) -> tuple[Tensor, Tensor]:
        """Tokens [B, S] and targets [B, S] on the device."""
        self.prepare(1)
        self._position += self.source.batch
        return self._ready.popleft()

    def prepare(self, batches: int) -> None:
        """See to it that so many batches are on their way to the device."""
        # CUDA keeps page-locked memory until its copy has ended; elsewhere a copy that runs on
        # could read memory that was given back meanwhile.
        runs_on = self.device.type == "cuda"
        while len(self._ready) < batches:
            inputs, targets = self._made()
            self._ready.append((inputs.to(self.device, non_blocking=runs_on),
                                targets.to(self.device, non_blocking=runs_on)))

    def close(self) -> None:
        """End the workers and drop what is ready."""
        self._ready.clear()
        stream, self._stream = self._stream, None
        shutdown = getattr(stream, "_shutdown_workers", None)
        if shutdown is not None:
            shutdown()  # now, rather than when the garbage is collected
        self.source.position = self._position

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _made(self) -> list[Tensor]:
        pinned = self.device.type == "cuda"
        if not self.workers:
            arrays = self.source.next()
            made = [torch.from_numpy(array.copy()) for array in arrays]
            return [tensor.pin_memory() for tensor in made] if pinned else made
        if self._stream is None:
            self._stream = self._started(pinned)
        return next(self._stream)

    def _started(self, pinned: bool) -> Iterator[list[Tensor]]:
        start = self._position + len(self._ready) * self.source.batch
        with _ctrl_c_waits():
            return iter(loader(self.source, start, self.workers, pinned))


class _Positions(Sampler[int]):
    """The positions of one batch after the other, without end."""

    def __init__(self, start: int, step: int) -> None:
        self.start, self.step = start, step

    def __iter__(self) -> Iterator[int]:
        position = self.start
        while True:
            yield position
            position += self.step


class _ByPosition(Dataset[list[Tensor]]):
    """Batches by position. A memory-mapped corpus travels to a worker as its path."""

    def __init__(self, source: Batches) -> None:
        self.source: Batches | None = source
        tokens = source.tokens
        file = tokens.filename if isinstance(tokens, np.memmap) else None
        self._recipe = (str(file) if file else tokens, source.batch, source.seq, source.seed)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": None, "_recipe": self._recipe}

    def __getitem__(self, position: int) -> list[Tensor]:
        if self.source is None:
            tokens, *sizes = self._recipe
            if isinstance(tokens, str):
                tokens = np.memmap(tokens, dtype=np.uint16, mode="r")
            self.source = Batches(tokens, *sizes)
        self.source.position = position
        return [torch.from_numpy(array.copy()) for array in self.source.next()]


def loader(source: Batches, start: int, workers: int, pinned: bool) -> DataLoader[list[Tensor]]:
    """A DataLoader over `source` from position `start` on, with `workers` processes."""
    context = multiprocessing.get_context(start_method())
    if context.get_start_method() == "forkserver":
        # Imported once there and inherited, instead of once in every worker.
        context.set_forkserver_preload([__name__])
    return DataLoader(_ByPosition(source), batch_size=None, num_workers=workers,
                      sampler=_Positions(start, source.batch), pin_memory=pinned,
                      multiprocessing_context=context, prefetch_factor=PREFETCH, timeout=120,
                      worker_init_fn=_leave_ctrl_c_to_the_trainer)


@contextlib.contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Processes that begin in here never hear Ctrl-C; this one hears it when they have begun.

    A worker could otherwise be gone before it came to say that it ignores it. What is blocked
    is inherited. Windows cannot block signals: there a worker's own word must do.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Python starts this helper along with the first worker, and lifts the block when it does.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave_ctrl_c_to_the_trainer(worker: int) -> None:
    """A terminal sends Ctrl-C to every process; the trainer still needs batches to stop safely."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def start_method() -> str:
    """How workers start: never by forking this process, in which CUDA may be running.

    A forked copy inherits CUDA's state and locks without the threads that serve them, and
    hangs. "forkserver" forks from a clean process that has only imported; where the system
    has none, "spawn" starts Python afresh.
    """
    known = multiprocessing.get_all_start_methods()
    return "forkserver" if "forkserver" in known else "spawn"
