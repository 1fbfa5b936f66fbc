"""Attention itself, twice: with the S x S matrix, and in tiles that never hold it.

Equation 16 and algorithm 3 on numpy arrays, small enough to follow by hand. Q, K and V
are [S, d_head]; results equal to rounding. `steps` shows each tile's running maximum
and sum, for a figure that walks through them. Taught in chapter 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, count

Array = NDArray[np.float64]


def attention(q: Array, k: Array, v: Array, *, causal: bool = True) -> Array:
    """Equation 16, softmax(Q K^T / sqrt(d_k)) V, with every score in memory.

    `causal` hides the future from each query, as GPT-2 does; the document's equation
    and listing leave that out.
    """
    q, k, v = _checked(q, k, v, causal)
    scores = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        scores = np.where(_hidden(0, len(q), 0, len(k)), -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights @ v / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class TileStep:
    """The state of algorithm 3 after one pair of tiles.

    `rows` and `columns` are half-open ranges of queries and keys; `maximum` m_i, `total`
    l_i and `output` Y_i (not yet divided by l_i) belong to the tile's queries.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    maximum: Array
    total: Array
    output: Array


def steps(
    q: Array, k: Array, v: Array, tile: int, *, causal: bool = True
) -> Iterator[TileStep]:
    """Algorithm 3, pair of tiles by pair of tiles, with the online softmax.

    A new maximum rescales what has been summed so far by e^(m - m'), so each tile of
    scores can be thrown away once it is used. Tiles that lie wholly in the future are
    skipped, which halves the work of a causal model.
    """
    q, k, v = _checked(q, k, v, causal)
    b, scale = count("tile", tile), 1.0 / math.sqrt(q.shape[1])
    for top in range(0, len(q), b):
        rows = (top, min(top + b, len(q)))
        maximum = np.full(rows[1] - top, -np.inf)
        total = np.zeros(rows[1] - top)
        output = np.zeros((rows[1] - top, v.shape[1]))
        for left in range(0, len(k), b):
            columns = (left, min(left + b, len(k)))
            if causal and left >= rows[1]:
                break
            scores = q[slice(*rows)] @ k[slice(*columns)].T * scale
            if causal:
                scores = np.where(_hidden(*rows, *columns), -np.inf, scores)
            larger = np.maximum(maximum, scores.max(axis=1))
            keep = np.exp(maximum - larger)
            weights = np.exp(scores - larger[:, None])
            output = output * keep[:, None] + weights @ v[slice(*columns)]
            total = total * keep + weights.sum(axis=1)
            maximum = larger
            yield TileStep(rows, columns, maximum, total, output)


def tiled_attention(
    q: Array, k: Array, v: Array, tile: int, *, causal: bool = True
) -> Array:
    """The result of algorithm 3: equal to `attention`, with one tile of scores at a time."""
    result = np.empty((len(q), np.asarray(v).shape[1]))
    for step in steps(q, k, v, tile, causal=causal):
        result[slice(*step.rows)] = step.output / step.total[:, None]
    return result


def _hidden(top: int, bottom: int, left: int, right: int) -> NDArray[np.bool_]:
    return np.arange(left, right)[None, :] > np.arange(top, bottom)[:, None]


def _checked(q: Array, k: Array, v: Array, causal: bool) -> tuple[Array, Array, Array]:
    given = [np.asarray(x, dtype=np.float64) for x in (q, k, v)]
    for name, x in zip("qkv", given, strict=True):
        if x.ndim != 2 or 0 in x.shape:
            raise InputError(name, x.shape, "an array of shape [S, d_head]")
        if not np.isfinite(x).all():
            raise InputError(name, "values that are not finite", "made of finite numbers")
    a, b, c = given
    if a.shape[1] != b.shape[1]:
        raise InputError("k", b.shape, f"as wide as q, {a.shape[1]}")
    if len(b) != len(c):
        raise InputError("v", c.shape, f"as long as k, {len(b)}")
    if causal and len(a) != len(b):
        raise InputError("q", a.shape, f"as long as k, {len(b)}, when attention is causal")
    return a, b, c
