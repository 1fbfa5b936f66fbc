"""One way to say that an input is wrong, and one way to say that something is absent.

Every message names the argument, the value that was given, what is allowed, and
what to do next: a learner who reads it can go on without asking anybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


class IronlawError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(IronlawError, ValueError):
    """An argument lies outside what the function accepts.

    Attributes: `argument` (its name), `value` (as given), `allowed` (in words),
    `next_step` (what to do about it). `allowed` ends the sentence "it must be ...", so
    it names a thing ("a whole number of at least 1") or a relation ("less than ...").
    """

    def __init__(self, argument: str, value: Any, allowed: str, next_step: str = "") -> None:
        self.argument = argument
        self.value = value
        self.allowed = allowed
        self.next_step = next_step or f"Change {argument} and try again."
        super().__init__(argument, value, allowed, self.next_step)

    def __str__(self) -> str:
        shown = repr(self.value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        return f"{self.argument} = {shown}, but it must be {self.allowed}. {self.next_step}"


class UnavailableError(IronlawError):
    """A library, a device or a file that this call needs is not there.

    Attributes: `what` is missing, `why` it is needed here, `next_step` to get it.
    """

    def __init__(self, what: str, why: str, next_step: str) -> None:
        self.what = what
        self.why = why
        self.next_step = next_step
        super().__init__(what, why, next_step)

    def __str__(self) -> str:
        return f"{self.what} is not available: {self.why} {self.next_step}"


def number(
    argument: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: float | None = None,
    unit: str = "",
    next_step: str = "",
) -> float:
    """Return `value` as a float, or raise `InputError`.

    `low` and `high` are inclusive bounds; `above` is an exclusive lower bound.
    Strings, booleans, NaN, infinities and arrays are refused: a silent conversion
    is how a wrong unit survives.
    """
    allowed = _range_in_words("a finite number", low, high, above, unit)
    return _number(argument, value, allowed, low, high, above, next_step)


def _number(argument: str, value: Any, allowed: str, low: float, high: float,
            above: float | None = None, next_step: str = "") -> float:
    """The float of `value`, or an error that says what is `allowed`."""
    if isinstance(value, bool | str | bytes) or value is None:
        raise InputError(argument, value, allowed, next_step)
    if getattr(value, "shape", ()) != ():
        raise InputError(argument, value, allowed, next_step)
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(argument, value, allowed, next_step) from None
    out_of_range = result < low or result > high or (above is not None and result <= above)
    if not math.isfinite(result) or out_of_range:
        raise InputError(argument, value, allowed, next_step)
    return result


def positive(argument: str, value: Any, *, unit: str = "", next_step: str = "") -> float:
    """Return `value` as a finite float greater than zero, or raise `InputError`."""
    return number(argument, value, above=0.0, unit=unit, next_step=next_step)


def not_negative(argument: str, value: Any, *, unit: str = "", next_step: str = "") -> float:
    """Return `value` as a finite float of at least zero, or raise `InputError`."""
    return number(argument, value, low=0.0, unit=unit, next_step=next_step)


def fraction(argument: str, value: Any, *, next_step: str = "") -> float:
    """Return `value` as a float in (0, 1], or raise `InputError`.

    Utilisations are fractions here, never percentages: 0.38, not 38.
    """
    step = next_step or f"{argument} is a fraction: write 0.38 for 38 %."
    return number(argument, value, above=0.0, high=1.0, next_step=step)


def count(argument: str, value: Any, *, low: int = 1, high: int | None = None) -> int:
    """Return `value` as a whole number in [low, high], or raise `InputError`."""
    ceiling = math.inf if high is None else float(high)
    allowed = _range_in_words("a whole number", float(low), ceiling, None, "")
    result = _number(argument, value, allowed, float(low), ceiling)
    if result != int(result):
        raise InputError(argument, value, allowed)
    return int(value)


def choice(argument: str, value: Any, allowed: Iterable[str]) -> str:
    """Return `value` when it is one of `allowed`, or raise `InputError` with the nearest match."""
    import difflib

    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else ""
    raise InputError(argument, value, "one of " + ", ".join(map(repr, names)), hint)


def _range_in_words(
    what: str, low: float, high: float, above: float | None, unit: str
) -> str:
    words = what
    if above is not None:
        words += f" greater than {above:g}"
    elif math.isfinite(low):
        words += f" of at least {low:g}"
    if math.isfinite(high):
        words += f" and at most {high:g}"
    return f"{words} {unit}".strip()
