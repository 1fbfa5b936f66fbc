"""Chapter 5: accumulation, checkpointing, attention, precision."""

from __future__ import annotations

import math
from types import SimpleNamespace

from ironlaw.predict import accumulation, attention, ratios, recompute
from ironlaw.units import GB

from .answer import IN_GIB, Answer, Slip, times


def micro_batches(g: SimpleNamespace) -> float:
    """Micro-batches per accelerator and update."""
    return accumulation.steps_for_batch(g.B, g.b, g.N)


def update(g: SimpleNamespace) -> float:
    """Time of one update with a single exchange, ms."""
    return accumulation.update_seconds([g.t] * g.k, g.s, g.o)


def checkpointed(g: SimpleNamespace) -> float:
    """Checkpoints and one segment, GB."""
    return g.A * recompute.kept_layers(g.L, g.k)


def slower(g: SimpleNamespace) -> float:
    """Step with recomputation, ms."""
    return g.T * (1 + recompute.recomputed_share_of_step(g.L, g.k))


def scores(g: SimpleNamespace) -> float:
    """One layer's scores in 16 bits, GB."""
    return attention.score_matrix_bytes(g.S, g.H, g.B, 2.0) / GB


def mixed(g: SimpleNamespace) -> float:
    """Step with faster matrix products, ms."""
    products = g.T * g.m / 100
    return g.T - products + ratios.seconds_after_speedup(products, g.s)


ANSWERS = {
    "V5.1": Answer(micro_batches, (
        Slip("on a single accelerator", lambda g, right: g.B / g.b),
        Slip("with one sequence at a time", lambda g, right: g.B / g.N),
        Slip("when the first micro-batch is not counted", lambda g, right: right - 1))),
    "V5.2": Answer(update, (
        Slip("when gradients are exchanged after every micro-batch",
             lambda g, right: g.k * (g.t + g.s) + g.o),
        Slip("for a single micro-batch", lambda g, right: g.t + g.s + g.o),
        Slip("without the exchange and the optimizer", lambda g, right: g.k * g.t),
        Slip("when the optimizer runs after every micro-batch, and the exchange as well",
             lambda g, right: g.k * (g.t + g.s + g.o)))),
    "V5.3": Answer(checkpointed, (
        Slip("for the checkpoints without the segment", lambda g, right: g.A * g.k),
        Slip("for the segment without the checkpoints", lambda g, right: g.A * g.L / g.k),
        Slip("without any checkpointing", lambda g, right: g.A * g.L),
        Slip("when √L layers are taken to be kept in all",
             lambda g, right: g.A * math.sqrt(g.L)))),
    "V5.4": Answer(slower, (
        Slip("when the recomputed share of the forward pass is taken for one of the step",
             lambda g, right: g.T * (1 + (g.L - g.k) / g.L)),
        Slip("when every layer is recomputed, also those kept",
             lambda g, right: g.T * 4 / 3),
        Slip("for the extra time alone", lambda g, right: right - g.T),
        Slip("without the recomputation", lambda g, right: g.T))),
    "V5.5": Answer(scores, (
        Slip("for one head", lambda g, right: right / g.H),
        times(2, "in FP32; a 16-bit value has two bytes"),
        Slip("when S is counted once; the matrix is S × S", lambda g, right: right / g.S),
        Slip("for one sequence of the batch", lambda g, right: right / g.B),
        IN_GIB)),
    "V5.6": Answer(mixed, (
        Slip("when the whole step becomes faster", lambda g, right: g.T / g.s),
        Slip("when the matrix products vanish", lambda g, right: g.T * (1 - g.m / 100)),
        Slip("for the matrix products alone", lambda g, right: g.T * g.m / 100 / g.s),
        Slip("when the new time of the products is subtracted from the old step",
             lambda g, right: g.T * (1 - g.m / 100 / g.s)))),
}
