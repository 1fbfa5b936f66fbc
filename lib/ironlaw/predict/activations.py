"""Bytes of the tensors that the backward pass waits for: the document's formula.

Per block and token the backward pass needs 34 bytes per channel in 16-bit formats,
and 5 bytes per head and pair of positions when the S x S scores are kept
(Korthikanti et al. 2022): two bytes for the scores, two for their softmax, and one
for each of the dropout masks. `peak` holds what PyTorch really keeps, which differs.
Taught in chapters 2, 3 and 5 (Napkin math 1.3, 1.4, 1.6; equations 2, 4 and 5).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError, count, not_negative, number, positive

TOKEN_FACTOR = 34.0
"""Bytes per block, token and channel in 16-bit formats: the part linear in S."""
SCORE_FACTOR = 5.0
"""Bytes per block, head and pair of positions: the part quadratic in S."""
TOKEN_FACTOR_FP32 = 66.0
"""The same in FP32: dropout masks stay one byte, so 34 becomes 66 and not 68."""
SCORE_FACTOR_FP32 = 9.0
"""The same in FP32: 5 becomes 9 and not 10."""


def hidden_bytes(
    batch: int, seq: int, width: int, tensors: int = 1, bytes_per_value: float = 2.0
) -> float:
    """Bytes of `tensors` tensors of shape B x S x d (queries, keys, values, output: four)."""
    return (float(count("batch", batch)) * count("seq", seq) * count("width", width)
            * count("tensors", tensors) * positive("bytes_per_value", bytes_per_value))


def feed_forward_bytes(
    batch: int, seq: int, width: int, expansion: int = 4, bytes_per_value: float = 2.0
) -> float:
    """Bytes of one expanded feed-forward tensor, B x S x (expansion d).

    The document lists one; the backward pass needs two (before and after GELU).
    """
    return (float(count("batch", batch)) * count("seq", seq) * count("width", width)
            * count("expansion", expansion) * positive("bytes_per_value", bytes_per_value))


def score_bytes(
    batch: int, heads: int, seq: int, bytes_per_score: float = SCORE_FACTOR
) -> float:
    """Bytes kept for one block's S x S scores, softmax and dropout mask."""
    return (positive("bytes_per_score", bytes_per_score) * count("batch", batch)
            * count("heads", heads) * count("seq", seq) ** 2)


def listed_block_bytes(
    batch: int, seq: int, width: int, heads: int, norm_bytes: float = 10e6
) -> float:
    """One block as Napkin math 1.3 lists it: attention, one 4d tensor, scores, norms.

    Audit: this list leaves out one 4d tensor and most of the norms' inputs, so 48 such
    blocks (30.7 GB) are less than the 35.9 GB of `document_bytes`. `norm_bytes` is the
    document's own estimate.
    """
    return (hidden_bytes(batch, seq, width, 4) + feed_forward_bytes(batch, seq, width)
            + score_bytes(batch, heads, seq) + not_negative("norm_bytes", norm_bytes))


def document_bytes(
    layers: int,
    batch: int,
    seq: int,
    width: int,
    heads: int,
    token_factor: float = TOKEN_FACTOR,
    score_factor: float = SCORE_FACTOR,
) -> float:
    """Activations of all blocks, N_L S B d (34 + 5 H S / d) bytes.

    Pass `TOKEN_FACTOR_FP32` and `SCORE_FACTOR_FP32` for FP32 tensors.
    """
    tokens = float(count("layers", layers)) * count("batch", batch) * count("seq", seq)
    linear = not_negative("token_factor", token_factor) * count("width", width)
    quadratic = not_negative("score_factor", score_factor) * count("heads", heads) * seq
    return tokens * (linear + quadratic)


def selective_bytes(
    layers: int, batch: int, seq: int, width: int, token_factor: float = TOKEN_FACTOR
) -> float:
    """What selective recomputation keeps: the S x S tensors go, 34 S B d a block stays."""
    return (positive("token_factor", token_factor) * count("layers", layers)
            * count("batch", batch) * count("seq", seq) * count("width", width))


def selective_saving(
    seq: int,
    width: int,
    heads: int,
    token_factor: float = TOKEN_FACTOR,
    score_factor: float = SCORE_FACTOR,
) -> float:
    """Share of the activations that selective recomputation drops; batch and depth cancel."""
    quadratic = (positive("score_factor", score_factor) * count("heads", heads)
                 * count("seq", seq) / count("width", width))
    return quadratic / (positive("token_factor", token_factor) + quadratic)


def factor(seq: int, width: int, heads: int, bytes_per_value: float = 2.0) -> float:
    """Kept values per block, token and channel: (34 + 5 H S / d) / bytes (Napkin math 1.4)."""
    quadratic = SCORE_FACTOR * count("heads", heads) * count("seq", seq) / count("width", width)
    return (TOKEN_FACTOR + quadratic) / positive("bytes_per_value", bytes_per_value)


def rescaled_bytes(
    activation_bytes: float, from_bytes: float = 2.0, to_bytes: float = 4.0
) -> float:
    """Activations as if every byte grew with the number format.

    The document's shortcut from FP16 to FP32. Audit: masks do not grow, so the FP32
    figure of Napkin math 1.3 and 1.6 is 66.1 GB (`document_bytes` with the FP32
    factors), not 71.7.
    """
    return (positive("activation_bytes", activation_bytes) * positive("to_bytes", to_bytes)
            / positive("from_bytes", from_bytes))


def reduced_bytes(activation_bytes: float, reduction: float) -> float:
    """Activations after an assumed reduction by a factor of at least 1."""
    return positive("activation_bytes", activation_bytes) / number("reduction", reduction, low=1.0)


def at_batch(activation_bytes: float, reference_batch: int, batch: int) -> float:
    """Activations at another micro-batch: in proportion to it (equations 2 and 5)."""
    return (positive("activation_bytes", activation_bytes) * count("batch", batch)
            / count("reference_batch", reference_batch))


def per_batch_bytes(
    batch: int, state_bytes: Sequence[float], output_bytes: Sequence[float]
) -> float:
    """Equation 5: B times the sum over layers of (s_l + a_l), both in bytes per example."""
    if len(state_bytes) != len(output_bytes):
        raise InputError("output_bytes", output_bytes,
                         f"as long as state_bytes ({len(state_bytes)} layers)")
    layers = [not_negative(f"state_bytes[{i}]", s) + not_negative(f"output_bytes[{i}]", a)
              for i, (s, a) in enumerate(zip(state_bytes, output_bytes, strict=True))]
    return count("batch", batch) * sum(layers)


def feature_map_bytes(
    height: int, width: int, channels: int, batch: int = 1, bytes_per_value: float = 4.0
) -> float:
    """Bytes of a batch of image feature maps, height x width x channels values each."""
    return (float(count("height", height)) * count("width", width) * count("channels", channels)
            * count("batch", batch) * positive("bytes_per_value", bytes_per_value))
