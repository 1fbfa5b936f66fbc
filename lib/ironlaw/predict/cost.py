"""Money, energy and carbon of a run. Times in seconds, power in watts, energy in joules.

Prices are the user's input: they differ by vendor, region and year, and the
document itself uses three.
"""

from __future__ import annotations

from ..errors import count, not_negative, number, positive
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
