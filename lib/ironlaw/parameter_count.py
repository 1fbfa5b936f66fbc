"""How many parameters a GPT-2 has.

Apart from `transformer`, so that a lab that asks for this count can close it while it is
graded and still read shapes.
"""

from __future__ import annotations


def block(width: int) -> int:
    """Parameters of one block: 12 d^2 matrix weights, 13 d biases and norms."""
    return 12 * width**2 + 13 * width


def whole(layers: int, width: int, vocab: int, context: int) -> int:
    """All trainable parameters, the tied output head counted once.

    124,439,808 for GPT-2 small. Counting the head again gives the 163M that several
    tools print by mistake.
    """
    embeddings = (vocab + context) * width
    return embeddings + layers * block(width) + 2 * width
