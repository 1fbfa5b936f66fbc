"""Unit constants and the way this course prints quantities.

GB is 10^9 bytes and GiB is 2^30: the document and vendors' data sheets use the
first, allocators report the second, and the difference is 7 % at this scale.
"""

from __future__ import annotations

import math

KILO, MEGA, GIGA, TERA, PETA = 1e3, 1e6, 1e9, 1e12, 1e15
KB, MB, GB, TB = KILO, MEGA, GIGA, TERA
KIB, MIB, GIB = 2.0**10, 2.0**20, 2.0**30
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
WEEK, YEAR = 7 * DAY, 365.25 * DAY
KWH = 3.6e6  # joules

_PREFIXES = ((1e24, "Y"), (1e21, "Z"), (1e18, "E"), (PETA, "P"), (TERA, "T"), (GIGA, "G"),
             (MEGA, "M"), (KILO, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits, thousands separated, no exponent below 1e15."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def si(value: float, unit: str = "", digits: int = 3) -> str:
    """`value` with a decimal prefix: ``si(3.12e14, "FLOP/s") == "312 TFLOP/s"``."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".strip()
    for scale, prefix in _PREFIXES:
        if abs(value) >= scale * (1 - 0.5 * 10**-digits):
            return f"{significant(value / scale, digits)} {prefix}{unit}".strip()
    return f"{value:.{digits - 1}e} {unit}".strip()


def gigabytes(value: float, digits: int = 3) -> str:
    """Bytes as decimal units (kB, MB, GB, TB)."""
    return si(value, "B", digits)


def gibibytes(value: float, digits: int = 4) -> str:
    """Bytes as binary units (KiB, MiB, GiB)."""
    for scale, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(value) >= scale:
            return f"{significant(value / scale, digits)} {name}"
    return f"{value:g} B"


def memory(value: float, digits: int = 4) -> str:
    """Bytes in decimal units, with an allocator's binary ones in brackets from 1 KiB up."""
    decimal = gigabytes(value, digits)
    return f"{decimal} ({gibibytes(value, digits)})" if abs(value) >= KIB else decimal


def duration(seconds: float, digits: int = 3) -> str:
    """Seconds in the unit a reader would choose: ms, s, minutes, hours, days or years."""
    if not math.isfinite(seconds):
        return f"{seconds:g} s"
    for scale, name in ((YEAR, "years"), (DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")):
        if abs(seconds) >= 2 * scale:
            return f"{significant(seconds / scale, digits)} {name}"
    return si(seconds, "s", digits)


def dollars(value: float, digits: int = 3) -> str:
    """US dollars, in words from a million up: ``dollars(662_032) == "$662,000"``.

    Below 100 dollars the cents are kept, whatever `digits` says: those are prices.
    """
    if abs(value) >= 100 and math.isfinite(value):
        value = float(f"{value:.{digits - 1}e}")
    for scale, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(value) >= scale:
            return f"${significant(value / scale, digits)} {name}"
    return f"${value:,.0f}" if abs(value) >= 100 else f"${value:,.2f}"


def counted(number: int, noun: str) -> str:
    """How many of something: ``counted(1, "step") == "1 step"``, ``"1,024 steps"``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float, digits: int = 3) -> str:
    """A share of one as a percentage."""
    return f"{significant(100 * share, digits)} %"
