"""Before and after: the ways in which two numbers of one kind are compared.

A speed-up of 1.8x and a saving of 44.4 % describe the same change; mixing the two is
the commonest slip when results are quoted, so each has one name here.
"""

from __future__ import annotations

from ..errors import InputError, fraction, not_negative, positive


def ratio(value: float, baseline: float) -> float:
    """How many times `baseline` goes into `value` (both in the same unit)."""
    return positive("value", value) / positive("baseline", baseline)


def speedup(before_seconds: float, after_seconds: float) -> float:
    """Old time over new time: 2 means twice as fast."""
    return positive("before_seconds", before_seconds) / positive("after_seconds", after_seconds)


def seconds_after_speedup(before_seconds: float, speedup: float) -> float:
    """The new time when the old one is divided by `speedup`."""
    return positive("before_seconds", before_seconds) / positive("speedup", speedup)


def seconds_after_saving(before_seconds: float, saved_share: float) -> float:
    """The new time when a share of the old one is saved; 0.45 saves 45 %."""
    return positive("before_seconds", before_seconds) * (1.0 - fraction("saved_share",
                                                                        saved_share))


def saved(before: float, after: float) -> float:
    """What is saved: before - after; refused when nothing is."""
    return _before(before, after) - after


def saved_share(before: float, after: float) -> float:
    """The saving as a share of `before`; `1 - 1 / speedup` when these are times."""
    return 1.0 - after / _before(before, after)


def _before(before: float, after: float) -> float:
    start, end = positive("before", before), not_negative("after", after)
    if end > start:
        raise InputError("after", after, f"at most before = {before:g}",
                         "This is an increase; compare with `ratio` instead.")
    return start
