"""Chapter 6: all-reduce, efficiency, bubbles, sharding, carbon, cost."""

from __future__ import annotations

from types import SimpleNamespace

from ironlaw.predict import cost, parallel, scaling
from ironlaw.units import DAY, GB, HOUR

from .answer import FRACTION, IN_GIB, Answer, Slip, times


def ring(g: SimpleNamespace) -> float:
    """Time of the exchange, ms."""
    rate = scaling.link_bytes_per_second(g.link * 1e9)
    return 1e3 * scaling.ring_all_reduce_seconds(2 * g.P * 1e9, g.N, rate)


def _exchange_ms(g: SimpleNamespace) -> float:
    return 1e3 * scaling.ring_all_reduce_seconds(2 * g.P * 1e9, g.N, g.bw * GB)


def efficiency(g: SimpleNamespace) -> float:
    """Share of the time that computes, percent."""
    return 100 * scaling.efficiency(g.c, _exchange_ms(g))


def pipelined(g: SimpleNamespace) -> float:
    """Step with its bubble, ms."""
    return g.T / (1 - parallel.bubble_share(g.K, g.m))


def sharded(g: SimpleNamespace) -> float:
    """Training state on each accelerator, GB."""
    return scaling.data_parallel(g.P * 1e9, g.N, f"zero-{g.stage}").state.total / GB


def carbon(g: SimpleNamespace) -> float:
    """Emissions of the run, tonnes of CO2."""
    joules = cost.energy_joules(g.N, g.W, g.T * DAY, pue=g.pue)
    return cost.carbon_kg(joules, g.g / 1e3) / 1e3


def dearer(g: SimpleNamespace) -> float:
    """Rent on the larger cluster, thousand dollars."""
    hours = g.T * (g.n * g.a) / (g.N * g.b)
    return cost.rent(g.N, hours * HOUR, g.price) / 1e3


ANSWERS = {
    "V6.1": Answer(ring, (
        times(1 / 8, "when Gbit/s are taken for GB/s"),
        times(1 / 2, "when a ring passes the gradients once; it does so twice"),
        times(2, "with FP32 gradients; a 16-bit value has two bytes"),
        Slip("when the factor (N - 1) / N is left out",
             lambda g, right: right * g.N / (g.N - 1)),
        Slip("when every machine sends to every other",
             lambda g, right: right * g.N))),
    "V6.2": Answer(efficiency, (
        FRACTION,
        Slip("when a ring passes the gradients once; it does so twice",
             lambda g, right: 100 * g.c / (g.c + _exchange_ms(g) / 2)),
        Slip("when the exchange hides behind the computation; here nothing overlaps",
             lambda g, right: 100 * g.c / max(g.c, _exchange_ms(g))),
        Slip("when the exchange takes N times as long",
             lambda g, right: 100 * g.c / (g.c + g.N * _exchange_ms(g))))),
    "V6.3": Answer(pipelined, (
        Slip("without the bubble", lambda g, right: g.T),
        Slip("when the bubble's share of the step is added to the work",
             lambda g, right: g.T * (1 + (g.K - 1) / (g.m + g.K - 1))),
        Slip("with a single micro-batch", lambda g, right: g.T * g.K),
        Slip("for the bubble alone", lambda g, right: right - g.T))),
    "V6.4": Answer(sharded, (
        Slip("without sharding", lambda g, right: 16 * g.P),
        Slip("when all of it is sharded, as in stage 3", lambda g, right: 16 * g.P / g.N),
        Slip("for the neighbouring stage",
             lambda g, right: g.P * (2 + 14 / g.N if g.stage == 1 else 4 + 12 / g.N)),
        IN_GIB)),
    "V6.5": Answer(carbon, (
        Slip("without the building's PUE", lambda g, right: right / g.pue),
        times(1000, "in kg; this one asks for tonnes"),
        Slip("for a single accelerator", lambda g, right: right / g.N),
        times(1 / 24, "when days are taken for hours"))),
    "V6.6": Answer(dearer, (
        Slip("when the efficiency stays as it was", lambda g, right: right * g.b / g.a),
        Slip("when the efficiencies are swapped", lambda g, right: right * (g.b / g.a) ** 2),
        Slip("when the run takes as long as on the smaller cluster",
             lambda g, right: g.N * g.T * g.price / 1e3),
        Slip("for one accelerator", lambda g, right: right / g.N))),
}
