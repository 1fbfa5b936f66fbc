"""Money, energy and carbon of a run. Times in seconds, power in watts, energy in joules.

Prices are the user's input: they differ by vendor, region and year, and the
document itself uses three.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError, count, not_negative, number, positive
from ..units import HOUR, KWH


def cost_ratio(dear: float, cheap: float) -> float:
    """How many times dearer one run is than another (both in the same currency)."""
    return positive("dear", dear) / positive("cheap", cheap)


def accelerator_hours(accelerators: int, seconds: float) -> float:
    """Accelerator-hours that a run occupies."""
    return count("accelerators", accelerators) * positive("seconds", seconds) / HOUR


def rent(accelerators: int, seconds: float, price_per_hour: float) -> float:
    """Rental cost: accelerators x hours x price of one accelerator-hour."""
    hours = accelerator_hours(accelerators, seconds)
    return hours * not_negative("price_per_hour", price_per_hour)


def energy_joules(
    accelerators: int,
    watts: float,
    seconds: float,
    *,
    hosts: int = 0,
    host_watts: float = 0.0,
    pue: float = 1.0,
) -> float:
    """Energy of a run, E = P T x PUE, in joules.

    `watts` is the mean draw of one accelerator, `host_watts` of one host; `pue` is
    the building's power usage effectiveness, at least 1.
    """
    power = count("accelerators", accelerators) * positive("watts", watts, unit="W")
    power += count("hosts", hosts, low=0) * not_negative("host_watts", host_watts, unit="W")
    return power * positive("seconds", seconds) * number("pue", pue, low=1.0, high=10.0)


def electricity_cost(joules: float, price_per_kwh: float) -> float:
    """Price of that energy at `price_per_kwh`."""
    return not_negative("joules", joules) / KWH * not_negative("price_per_kwh", price_per_kwh)


def carbon_kg(joules: float, kg_per_kwh: float) -> float:
    """Operational emissions in kg CO2 at a grid intensity of `kg_per_kwh`."""
    return not_negative("joules", joules) / KWH * not_negative("kg_per_kwh", kg_per_kwh)


def hourly(accelerators: int, price_per_hour: float) -> float:
    """Price of one hour of all accelerators."""
    return count("accelerators", accelerators) * not_negative("price_per_hour", price_per_hour)


def buy(accelerators: int, price_each: float) -> float:
    """Purchase price of the accelerators alone; hosts, network, power and people come on top."""
    return count("accelerators", accelerators) * not_negative("price_each", price_each)


def break_even_seconds(price_each: float, price_per_hour: float) -> float:
    """Busy time after which renting one accelerator has cost its purchase price."""
    return positive("price_each", price_each) / positive("price_per_hour", price_per_hour) * HOUR


def implied_price_per_hour(total: float, accelerators: int, seconds: float) -> float:
    """Price of one accelerator-hour that a quoted total implies."""
    return positive("total", total) / accelerator_hours(accelerators, seconds)


def energy_from_samples(watts: Sequence[float], seconds: Sequence[float]) -> float:
    """E = integral of P dt by the trapezoid rule, joules; `seconds` are the sample times.

    This, not utilisation, is what an energy audit measures (Napkin math 1.11).
    """
    if len(watts) != len(seconds) or len(watts) < 2:
        raise InputError("watts", f"{len(watts)} samples",
                         f"as many as seconds ({len(seconds)}), and at least two")
    power = [not_negative(f"watts[{i}]", w) for i, w in enumerate(watts)]
    times = [number(f"seconds[{i}]", t) for i, t in enumerate(seconds)]
    total = 0.0
    for i in range(1, len(times)):
        if times[i] < times[i - 1]:
            raise InputError(f"seconds[{i}]", times[i], f"at least {times[i - 1]:g}, in order")
        total += (power[i] + power[i - 1]) / 2 * (times[i] - times[i - 1])
    return total


def energy_saved_by_utilisation(joules: float, factor: float) -> float:
    """Energy saved when eta_hw rises by `factor` at constant power: E (1 - 1 / factor)."""
    return positive("joules", joules) * (1.0 - 1.0 / number("factor", factor, low=1.0))


def household_months(joules: float, kwh_per_month: float) -> float:
    """Months for which the same energy runs a home of that consumption."""
    return positive("joules", joules) / KWH / positive("kwh_per_month", kwh_per_month)
