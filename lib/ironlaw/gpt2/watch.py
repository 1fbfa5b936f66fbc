"""Watching the loss: what counts as a spike, and how often a run may go back because of one.

In PaLM's training the loss shot up about 20 times. Its authors went back to a checkpoint from
some time before, left out the batches that had been seen around the spike, and trained on; the
spike did not return, although the same batches did no harm elsewhere. Here the same is done
without a person: `LossWatch` says that a step is a spike, and the trainer goes back and skips.

It is off unless a run asks for it (`TrainSettings.rewinds`). A rewind throws steps away and
changes which text a model sees, and so does a false alarm; a run of some hundred steps is
better looked at by the person who started it.

Source: Chowdhery et al. 2022, "PaLM: Scaling Language Modeling with Pathways", section 5.1.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import IronlawError
from .settings import TrainSettings

WINDOW = 32
"""Steps before the present one that say what is usual."""
ENOUGH = 8
"""Fewer steps than this say nothing: only a loss that is no number is a spike then."""
THRESHOLD = 8.0
"""How many robust standard deviations above the usual a spike is.

Batches of text differ, and a few are odd: over 500 steps of 128 tokens of the standard
library, a small batch, the oddest loss was 4.0 deviations up. No step of that run was bad.
"""
LEAST_DEVIATION = 0.02
"""Nats. Losses that hardly differ would make a spike of every ripple."""
SAFE_DISTANCE = 3
"""Steps between a spike and the checkpoint to go back to, where there is one so far back:
what shows at one step may have begun a few steps before."""
_NORMAL = 1.4826  # the standard deviation of a normal distribution over its median deviation


class NonFiniteLossError(IronlawError):
    """The loss or its gradient is no longer a number."""


class SpikeError(IronlawError):
    """Step `at` is a spike and the run may go back. The trainer catches this one."""

    def __init__(self, at: int, what: str) -> None:
        self.at, self.what = at, what
        super().__init__(f"{what} at step {at}.")


@dataclass(frozen=True)
class Rewind:
    """One return: from the spike at step `at` back to `to`, leaving out `skipped` batches.

    A batch here is what one optimizer step takes. `why` says what was seen.
    """

    at: int
    to: int
    skipped: int
    why: str

    def __str__(self) -> str:
        return (f"{self.why} at step {self.at}: back to step {self.to}, "
                f"{self.skipped} batches of text left out")

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return asdict(self)


def robust_z(losses: Sequence[float], loss: float) -> float:
    """How far `loss` lies above the median of `losses`, in robust standard deviations.

    The deviation is 1.4826 times the median distance from the median, at least
    `LEAST_DEVIATION`: one old spike among `losses` hardly moves either median, while it
    would inflate a mean and a standard deviation until the next spike looked usual.
    """
    middle = statistics.median(losses)
    deviation = _NORMAL * statistics.median(abs(value - middle) for value in losses)
    return (loss - middle) / max(deviation, LEAST_DEVIATION)


class LossWatch:
    """Decides, from each step's loss and gradient norm, whether the run may go on.

    It keeps nothing but the `rewinds` made so far: the losses before a step are handed in,
    so that a resumed run decides as an unbroken one.
    """

    def __init__(self, settings: TrainSettings) -> None:
        self.scaled = settings.run.precision == "amp-fp16"
        self.limit = settings.rewinds
        self.rewinds: list[Rewind] = []

    def check(self, at: int, loss: float, gradient_norm: float,
              before: Sequence[float] = ()) -> None:
        """Raise when step `at` went wrong; `before` are the losses up to it, oldest first.

        `SpikeError` while rewinds are left. After that a spike passes, and a value that is
        not finite raises `NonFiniteLossError`.
        """
        broken = ""
        if not math.isfinite(loss):
            broken = f"The loss is {loss}"
        # Loss scaling meets infinite gradients on purpose: it skips that update itself.
        elif not math.isfinite(gradient_norm) and not self.scaled:
            broken = f"The gradient norm is {gradient_norm}"
        if len(self.rewinds) < self.limit:
            what = broken or self._spike(loss, before)
            if what:
                raise SpikeError(at, what)
        if broken:
            raise NonFiniteLossError(
                f"{broken} at step {at}: training has diverged, and no later step can "
                "mend it. Lower --lr, or use --precision amp-bf16 or fp32 if it was a 16-bit "
                "float; --rewinds 3 goes back and leaves out the text around it. The checkpoints "
                "of this run are from before and stay as they are.")

    def note(self) -> str:
        """The rewinds so far in words, for the result."""
        made = "; ".join(str(rewind) for rewind in self.rewinds) or "none needed"
        return f"{len(self.rewinds)} of at most {self.limit}: {made}"

    def _spike(self, loss: float, before: Sequence[float]) -> str:
        recent = before[-WINDOW:]
        if len(recent) < ENOUGH:
            return ""
        z = robust_z(recent, loss)
        if z <= THRESHOLD:
            return ""
        return (f"A loss of {loss:.3f} where {statistics.median(recent):.3f} is usual "
                f"(robust z-score {z:.1f})")
