"""The time of one training step, before it is run.

Three models. The iron law's, FLOPs / (peak x eta), is the one to understand: it says
which of three things to change. The sum over all operations, each held up by arithmetic,
by memory or by being started (`from_operations`), shows where the time should go. The
straight line `alpha + beta x tokens`, through two measured steps, is the one to trust: it
knows what every step costs whatever its size (launches, the optimizer's pass over all
parameters) and what a token really costs here. Times in seconds, rates in FLOP/s. Taught
in chapters 1 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ..errors import InputError, fraction, not_negative, positive
from ..results import DeviceProfile, StepMeasurement
from ..results_systems import StepOperations


def from_peak(flops: float, peak_flops_per_second: float, eta: float = 1.0) -> float:
    """Equation 1 for one step: `flops` / (peak x eta) seconds.

    With eta = 1 it is a floor: nothing but matrix products, all at full speed.
    """
    return positive("flops", flops) / (
        positive("peak_flops_per_second", peak_flops_per_second) * fraction("eta", eta))


def from_profile(profile: DeviceProfile, flops: float, dtype: str, eta: float = 1.0) -> float:
    """`from_peak` with the calibrated peak of `dtype` on the profile's device."""
    return from_peak(flops, profile.peak(dtype).flops_per_second, eta)


def from_operations(operations: StepOperations, profile: DeviceProfile, dtype: str) -> float:
    """Each operation's roofline time, and its launch, added up over the step.

    An operation takes its products' FLOP over the rate that the device reached for products
    of that size, or its bytes over the copy bandwidth, whichever is longer; then what
    starting one takes. `profile` supplies all three; a figure that it lacks raises
    `InputError`. Nothing overlaps here, and no cache helps.
    """
    bandwidth, launch = profile.copy_bytes_per_second, profile.launch_seconds
    if bandwidth is None or launch is None:
        raise InputError("profile", profile.name, "one with a copy bandwidth and a launch time",
                         "Run `ironlaw calibrate` again.")
    rate = rate_by_size(profile, dtype)
    return sum(one.calls * (launch + max(one.traffic_bytes / bandwidth,
                                         one.flops / rate(one.flops) if one.flops else 0.0))
               for one in operations.operations)


def rate_by_size(profile: DeviceProfile, dtype: str) -> Callable[[float], float]:
    """FLOP/s of one product as a function of its FLOP, from the calibrated sweep.

    Between two measured products the rate follows a line over the logarithm of the FLOP;
    beyond the smallest and the largest it stays as it was there.
    """
    profile.peak(dtype)  # refuses a dtype that was not measured
    best: dict[float, float] = {}
    for name, rate in profile.matmul[dtype].by_size.items():
        sides = [float(side) for side in name.split("x")]
        work = 2.0 * math.prod(sides * 3 if len(sides) == 1 else sides)
        best[work] = max(rate, best.get(work, 0.0))
    known = sorted(best.items())

    def at(work: float) -> float:
        if work <= known[0][0]:
            return known[0][1]
        for (low, slow), (high, quick) in pairwise(known):
            if work <= high:
                share = math.log(work / low) / math.log(high / low)
                return slow + share * (quick - slow)
        return known[-1][1]

    return at


@dataclass(frozen=True)
class Line:
    """seconds = alpha + beta x tokens.

    `alpha` is what a step costs at any size, in seconds; `beta` seconds per token. It
    holds for one model, one precision and one sequence length (attention makes tokens
    of longer sequences dearer), on the device where its two points were measured.
    """

    alpha: float
    beta: float

    def seconds(self, tokens: float) -> float:
        """Predicted seconds of a step over `tokens` tokens."""
        return self.alpha + self.beta * positive("tokens", tokens)

    def tokens_per_second(self, tokens: float) -> float:
        """Predicted rate; it rises with `tokens`, towards 1 / beta."""
        return tokens / self.seconds(tokens)

    def fixed_share(self, tokens: float) -> float:
        """Share of a step over `tokens` tokens that does not depend on their number."""
        return self.alpha / self.seconds(tokens)


def through(tokens_a: float, seconds_a: float, tokens_b: float, seconds_b: float) -> Line:
    """The line through two measured steps; tokens must differ.

    Where the larger step is the cheaper per token beyond what a line allows, noise has
    the upper hand: a slope of zero or less raises `InputError`. An alpha below zero
    (the larger step pays more per token) is put to zero, and the larger step decides.
    """
    a = positive("tokens_a", tokens_a), positive("seconds_a", seconds_a)
    b = positive("tokens_b", tokens_b), positive("seconds_b", seconds_b)
    (few, quick), (many, slow) = sorted((a, b))
    if few == many:
        raise InputError("tokens_b", tokens_b, f"different from tokens_a = {tokens_a:g}",
                         "Measure a second step with another batch.")
    if slow <= quick:
        raise InputError(
            "seconds of the larger step", slow, f"more than {quick:g} s, the smaller one's",
            "Something else slowed the small step: measure both again, with more steps.")
    beta = (slow - quick) / (many - few)
    alpha = quick - beta * few
    return Line(alpha, beta) if alpha >= 0 else Line(0.0, slow / many)


def through_measurements(a: StepMeasurement, b: StepMeasurement) -> Line:
    """`through` for two measurements that differ only in batch or sequence length.

    Two batches of one length are the better pair: tokens of longer sequences cost
    more, which a line cannot know. Any other difference raises `InputError` naming it.
    """
    _alike("device", a.device, b.device)
    for name in sorted(set(a.config) | set(b.config)):
        if name not in ("batch", "seq"):
            _alike(name, a.config.get(name), b.config.get(name))
    return through(a.tokens_per_step, a.step_seconds, b.tokens_per_step, b.step_seconds)


def run_seconds(step_seconds: float, steps: float) -> float:
    """Duration of `steps` steps that take `step_seconds` each."""
    return positive("step_seconds", step_seconds) * positive("steps", steps)


def optimizer_seconds(parameters: float, bytes_per_parameter: float,
                      copy_bytes_per_second: float) -> float:
    """The least time of the optimizer's pass: its bytes over the memory's bandwidth.

    A fused AdamW in FP32 reads weight, gradient and two moments and writes back three:
    28 bytes per parameter.
    """
    moved = positive("parameters", parameters) * not_negative(
        "bytes_per_parameter", bytes_per_parameter)
    return moved / positive("copy_bytes_per_second", copy_bytes_per_second)


def _alike(name: str, first: object, second: object) -> None:
    if first != second:
        raise InputError(name, second, f"equal in both measurements ({first!r})",
                         "Change only batch or seq between the two.")
