"""Chapter 2: FLOPs of a layer, training state and activations, the roofline."""

from __future__ import annotations

from types import SimpleNamespace

from ironlaw.predict import activations, flops, memory, roofline
from ironlaw.units import GB, GIB

from .answer import IN_GIB, Answer, Slip, times


def block(g: SimpleNamespace) -> float:
    """Forward work of one block, TFLOP."""
    return flops.block_forward(g.B, g.S, g.d) / 1e12


def state(g: SimpleNamespace) -> float:
    """Training state under the recipe, GiB."""
    return memory.training_state_bytes(g.P * 1e6, g.weights, g.gradients, g.master, g.each,
                                       g.moments) / GIB


def decoder_activations(g: SimpleNamespace) -> float:
    """Activations of all blocks by the document's formula, GB."""
    return activations.document_bytes(g.layers, g.B, g.S, g.d, g.heads) / GB


def intensity(g: SimpleNamespace) -> float:
    """Arithmetic intensity of the product, FLOP per byte."""
    return roofline.gemm(g.m, g.k, g.n).intensity


def shortest(g: SimpleNamespace) -> float:
    """Time under the roofline, microseconds."""
    return 1e6 * roofline.gemm(g.m, g.k, g.n).seconds(g.R * 1e12, g.BW * GB)


ANSWERS = {
    "V2.1": Answer(block, (
        times(1 / 2, "when a multiply-add counts as one operation; here it is two"),
        Slip("without the S × S products of attention",
             lambda g, right: 24 * g.B * g.S * g.d**2 / 1e12),
        Slip("without the feed-forward layer",
             lambda g, right: right - 16 * g.B * g.S * g.d**2 / 1e12),
        times(3, "for forward and backward together; this one asks for the forward pass"))),
    "V2.2": Answer(state, (
        times(GIB / 1e9, "in GB of 10⁹ bytes; this one asks for GiB of 2³⁰ bytes"),
        Slip("without the gradients",
             lambda g, right: right - g.P * 1e6 * g.gradients / GIB),
        Slip("with one moment too few", lambda g, right: right - g.P * 1e6 * g.each / GIB),
        Slip("with an FP32 master copy too many", lambda g, right: right + g.P * 1e6 * 4 / GIB),
        times(8, "in bits; a byte has eight"))),
    "V2.3": Answer(decoder_activations, (
        Slip("without the S × S scores, as with selective recomputation",
             lambda g, right: activations.selective_bytes(g.layers, g.B, g.S, g.d) / GB),
        Slip("for one block", lambda g, right: right / g.layers),
        Slip("when the scores of one head stand for all",
             lambda g, right: g.layers * g.S * g.B * g.d * (34 + 5 * g.S / g.d) / GB),
        times(2, "when every byte of the formula is taken for a 16-bit value"),
        IN_GIB)),
    "V2.4": Answer(intensity, (
        times(1 / 2, "when a multiply-add counts as one operation, or with FP32 values"),
        times(2, "in FLOP per value; a 16-bit value has two bytes"),
        times(1 / 8, "in FLOP per bit"),
        Slip("when writing the result is left out",
             lambda g, right: flops.matmul(g.m, g.k, g.n) / (2 * g.k * (g.m + g.n))))),
    "V2.5": Answer(shortest, (
        Slip("under the compute ceiling; the other one is higher here",
             lambda g, right: 1e6 * flops.matmul(g.m, g.k, g.n) / (g.R * 1e12)),
        times(2, "with FP32 values; a 16-bit value has two bytes"),
        times(1 / 2, "with one byte per value; a 16-bit value has two"),
        times(1 / 1000, "in milliseconds; this one asks for microseconds"),
        times(8, "when the bandwidth is taken for Gbit/s"))),
}
