"""Chapter 1: the iron law, training state, cost."""

from __future__ import annotations

from types import SimpleNamespace

from ironlaw.predict import cost, iron_law, memory, ratios
from ironlaw.units import DAY, GB

from .answer import FORWARD_ONLY, FRACTION, IN_GIB, Answer, Slip, times


def _seconds(g: SimpleNamespace) -> float:
    operations = iron_law.training_flops(g.P * 1e9, g.D * 1e9)
    return iron_law.training_seconds(operations, g.R * 1e12, g.eta / 100, g.N)


def run_days(g: SimpleNamespace) -> float:
    """Days of training at the expected utilisation."""
    return _seconds(g) / DAY


def step_mfu(g: SimpleNamespace) -> float:
    """MFU of one step, percent."""
    return 100 * iron_law.mfu(g.P * 1e9, g.b * 2048, g.T, g.R * 1e12)


def training_memory(g: SimpleNamespace) -> float:
    """State and activations, GB."""
    return memory.training_total(g.P * 1e9, g.A * GB) / GB


def bill(g: SimpleNamespace) -> float:
    """Rent of the whole run, thousand dollars."""
    return cost.rent(g.N, _seconds(g), g.price) / 1e3


def days_saved(g: SimpleNamespace) -> float:
    """Days that a higher utilisation saves."""
    return ratios.saved(g.T, ratios.seconds_after_speedup(g.T, g.b / g.a))


def tokens(g: SimpleNamespace) -> float:
    """Tokens that the reservation pays for, billions."""
    operations = iron_law.sustained_flops_per_second(g.R * 1e12, g.eta / 100, g.N) * g.T * DAY
    return iron_law.tokens_for_budget(operations, 2 * g.P * 1e9) / 1e9


ANSWERS = {
    "V1.1": Answer(run_days, (
        times(1 / 3, FORWARD_ONLY),
        times(24, "in hours; this one asks for days"),
        Slip("on a single accelerator", lambda g, right: right * g.N),
        Slip("at full peak, without the utilisation", lambda g, right: right * g.eta / 100),
        Slip("when the utilisation multiplies the time instead of dividing it",
             lambda g, right: right * (g.eta / 100) ** 2))),
    "V1.2": Answer(step_mfu, (
        FRACTION,
        times(1 / 3, "when only the forward pass is counted, 2 P instead of 6 P per token"),
        times(4 / 3, "when a recomputed forward pass is credited, 8 P instead of 6 P per token"),
        Slip("when the peak of all accelerators is divided by, but the tokens of one are counted",
             lambda g, right: right / g.N),
        times(1 / 2048, "when sequences are counted as tokens"))),
    "V1.3": Answer(training_memory, (
        Slip("for inference: the 16-bit weights alone", lambda g, right: 2 * g.P + g.A),
        Slip("without the FP32 master copy, or with one moment instead of Adam's two",
             lambda g, right: right - 4 * g.P),
        Slip("without the activations", lambda g, right: right - g.A),
        Slip("with FP32 weights and gradients on top of the master copy",
             lambda g, right: right + 4 * g.P),
        IN_GIB)),
    "V1.4": Answer(bill, (
        times(1 / 3, FORWARD_ONLY),
        Slip("for one accelerator's share", lambda g, right: right / g.N),
        Slip("when the hours of a single accelerator are paid for every one of them",
             lambda g, right: right * g.N),
        Slip("at full peak, without the utilisation", lambda g, right: right * g.eta / 100),
        times(1 / 24, "when days are taken for hours"),
        times(1000, "in dollars; this one asks for thousands"))),
    "V1.5": Answer(days_saved, (
        Slip("when percentage points are taken for a share of the time",
             lambda g, right: g.T * (g.b - g.a) / 100),
        Slip("when the gain in speed is taken for the share of time saved",
             lambda g, right: g.T * (g.b / g.a - 1)),
        Slip("for the days that are left, not those saved",
             lambda g, right: g.T * g.a / g.b))),
    "V1.6": Answer(tokens, (
        times(3, FORWARD_ONLY),
        Slip("for a single accelerator", lambda g, right: right / g.N),
        Slip("at full peak, without the utilisation", lambda g, right: right / g.eta * 100),
        times(1 / 24, "when days are taken for hours"),
        times(1 / 1000, "in trillions; this one asks for billions"))),
}
