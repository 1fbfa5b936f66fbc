"""FLOPs of a GPT-2 style decoder, counted the way `torch.utils.flop_counter` counts.

One multiply-add is two FLOP. Only matrix products count; softmax, norms and
activations do not. Attention is counted in full, without a causal half (the PaLM
convention), so an MFU from here compares with PaLM's and not with llm.c's.
Taught in chapters 2 and 3 (Napkin math 1.1, section 1.3.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..config import ATTENTION_FORMS, blocks_per_segment
from ..errors import InputError, choice, count, fraction, number
from ..transformer import Shape


def macs(rows: int, inner: int, columns: int) -> float:
    """Multiply-adds of a dense product (rows x inner)(inner x columns)."""
    return float(count("rows", rows)) * count("inner", inner) * count("columns", columns)


def matmul(rows: int, inner: int, columns: int) -> float:
    """FLOP of a dense product (rows x inner)(inner x columns), two per multiply-add."""
    return 2.0 * macs(rows, inner, columns)


def strassen_exponent(multiplications: int = 7, split: int = 2) -> float:
    """Exponent of a recursive matrix product: log of `multiplications` to base `split`.

    Cutting each matrix into split x split blocks takes split^3 block products by the
    school method (exponent 3) and 7 instead of 8 by Strassen's (2.807).
    """
    products = count("multiplications", multiplications)
    return math.log(products) / math.log(count("split", split, low=2))


def qkv_projection(batch: int, seq: int, width: int) -> float:
    """Forward FLOP of the three projections to queries, keys and values, 6 B S d^2."""
    return 6.0 * count("batch", batch) * count("seq", seq) * count("width", width) ** 2


def attention_scores(batch: int, heads: int, seq: int, head_width: int) -> float:
    """Forward FLOP of Q K^T over all heads, 2 B H S^2 d_head; A V costs the same again."""
    return (2.0 * count("batch", batch) * count("heads", heads) * count("seq", seq) ** 2
            * count("head_width", head_width))


def attention_products(batch: int, heads: int, seq: int, head_width: int) -> float:
    """Forward FLOP of both S x S products, Q K^T and A V."""
    return 2.0 * attention_scores(batch, heads, seq, head_width)


def output_projection(batch: int, seq: int, width: int) -> float:
    """Forward FLOP of attention's output projection, 2 B S d^2."""
    return 2.0 * count("batch", batch) * count("seq", seq) * count("width", width) ** 2


def feed_forward(batch: int, seq: int, width: int, expansion: int = 4) -> float:
    """Forward FLOP of the two feed-forward products, 4 x expansion x B S d^2 (16 B S d^2)."""
    return (4.0 * count("expansion", expansion) * count("batch", batch) * count("seq", seq)
            * count("width", width) ** 2)


@dataclass(frozen=True)
class LayerFlops:
    """Forward FLOP of one transformer block, by matrix product (Napkin math 1.1)."""

    qkv: float
    scores: float
    weighted_values: float
    projection: float
    feed_forward: float

    @property
    def total(self) -> float:
        """All five products."""
        return (self.qkv + self.scores + self.weighted_values + self.projection
                + self.feed_forward)


def layer_forward(batch: int, seq: int, width: int) -> LayerFlops:
    """Forward FLOP of one block on `batch` sequences of `seq` tokens.

    The number of heads cancels: H heads of width d / H do the work of one of width d.
    """
    scores = attention_scores(batch, 1, seq, count("width", width))
    return LayerFlops(qkv=qkv_projection(batch, seq, width), scores=scores,
                      weighted_values=scores, projection=output_projection(batch, seq, width),
                      feed_forward=feed_forward(batch, seq, width))


def block_forward(batch: int, seq: int, width: int) -> float:
    """The total of `layer_forward`: 24 B S d^2 + 4 B S^2 d."""
    return layer_forward(batch, seq, width).total


def blocks_per_step(
    layers: int, batch: int, seq: int, width: int, backward_over_forward: float = 2.0
) -> float:
    """Training FLOP of the blocks alone on one batch: no embedding, no output head.

    Backward forms two products (one for the inputs, one for the weights) where
    forward forms one, so a step costs three forwards.
    """
    forward = count("layers", layers) * block_forward(batch, seq, width)
    return forward * (1.0 + number("backward_over_forward", backward_over_forward, above=0.0))


