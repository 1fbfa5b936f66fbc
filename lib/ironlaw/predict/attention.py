"""Attention's bytes: S x S scores in memory, or tiles that never leave the chip.

Sizes per head unless heads and batch are given; S is the sequence length, d_head the
head's width, b the tile's side. `flash` runs the algorithm itself. Taught in
chapters 2 and 5 (section 1.5.4, equation 16, algorithm 3, table 13).
"""

from __future__ import annotations

import math

from ..errors import InputError, count, positive
from .roofline import Kernel


def head_width(width: int, heads: int) -> int:
    """d_head = d / H, for numbers that divide evenly."""
    d, h = count("width", width), count("heads", heads)
    if d % h:
        raise InputError("heads", heads, f"a divisor of width = {width}")
    return d // h


def score_matrix_bytes(
    seq: int, heads: int = 1, batch: int = 1, bytes_per_value: float = 4.0
) -> float:
    """Bytes of one S x S tensor per head: scores, or their softmax."""
    return (float(count("seq", seq)) ** 2 * count("heads", heads) * count("batch", batch)
            * positive("bytes_per_value", bytes_per_value))


def tile_bytes(rows: int, columns: int, bytes_per_value: float = 4.0) -> float:
    """Bytes of one tile of scores in on-chip memory."""
    return float(count("rows", rows)) * count("columns", columns) * positive(
        "bytes_per_value", bytes_per_value)


def head_tensors_bytes(
    seq: int, head_width: int, tensors: int = 4, bytes_per_value: float = 4.0
) -> float:
    """Bytes of `tensors` S x d_head tensors of one head; Q, K, V and Y are four."""
    return (float(count("seq", seq)) * count("head_width", head_width) * count("tensors", tensors)
            * positive("bytes_per_value", bytes_per_value))


def document_memory_ratio(seq: int, head_width: int, tensors: int = 3) -> float:
    """Score matrix over Q, K, V of one head: S / (3 d_head), the document's 21.3.

    Audit: Q, K and V exist in both implementations, and the output is left out;
    `memory_ratio` compares like with like (17 for the same head).
    """
    return count("seq", seq) / (count("tensors", tensors) * float(count("head_width", head_width)))


def memory_ratio(seq: int, head_width: int, tensors: int = 4) -> float:
    """(scores + Q, K, V, Y) over (Q, K, V, Y): what tiling really saves per head."""
    shared = count("tensors", tensors) * float(count("head_width", head_width))
    return (count("seq", seq) + shared) / shared


def context_growth(longest: int, baseline: int) -> float:
    """How many times longer the longest context is."""
    return count("longest", longest) / count("baseline", baseline)


def products_flops(seq: int, head_width: int) -> float:
    """FLOP of Q K^T and A V of one head, 4 S^2 d_head: the same tiled or not."""
    return 4.0 * count("seq", seq) ** 2 * count("head_width", head_width)


def materialised_traffic(seq: int, head_width: int, bytes_per_value: float = 2.0) -> float:
    """Bytes of one head's forward through device memory when scores are stored.

    Q, K, V read and Y written; scores written, read by softmax, written again and read
    by A V: (4 S d_head + 4 S^2) values.
    """
    s, d = count("seq", seq), count("head_width", head_width)
    return (4.0 * s * d + 4.0 * s * s) * positive("bytes_per_value", bytes_per_value)


def tiled_traffic(
    seq: int, head_width: int, tile: int, bytes_per_value: float = 2.0
) -> float:
    """Bytes of one head's forward by algorithm 3 with query tiles of `tile` rows.

    Q is read once and Y written once; K and V are read again for each of the
    ceil(S / b) query tiles; one FP32 statistic per row is written for the backward
    pass. The tile, and so on-chip memory, decides: this is not O(S).
    """
    s, d = count("seq", seq), count("head_width", head_width)
    passes = -(-s // count("tile", tile))
    values = 2.0 * s * d + 2.0 * passes * s * d
    return values * positive("bytes_per_value", bytes_per_value) + 4.0 * s


def largest_tile(
    sram_bytes: float, head_width: int, bytes_per_value: float = 2.0
) -> int:
    """The largest square tile whose Q, K, V, FP32 scores and FP32 output fit on the chip.

    b (3 d_head bytes + 4 d_head) + 4 b^2 <= SRAM; real kernels round down further.
    """
    d = count("head_width", head_width)
    linear = d * (3.0 * positive("bytes_per_value", bytes_per_value) + 4.0)
    room = positive("sram_bytes", sram_bytes)
    side = int((-linear + math.sqrt(linear * linear + 16.0 * room)) / 8.0)
    if side < 1:
        raise InputError("sram_bytes", sram_bytes, f"at least {linear + 4:g} bytes",
                         "Not even a tile of one row fits.")
    return side


def standard(
    seq: int, head_width: int, heads: int = 1, batch: int = 1, bytes_per_value: float = 2.0
) -> Kernel:
    """Materialised attention's forward as a roofline kernel."""
    n = count("heads", heads) * count("batch", batch)
    return Kernel("standard attention", n * products_flops(seq, head_width),
                  n * materialised_traffic(seq, head_width, bytes_per_value))


def tiled(
    seq: int, head_width: int, tile: int = 128, heads: int = 1, batch: int = 1,
    bytes_per_value: float = 2.0,
) -> Kernel:
    """Tiled attention's forward as a roofline kernel: same FLOP, less traffic."""
    n = count("heads", heads) * count("batch", batch)
    return Kernel("tiled attention", n * products_flops(seq, head_width),
                  n * tiled_traffic(seq, head_width, tile, bytes_per_value))


def saved_bytes(
    seq: int, head_width: int, heads: int, batch: int, *, tiles: bool,
    bytes_per_value: float = 2.0, bytes_per_score: float = 5.0,
) -> float:
    """Bytes that attention leaves for the backward pass: O(S) with tiles, O(S^2) without."""
    n = count("heads", heads) * count("batch", batch)
    kept = n * head_tensors_bytes(seq, head_width, 4, bytes_per_value)
    if tiles:
        return kept + 4.0 * n * count("seq", seq)
    return kept + n * positive("bytes_per_score", bytes_per_score) * count("seq", seq) ** 2
