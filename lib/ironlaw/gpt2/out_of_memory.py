"""Every kind of "out of memory", as one error that says what was asked for and what was there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..config import RunConfig
from ..errors import IronlawError
from ..units import memory

_SIGNS = ("out of memory", "allocate memory", "ALLOC_FAILED")
"""CUDA and MPS; the CPU's allocator; cuBLAS, which reports a status of its own."""


class OutOfMemoryError(IronlawError):
    """A step asked for more memory than there is. `run` is what was asked for.

    `there` is that part of the device's memory which this process could have had, in bytes, or
    None where nobody tells.
    """

    def __init__(self, run: RunConfig, device: str, there: float | None, words: str,
                 advice: str = "") -> None:
        self.run, self.device, self.there, self.words = run, device, there, words
        loss = f", loss in slices of {run.loss_rows} tokens" if run.loss_rows else ""
        room = f" There were {memory(there)} for it." if there is not None else ""
        advice = advice or ("Halve --batch and double --accumulate, which trains the same, or "
                            "use --recompute every-block.")
        super().__init__(
            f"Memory ran out on {device}: {run.model} with {run.batch} sequences of "
            f"{run.sequence} tokens in {run.precision}, {run.attention} attention, recompute "
            f"{run.recompute}{loss}.{room} PyTorch said: {words} {advice}")

    def advised(self, advice: str, there: float | None = None) -> OutOfMemoryError:
        """The same error with other advice, and with what was `there` where it is not known."""
        there = self.there if self.there is not None else there
        return OutOfMemoryError(self.run, self.device, there, self.words, advice)


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether `problem` is a device or the host that ran out of memory."""
    if isinstance(problem, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(problem, RuntimeError) and any(sign in str(problem) for sign in _SIGNS)


@contextmanager
def memory_errors(run: RunConfig, device: torch.device) -> Iterator[None]:
    """Turn an out-of-memory error of any kind into `OutOfMemoryError`; let others pass."""
    try:
        yield
    except (RuntimeError, MemoryError) as problem:
        if not is_out_of_memory(problem):
            raise
        words = str(problem).strip().splitlines()[0] if str(problem).strip() else "out of memory"
        raise OutOfMemoryError(run, str(device), _there(device), words) from problem


def _there(device: torch.device) -> float | None:
    """What is free, and what this process holds already."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return float(free + torch.cuda.memory_reserved(device))
