"""Gradient accumulation: one update from k micro-batches (equations 17 and 18, table 14).

Symbols: b micro-batch, k micro-batches per update, N accelerators, B = N k b. Taught
in chapter 5 (section 1.5.5, Napkin math 1.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError, count, not_negative, positive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def accelerators_for_batch(global_batch: int, micro_batch: int) -> int:
    """Accelerators that hold `global_batch` at once, each `micro_batch` of it."""
    return -(-count("global_batch", global_batch) // count("micro_batch", micro_batch))


def local_batch(micro_batch: int, steps: int) -> int:
    """Samples that one accelerator adds up before an update, k b."""
    return count("micro_batch", micro_batch) * count("steps", steps)


def global_batch(accelerators: int, micro_batch: int, steps: int) -> int:
    """Samples behind one update of all accelerators, B = N k b."""
    return count("accelerators", accelerators) * local_batch(micro_batch, steps)


def steps_for_batch(global_batch: int, micro_batch: int, accelerators: int = 1) -> int:
    """k that reaches `global_batch` exactly, or `InputError` naming the nearest batches."""
    wanted = count("global_batch", global_batch)
    at_once = count("micro_batch", micro_batch) * count("accelerators", accelerators)
    steps, rest = divmod(wanted, at_once)
    if rest or not steps:
        low, high = max(1, steps) * at_once, (steps + 1) * at_once
        raise InputError("global_batch", global_batch,
                         f"a multiple of accelerators x micro_batch = {at_once}",
                         f"The nearest are {low} and {high}." if low != high
                         else f"The smallest is {low}.")
    return steps


def activation_reduction(effective_batch: int, micro_batch: int) -> float:
    """B / b: by how much accumulation divides activation memory (table 14)."""
    return count("effective_batch", effective_batch) / count("micro_batch", micro_batch)


def wall_clock_ratio(resident_accelerators: int, accumulating_accelerators: int) -> float:
    """How much longer the same work takes on fewer accelerators, at equal efficiency."""
    return count("resident_accelerators", resident_accelerators) / count(
        "accumulating_accelerators", accumulating_accelerators)


def accumulated_gradient(
    per_example: NDArray[np.float64], micro_batch: int
) -> NDArray[np.float64]:
    """Equation 17, right side: the mean over micro-batches of each micro-batch's mean.

    `per_example` is (B, ...), one gradient per example; B must be a multiple of
    `micro_batch`. Equals the mean over all B. With micro-batches of unequal size (or
    of unequal token counts) the mean of means is a different number: weigh by size.
    """
    import numpy as np

    gradients = np.asarray(per_example, dtype=np.float64)
    b = count("micro_batch", micro_batch)
    if gradients.ndim == 0 or gradients.shape[0] == 0 or gradients.shape[0] % b:
        raise InputError("micro_batch", micro_batch,
                         f"a divisor of the batch, {gradients.shape[:1]}")
    parts = gradients.reshape(gradients.shape[0] // b, b, *gradients.shape[1:])
    return np.asarray(parts.mean(axis=1).mean(axis=0))


def update_seconds(
    micro_seconds: Sequence[float],
    sync_seconds: float,
    optimizer_seconds: float,
    *,
    sync_every_micro_batch: bool = False,
) -> float:
    """Equation 18: T_effective = sum of T_micro,j + T_sync + T_update.

    Without `no_sync` (`sync_every_micro_batch`) the exchange is paid k times.
    """
    times = [positive(f"micro_seconds[{j}]", t) for j, t in enumerate(micro_seconds)]
    if not times:
        raise InputError("micro_seconds", micro_seconds, "at least one time")
    exchanges = len(times) if sync_every_micro_batch else 1
    return (sum(times) + exchanges * not_negative("sync_seconds", sync_seconds)
            + not_negative("optimizer_seconds", optimizer_seconds))


@dataclass(frozen=True)
class AccumulationEffect:
    """Table 14 in numbers: one batch at once against k micro-batches of it.

    Ratios are accumulated over resident; 1 means unchanged.
    """

    activation_bytes: float
    flops: float
    passes: int
    exchanges: int


def table_14(effective_batch: int, micro_batch: int) -> AccumulationEffect:
    """Table 14: activations fall to b / B, FLOP stay, k passes, one exchange with `no_sync`."""
    k = steps_for_batch(count("effective_batch", effective_batch), micro_batch)
    return AccumulationEffect(activation_bytes=micro_batch / effective_batch, flops=1.0,
                              passes=k, exchanges=1)
