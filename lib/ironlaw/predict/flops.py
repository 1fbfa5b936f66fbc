"""FLOPs of a GPT-2 style decoder, counted the way `torch.utils.flop_counter` counts.

One multiply-add is two FLOP. Only matrix products count; softmax, norms and
activations do not. Attention is counted in full, without a causal half (the PaLM
convention), so an MFU from here compares with PaLM's and not with llm.c's.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import count
from ..transformer import Shape


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

    QKV 6 B S d^2; scores and weighted values 2 B S^2 d each (heads cancel:
    H d_head = d); output projection 2 B S d^2; feed-forward 16 B S d^2.
    """
    b, s, d = count("batch", batch), count("seq", seq), count("width", width)
    square = float(b) * s * d * d
    scores = 2.0 * b * s * s * d
    return LayerFlops(qkv=6 * square, scores=scores, weighted_values=scores,
                      projection=2 * square, feed_forward=16 * square)


def head_forward(batch: int, seq: int, width: int, vocab: int) -> float:
    """Forward FLOP of the output head, 2 B S d V."""
    return 2.0 * count("batch", batch) * count("seq", seq) * count("width", width) * count(
        "vocab", vocab)


def forward_per_step(shape: Shape, batch: int, seq: int) -> float:
    """Forward FLOP of the whole model on one batch."""
    blocks = shape.layers * layer_forward(batch, seq, shape.width).total
    return blocks + head_forward(batch, seq, shape.width, shape.vocab)


def per_step(shape: Shape, batch: int, seq: int) -> float:
    """Model FLOP of one training step: forward, and backward at twice forward."""
    return 3.0 * forward_per_step(shape, batch, seq)


def per_token(shape: Shape, seq: int) -> float:
    """Model FLOP per trained token, 6 (12 L d^2 + V d) + 12 L d S.

    Equals `per_step` over its tokens, at any batch.
    """
    return per_step(shape, 1, seq) / seq
