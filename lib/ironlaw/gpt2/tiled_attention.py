"""Attention in tiles: exact, and without the S x S matrix. A version to read, not to race.

For one query, attention is a weighted mean of the values, with weights exp(score). Softmax
subtracts the largest score first, so that nothing overflows, and that seems to need all
scores at once. It does not. Keep three running figures per query while the keys pass by
in tiles:

    m    the largest score so far
    l    the sum of exp(score - m) so far
    acc  the sum of exp(score - m) * value so far

When a tile raises the maximum from m to m', every old term was made with the wrong one;
multiplying l and acc by exp(m - m') puts all of them right together. At the end acc / l
is the answer, and m + log l (the "log-sum-exp") is all that backward needs to rebuild any
tile's weights: p = exp(score - lse).

Backward, with D = sum over the row of (d_out * out), for each tile:

    dv += p^T d_out      dp = d_out v^T      ds = p * (dp - D)      dq += ds k      dk += ds^T q

(D is the term by which softmax's gradient couples a row: sum_j p_j dp_j. Because
out = sum_j p_j v_j it equals d_out . out, so the row need not be there to know it.)

Source: Milakov and Gimelshein 2018 (online softmax); Dao et al. 2022, "FlashAttention".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, count
from .precision import no_autocast


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = True,
                    tile: int = 64) -> Tensor:
    """softmax(q k^T / sqrt(D)) v, all of shape [..., S, D], in tiles of `tile` x `tile`.

    `causal` lets a query see only keys up to its own place. Sums run in float32 (float64
    for float64 inputs), inside autocast too; the result has q's dtype. Between forward and
    backward it keeps q, k, v, the output and one number per query.
    """
    count("tile", tile)
    if q.shape != k.shape or q.shape[:-1] != v.shape[:-1] or q.dim() < 2:
        raise InputError("q, k, v", (tuple(q.shape), tuple(k.shape), tuple(v.shape)),
                         "three tensors of shape [..., S, D]")
    with no_autocast(q.device.type):
        result: Tensor = _Tiled.apply(q, k, v, causal, tile)
    return result


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, tile: int) -> Tensor:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        out = torch.empty_like(v)
        lse = q.new_empty(q.shape[:-1], dtype=wide)
        for rows in _tiles(q.shape[-2], tile):
            m = q.new_full((*q.shape[:-2], rows.stop - rows.start, 1), -math.inf, dtype=wide)
            total = torch.zeros_like(m)
            acc = torch.zeros_like(v[..., rows, :], dtype=wide)
            for columns in _tiles(k.shape[-2], tile):
                if causal and columns.start >= rows.stop:
                    break  # every key from here on lies ahead of every query of this tile
                scores = _scores(q, k, rows, columns, causal, wide)
                higher = torch.maximum(m, scores.amax(-1, keepdim=True))
                weights = torch.exp(scores - higher)
                mend = torch.exp(m - higher)  # exp(-inf) = 0 at the first tile
                total = total * mend + weights.sum(-1, keepdim=True)
                acc = acc * mend + weights @ v[..., columns, :].to(wide)
                m = higher
            out[..., rows, :] = (acc / total).to(v.dtype)
            lse[..., rows] = (m + torch.log(total)).squeeze(-1)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal, ctx.tile, ctx.wide = causal, tile, wide
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        with no_autocast(d_out.device.type):  # it may be called inside one
            return _gradients(ctx, d_out)


def _gradients(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, out, lse = ctx.saved_tensors
    wide = ctx.wide
    dq, dk, dv = (torch.zeros_like(t, dtype=wide) for t in (q, k, v))
    coupling = (d_out.to(wide) * out.to(wide)).sum(-1, keepdim=True)
    scale = 1.0 / math.sqrt(q.shape[-1])
    for rows in _tiles(q.shape[-2], ctx.tile):
        above = d_out[..., rows, :].to(wide)
        for columns in _tiles(k.shape[-2], ctx.tile):
            if ctx.causal and columns.start >= rows.stop:
                break
            scores = _scores(q, k, rows, columns, ctx.causal, wide)
            p = torch.exp(scores - lse[..., rows].unsqueeze(-1))
            dp = above @ v[..., columns, :].to(wide).transpose(-2, -1)
            ds = p * (dp - coupling[..., rows, :]) * scale
            dv[..., columns, :] += p.transpose(-2, -1) @ above
            dq[..., rows, :] += ds @ k[..., columns, :].to(wide)
            dk[..., columns, :] += ds.transpose(-2, -1) @ q[..., rows, :].to(wide)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


def _tiles(length: int, tile: int) -> Iterator[slice]:
    for start in range(0, length, tile):
        yield slice(start, min(start + tile, length))


def _scores(q: Tensor, k: Tensor, rows: slice, columns: slice, causal: bool,
            wide: torch.dtype) -> Tensor:
    """One tile of q k^T / sqrt(D), minus infinity where a query would look ahead."""
    scores = q[..., rows, :].to(wide) @ k[..., columns, :].to(wide).transpose(-2, -1)
    scores = scores * (1.0 / math.sqrt(q.shape[-1]))
    if causal and columns.stop > rows.start + 1:  # the tile touches the diagonal
        places = torch.arange(rows.start, rows.stop, device=q.device).unsqueeze(1)
        keys = torch.arange(columns.start, columns.stop, device=q.device)
        scores = scores.masked_fill(keys > places, -math.inf)
    return scores
