"""Number formats, exactly: range, spacing, rounding, underflow (section 1.5.3, table 10).

A format has e exponent bits, f fraction bits and the bias 2^(e-1) - 1. The largest
exponent is IEEE's, reserved for infinity and NaN, except in E4M3, which gives up
infinity and all but one NaN for more range (Micikevicius et al. 2022). Taught in
chapter 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError, choice, count, number, positive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def largest(exponent_bits: int, fraction_bits: int) -> float:
    """Largest finite value of an IEEE-style format, (2 - 2^-f) x 2^(2^(e-1) - 1)."""
    e, f = _bits(exponent_bits, fraction_bits)
    return math.ldexp(2.0 - 2.0**-f, 2 ** (e - 1) - 1)


def smallest_normal(exponent_bits: int) -> float:
    """Smallest normal value, 2^(2 - 2^(e-1)): below it precision fades away."""
    e, _ = _bits(exponent_bits, 0)
    return math.ldexp(1.0, 2 - 2 ** (e - 1))


def smallest_subnormal(exponent_bits: int, fraction_bits: int) -> float:
    """Smallest positive value, 2^-f times the smallest normal one.

    Some accelerator modes flush subnormals to zero; then `smallest_normal` is the end.
    """
    _bits(exponent_bits, fraction_bits)
    return math.ldexp(smallest_normal(exponent_bits), -fraction_bits)


def _bits(exponent_bits: int, fraction_bits: int) -> tuple[int, int]:
    # Double precision carries every format up to 8 + 23 bits exactly; more would not fit.
    return (count("exponent_bits", exponent_bits, low=2, high=10),
            count("fraction_bits", fraction_bits, low=0, high=51))


@dataclass(frozen=True)
class NumberFormat:
    """A binary floating-point format; `ieee` formats have infinities."""

    name: str
    exponent_bits: int
    fraction_bits: int
    ieee: bool = True

    @property
    def bits(self) -> int:
        """Sign, exponent and fraction bits; TF32 uses 19 of the 32 it is stored in."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def largest(self) -> float:
        """Largest finite value."""
        if self.ieee:
            return largest(self.exponent_bits, self.fraction_bits)
        # One exponent more than IEEE's, whose all-ones fraction is the only NaN.
        top = 2 ** (self.exponent_bits - 1)
        return math.ldexp(2.0 - 2.0 ** (1 - self.fraction_bits), top)

    @property
    def smallest_normal(self) -> float:
        """Smallest value with full precision."""
        return smallest_normal(self.exponent_bits)

    @property
    def smallest_subnormal(self) -> float:
        """Smallest positive value."""
        return smallest_subnormal(self.exponent_bits, self.fraction_bits)

    @property
    def epsilon(self) -> float:
        """Spacing just above 1, 2^-f."""
        return 2.0**-self.fraction_bits

    @property
    def decimal_digits(self) -> float:
        """Decimal digits of a normal value's precision, (f + 1) log10 2."""
        return (self.fraction_bits + 1) * math.log10(2.0)

    def spacing(self, value: float) -> float:
        """Distance between representable neighbours around `value`."""
        size = abs(number("value", value))
        if size > self.largest:
            raise InputError("value", value, f"at most {self.largest:g} in {self.name}")
        exponent = max(math.frexp(size)[1] - 1, 2 - 2 ** (self.exponent_bits - 1)) if size else (
            2 - 2 ** (self.exponent_bits - 1))
        return math.ldexp(1.0, exponent - self.fraction_bits)

    def round(self, value: float, *, saturate: bool = False) -> float:
        """`value` as this format stores it: nearest, ties to even.

        Too large becomes infinity (NaN in E4M3, which has none), or the largest value
        with `saturate`, as PyTorch 2.13 converts to E4M3.
        """
        given = float(value)
        if not math.isfinite(given):
            return given if self.ieee or math.isnan(given) else math.nan
        if given == 0.0:
            return given
        exponent = max(math.frexp(given)[1] - 1, 2 - 2 ** (self.exponent_bits - 1))
        step = exponent - self.fraction_bits
        # Scaling by a power of two is exact, and Python's round goes to even.
        rounded = math.ldexp(float(round(math.ldexp(abs(given), -step))), step)
        if rounded > self.largest:
            rounded = self.largest if saturate else (math.inf if self.ieee else math.nan)
        return math.copysign(rounded, given)

    def error(self, value: float) -> float:
        """Relative rounding error of a value; 1 when it vanishes."""
        exact = number("value", value)
        if exact == 0.0:
            return 0.0
        return abs(self.round(exact) - exact) / abs(exact)


FP32 = NumberFormat("fp32", 8, 23)
TF32 = NumberFormat("tf32", 8, 10)
FP16 = NumberFormat("fp16", 5, 10)
BF16 = NumberFormat("bf16", 8, 7)
E4M3 = NumberFormat("e4m3", 4, 3, ieee=False)
E5M2 = NumberFormat("e5m2", 5, 2)
FORMATS: dict[str, NumberFormat] = {f.name: f for f in (FP32, TF32, FP16, BF16, E4M3, E5M2)}


def number_format(name: str) -> NumberFormat:
    """The format called `name`, or `InputError` listing the known ones."""
    return FORMATS[choice("name", name, FORMATS)]


@dataclass(frozen=True)
class FormatRow:
    """One column of table 10, and what the document's table leaves out."""

    name: str
    exponent_bits: int
    fraction_bits: int
    largest: float
    smallest_normal: float
    smallest_subnormal: float
    epsilon: float
    peak_ratio: float | None


