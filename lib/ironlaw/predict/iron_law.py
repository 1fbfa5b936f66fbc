"""The iron law of training: T = O / (R_peak * eta_hw).

Equation 1 of the document, solved for each of its unknowns. Taught in chapter 1.
Operations are FLOP, rates FLOP/s of one accelerator, times seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InputError, count, fraction, number, positive


def training_flops(parameters: float, tokens: float) -> float:
    """Training FLOP of a dense decoder, O = 6 P D.

    Two FLOP per parameter and token forward, four backward. Attention's own
    S x S products are left out (`flops.per_token` counts them).
    """
    return 6.0 * positive("parameters", parameters) * positive("tokens", tokens)


def tokens_for_budget(
    operations: float, forward_flops_per_token: float, backward_over_forward: float = 2.0
) -> float:
    """Tokens that a FLOP budget pays for, D = O / (F (1 + backward/forward))."""
    per_token = positive("forward_flops_per_token", forward_flops_per_token) * (
        1.0 + positive("backward_over_forward", backward_over_forward)
    )
    return positive("operations", operations) / per_token


def sustained_flops_per_second(
    peak_flops_per_second: float, utilisation: float, accelerators: float = 1
) -> float:
    """R_peak * eta_hw over all accelerators, FLOP/s."""
    return (
        positive("peak_flops_per_second", peak_flops_per_second)
        * fraction("utilisation", utilisation)
        * count("accelerators", accelerators)
    )


def training_seconds(
    operations: float,
    peak_flops_per_second: float,
    utilisation: float,
    accelerators: float = 1,
) -> float:
    """T_train in seconds (equation 1), with R_peak = accelerators x one peak.

    `utilisation` is eta_hw in (0, 1]: it already holds every stall, launch and
    exchange, at the number of accelerators it was measured on.
    """
    rate = sustained_flops_per_second(peak_flops_per_second, utilisation, accelerators)
    return positive("operations", operations) / rate


def accelerators_for_deadline(
    operations: float, peak_flops_per_second: float, utilisation: float, deadline_seconds: float
) -> int:
    """The fewest accelerators that finish within `deadline_seconds` at this utilisation."""
    alone = training_seconds(operations, peak_flops_per_second, utilisation)
    ratio = alone / positive("deadline_seconds", deadline_seconds, unit="s")
    # A ratio of 12.000000000000002 is twelve machines and one rounding error.
    nearest = round(ratio)
    if nearest >= 1 and math.isclose(ratio, nearest, rel_tol=1e-12):
        return nearest
    return max(1, math.ceil(ratio))


def utilisation(
    operations: float, seconds: float, peak_flops_per_second: float, accelerators: float = 1
) -> float:
    """The eta_hw that a finished run achieved, O / (T * R_peak).

    May exceed 1 only when an input is wrong; it is returned as it is, so that a
    claim can be audited. `check_utilisation` refuses such a value.
    """
    whole = positive("peak_flops_per_second", peak_flops_per_second) * count(
        "accelerators", accelerators
    )
    return positive("operations", operations) / (positive("seconds", seconds) * whole)


def mfu(
    parameters: float, tokens: float, seconds: float, peak_flops_per_second: float,
    accelerators: float = 1,
) -> float:
    """Model FLOP utilisation, O_model / (R_peak T_step), with O = 6 P D (definition 1.4)."""
    return utilisation(training_flops(parameters, tokens), seconds, peak_flops_per_second,
                       accelerators)


def uncredited_share(
    parameters: float, tokens: float, seconds: float, peak_flops_per_second: float,
    accelerators: float = 1,
) -> float:
    """1 - MFU: peak that went to waiting, exchange, recomputation or other work."""
    return 1.0 - check_utilisation(mfu(parameters, tokens, seconds, peak_flops_per_second,
                                       accelerators))


def seconds_at_rate(
    operations: float, flops_per_second: float, accelerators: float = 1
) -> float:
    """Time at a sustained rate per accelerator, where eta is already inside the rate."""
    rate = positive("flops_per_second", flops_per_second) * count("accelerators", accelerators)
    return positive("operations", operations) / rate


def throughput_utilisation(
    samples_per_second: float,
    operations_per_step: float,
    samples_per_step: float,
    peak_flops_per_second: float,
    accelerators: float = 1,
) -> float:
    """The share of peak that a claimed throughput needs; above 1 it cannot be.

    The first question to ask of any benchmark: does this number respect the hardware?
    """
    per_sample = positive("operations_per_step", operations_per_step) / positive(
        "samples_per_step", samples_per_step)
    return utilisation(positive("samples_per_second", samples_per_second) * per_sample, 1.0,
                       peak_flops_per_second, accelerators)


def steps_for_budget(operations: float, operations_per_step: float) -> float:
    """Optimizer steps (not rounded) that a FLOP budget pays for."""
    return positive("operations", operations) / positive("operations_per_step",
                                                         operations_per_step)


def tokens_in(tokens_per_second: float, seconds: float) -> float:
    """Tokens processed in that time."""
    return positive("tokens_per_second", tokens_per_second) * positive("seconds", seconds)


def seconds_for_tokens(tokens: float, tokens_per_second: float) -> float:
    """Time to process that many tokens."""
    return positive("tokens", tokens) / positive("tokens_per_second", tokens_per_second)


def check_utilisation(value: float) -> float:
    """`value` when hardware could do it, else `InputError`: no run beats its peak."""
    if number("value", value, low=0.0) > 1.0:
        raise InputError(
            "value", value, "a utilisation of at most 1",
            "A rate above the peak means a wrong time, a wrong FLOP count or the wrong peak.",
        )
    return value


@dataclass(frozen=True)
class Lever:
    """How much one term of the iron law could still give.

    `speedup` is old time over new time when only this term moves to `best`.
    """

    term: str
    now: float
    best: float
    speedup: float


def levers(
    operations: float,
    peak_flops_per_second: float,
    utilisation: float,
    *,
    least_operations: float,
    best_peak_flops_per_second: float,
    best_utilisation: float,
) -> list[Lever]:
    """The three levers, the strongest first.

    Each term enters equation 1 once, so the same factor on any of them buys the same time.
    What differs is headroom: how far each could still move. The caller states the
    three limits; a limit already passed counts as no headroom (speedup 1).
    """
    work = positive("operations", operations)
    peak = positive("peak_flops_per_second", peak_flops_per_second)
    eta = fraction("utilisation", utilisation)
    least = min(work, positive("least_operations", least_operations))
    best_peak = max(peak, positive("best_peak_flops_per_second", best_peak_flops_per_second))
    best_eta = max(eta, fraction("best_utilisation", best_utilisation))
    found = [
        Lever("O", work, least, work / least),
        Lever("R_peak", peak, best_peak, best_peak / peak),
        Lever("eta_hw", eta, best_eta, best_eta / eta),
    ]
    return sorted(found, key=lambda lever: lever.speedup, reverse=True)