def blocks_per_run(steps: int, layers: int, batch: int, seq: int, width: int) -> float:
    """Training FLOP of the blocks alone over `steps` optimizer steps."""
    return count("steps", steps) * blocks_per_step(layers, batch, seq, width)


def attention_overtakes(width: int, layers: int = 1, vocab: int = 0) -> float:
    """Sequence length at which the S x S products cost as much as all else, tokens.

    6 d for the blocks alone; with an output head of V words over N_L blocks,
    6 d + V / (2 N_L). The batch cancels.
    """
    d, n = count("width", width), count("layers", layers)
    return 6.0 * d + count("vocab", vocab, low=0) / (2.0 * n)


def head_forward(batch: int, seq: int, width: int, vocab: int) -> float:
    """Forward FLOP of the output head, 2 B S d V."""
    return 2.0 * count("batch", batch) * count("seq", seq) * count("width", width) * count(
        "vocab", vocab)


def forward_per_step(shape: Shape, batch: int, seq: int) -> float:
    """Forward FLOP of the whole model on one batch."""
    blocks = shape.layers * block_forward(batch, seq, shape.width)
    return blocks + head_forward(batch, seq, shape.width, shape.vocab)


def per_step(shape: Shape, batch: int, seq: int) -> float:
    """Model FLOP of one training step: forward, and backward at twice forward."""
    return 3.0 * forward_per_step(shape, batch, seq)


def per_token(shape: Shape, seq: int) -> float:
    """Model FLOP per trained token, 6 (12 L d^2 + V d) + 12 L d S.

    Equals `per_step` over its tokens, at any batch.
    """
    return per_step(shape, 1, seq) / seq


def recomputed_per_step(
    shape: Shape, batch: int, seq: int, recompute: str, attention: str = "flash"
) -> float:
    """FLOP that `recompute` adds to a step; hardware FLOP are `per_step` plus these.

    PyTorch's checkpoint re-runs a segment only as far as the last tensor that backward
    needs, so a block's closing product (8 B S d^2) is spared in the last block of each
    segment, and `selective` repeats Q K^T but not A V. With tiled attention there is
    no S x S tensor to drop, and `selective` adds nothing.
    """
    together = blocks_per_segment(recompute, shape.layers)
    choice("attention", attention, ATTENTION_FORMS)
    if recompute == "selective" and attention == "materialised":
        return shape.layers * attention_scores(batch, 1, seq, shape.width)
    if together is None:
        return 0.0
    n = shape.layers
    segments = -(-n // together)
    closing = matmul(count("batch", batch) * count("seq", seq), 4 * shape.width, shape.width)
    return n * block_forward(batch, seq, shape.width) - segments * closing


def mfu_from_hfu(
    hardware_utilisation: float, model_forwards: float = 3.0, hardware_forwards: float = 4.0
) -> float:
    """Model FLOP utilisation behind a hardware figure that also counts recomputation.

    With full recomputation the hardware runs four forwards' worth of work a step and
    the model needs three, so an HFU of 52 % is an MFU of 39 %.
    """
    hfu = fraction("hardware_utilisation", hardware_utilisation)
    model = number("model_forwards", model_forwards, above=0.0)
    return hfu * model / number("hardware_forwards", hardware_forwards, low=model)


def convolution_macs_per_output(kernel: int, channels: int) -> float:
    """Multiply-adds for one output value of a square convolution, kernel^2 x channels."""
    return float(count("kernel", kernel)) ** 2 * count("channels", channels)


def convolution_output_side(side: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Side of a square convolution's output: floor((side + 2 padding - kernel) / stride) + 1."""
    room = (count("side", side) + 2 * count("padding", padding, low=0)
            - count("kernel", kernel, low=1))
    if room < 0:
        raise InputError("kernel", kernel, "no larger than the padded input",
                         f"The input is {side} wide with {padding} of padding on each side.")
    return room // count("stride", stride) + 1