def table_10(
    names: Sequence[str] = ("fp32", "fp16", "bf16"), peaks: dict[str, float] | None = None
) -> list[FormatRow]:
    """Table 10 for any formats; `peaks` (FLOP/s by name) gives the throughput row.

    The ratio is to FP32's peak and None where a peak is not given.
    """
    known = peaks or {}
    rows = []
    for name in names:
        f = number_format(name)
        ratio = known[name] / known["fp32"] if name in known and "fp32" in known else None
        rows.append(FormatRow(name, f.exponent_bits, f.fraction_bits, f.largest,
                              f.smallest_normal, f.smallest_subnormal, f.epsilon, ratio))
    return rows


@dataclass(frozen=True)
class Stored:
    """What happens to a set of non-zero values in a format, as shares of their number."""

    underflow: float
    subnormal: float
    overflow: float

    @property
    def exact_range(self) -> float:
        """Share that stays in the normal range."""
        return 1.0 - self.underflow - self.subnormal - self.overflow


def stored_shares(
    values: Sequence[float] | NDArray[np.float64], fmt: NumberFormat, loss_scale: float = 1.0
) -> Stored:
    """Shares of the non-zero `values` that vanish, turn subnormal or overflow.

    `loss_scale` multiplies them first, as loss scaling does to every gradient.
    Rounding is to nearest: at most half the smallest subnormal vanishes.
    """
    import numpy as np

    scaled = np.abs(np.asarray(values, dtype=np.float64).ravel())
    if not np.isfinite(scaled).all():
        raise InputError("values", "an infinite or undefined value", "finite numbers",
                         "Such a gradient is an overflow already; a scaler skips the step.")
    scaled = scaled[scaled > 0] * positive("loss_scale", loss_scale)
    if not scaled.size:
        raise InputError("values", "no non-zero value", "at least one non-zero number")
    # Ties go to even: half the smallest subnormal rounds to zero, half an ulp past
    # the largest value rounds away from it.
    lost = scaled <= fmt.smallest_subnormal / 2
    over = scaled >= fmt.largest + fmt.spacing(fmt.largest) / 2
    if not fmt.ieee:
        over = scaled > fmt.largest + fmt.spacing(fmt.largest) / 2
    small = (scaled < fmt.smallest_normal - fmt.smallest_subnormal / 2) & ~lost
    return Stored(float(lost.mean()), float(small.mean()), float(over.mean()))


def best_loss_scale(largest_gradient: float, fmt: NumberFormat = FP16, headroom: float = 2.0
                    ) -> float:
    """The largest power of two that keeps the largest gradient `headroom` below overflow."""
    room = fmt.largest / (positive("largest_gradient", largest_gradient)
                          * number("headroom", headroom, low=1.0))
    return math.ldexp(1.0, math.frexp(room)[1] - 1)


@dataclass(frozen=True)
class LossScaler:
    """Dynamic loss scaling: back off after an overflow, grow after a quiet stretch.

    The defaults are those of `torch.amp.GradScaler`.
    """

    scale: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    quiet_steps: int = 0

    def after(self, overflowed: bool) -> LossScaler:
        """The scaler after one step; an overflowed step is skipped by the optimizer."""
        if overflowed:
            return LossScaler(self.scale * self.backoff, self.growth, self.backoff, self.interval)
        quiet = self.quiet_steps + 1
        if quiet == self.interval:
            return LossScaler(self.scale * self.growth, self.growth, self.backoff, self.interval)
        return LossScaler(self.scale, self.growth, self.backoff, self.interval, quiet)


def update_survives(weight: float, update: float, fmt: NumberFormat) -> bool:
    """Whether adding `update` to a weight stored in that format changes it at all.

    Why FP32 master weights exist: 1 + 2^-12 is 1 in FP16 and in BF16.
    """
    stored = fmt.round(number("weight", weight))
    return fmt.round(stored + number("update", update)) != stored


def peak_ratio(fast_flops_per_second: float, slow_flops_per_second: float) -> float:
    """How many times one format's peak exceeds another's on the same device."""
    return positive("fast_flops_per_second", fast_flops_per_second) / positive(
        "slow_flops_per_second", slow_flops_per_second)


@dataclass(frozen=True)
class PrecisionAdvice:
    """A recommended training precision, whether it needs loss scaling, and why (table 12)."""

    precision: str
    loss_scaling: bool
    reason: str


def table_12(peaks: dict[str, float]) -> list[PrecisionAdvice]:
    """Table 12 from what a device offers: dense peaks in FLOP/s by dtype, best choice first.

    A dtype that is missing from `peaks` has no native path. FP8 comes last whatever its
    peak: it needs its own recipe and a validated run.
    """
    known = {choice("dtype", d, ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")):
             positive(d, peak) for d, peak in peaks.items()}
    advice = []
    if "bf16" in known:
        advice.append(PrecisionAdvice("bf16", False, "FP32's exponent range, so gradients "
                                      "neither underflow nor need a scaler."))
    if "fp16" in known:
        advice.append(PrecisionAdvice("fp16", True, "Three more fraction bits than BF16, but "
                                      "a narrow range: scale the loss."))
    if not advice and known:
        advice.append(PrecisionAdvice("fp32", False, "No 16-bit matrix path on this device."))
    if "fp8" in known and advice:
        advice.append(PrecisionAdvice("fp8", True, "Highest peak; needs per-tensor scales and "
                                      "a run that shows the loss is kept."))
    if not advice:
        raise InputError("peaks", peaks, "at least one dtype with its peak")
    return advice
