"""What a problem's answer is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace


@dataclass(frozen=True)
class Slip:
    """A plausible mistake: what was done, in words that fit after "That is what comes out",
    and the wrong value, from the figures and the right answer."""

    words: str
    value: Callable[[SimpleNamespace, float], float]


@dataclass(frozen=True)
class Answer:
    """The right answer as a function of the figures, and the slips that must be refused."""

    solve: Callable[[SimpleNamespace], float]
    slips: tuple[Slip, ...]


def times(factor: float, words: str) -> Slip:
    """The slip that leads to `factor` times the right answer."""
    return Slip(words, lambda g, right: factor * right)


FRACTION = times(1 / 100, "as a fraction of one; this one asks for percent")
FORWARD_ONLY = "when only the forward pass is counted, 2 P D instead of 6 P D"
IN_GIB = times(1e9 / 2**30, "in GiB of 2³⁰ bytes; this one asks for GB of 10⁹ bytes")
