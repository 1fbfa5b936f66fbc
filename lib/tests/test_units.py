"""How quantities are printed: prefixes, digits, dollars."""

from __future__ import annotations

import pytest
from ironlaw.units import counted, dollars, duration, si


@pytest.mark.parametrize(("value", "digits", "words"), [
    (662_032, 3, "$662,000"), (662_032, 2, "$660,000"), (50_000, 3, "$50,000"),
    (999_999.7, 3, "$1.00 million"), (1_234_567, 3, "$1.23 million"), (123, 3, "$123"),
    (99.5, 3, "$99.50"), (0.5, 3, "$0.50"), (-662_032, 3, "$-662,000"), (0, 3, "$0.00")])
def test_dollars_keep_to_their_digits(value: float, digits: int, words: str) -> None:
    assert dollars(value, digits) == words


def test_one_of_something_is_singular() -> None:
    assert [counted(n, "step") for n in (0, 1, 1024)] == ["0 steps", "1 step", "1,024 steps"]


def test_micro_is_the_greek_letter() -> None:
    assert duration(4.41e-4) == "441 \N{MICRO SIGN}s"
    assert si(8e-5, "s") == "80.0 \N{MICRO SIGN}s"
