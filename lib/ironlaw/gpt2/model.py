"""GPT-2, whole, in one file: embeddings, blocks, head and loss.

The architecture is the original's: norms before each sub-layer, learned positions,
the tanh form of GELU, biases everywhere, an output head tied to the token embedding,
and residual projections started smaller by 1 / sqrt(2 N_L). Three switches change how a
step runs and never what it computes: `attention` (a fused kernel, the S x S scores written
out, or the kernel's tiles to be read), `recompute` (what the backward pass computes a
second time) and `loss_rows` (how many tokens' logits exist at once).

Shapes: B sequences, S tokens, d width, H heads, V vocabulary. Number formats are
written out where they matter. Under mixed precision the matrix products run in 16 bit,
while the residual stream, the norms, the softmax and the loss stay in float32; what a
CPU run allocates is then what a CUDA run allocates.

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ..config import ATTENTION_FORMS, blocks_per_segment
from ..errors import InputError, choice, count, number
from ..transformer import Shape
from .loss import IGNORED, summed_in_slices
from .tiled_attention import tiled_attention

VOCAB_MULTIPLE = 64
"""A padded vocabulary is a multiple of this: 50,257 becomes 50,304."""


class Attention(nn.Module):
    """Causal self-attention over H heads: [B, S, d] -> [B, S, d]."""

    def __init__(self, shape: Shape, attention: str, recompute: str, dropout: float) -> None:
        super().__init__()
        self.heads = shape.heads
        self.form = attention
        self.fused = attention != "materialised"  # no S x S matrix is ever whole
        self.recompute_scores = recompute == "selective" and not self.fused
        self.dropout = dropout
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.projection = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, seq, width = x.shape
        qkv = self.qkv(x).view(batch, seq, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each [B, H, S, d / H]
        if self.form == "tiled":
            y = tiled_attention(q, k, v)
        elif self.fused:
            active = self.dropout if self.training else 0.0
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=active)
        elif self.recompute_scores and torch.is_grad_enabled():
            y = recomputed(self.materialised, self.dropout, q, k, v, mask)
        else:
            y = self.materialised(q, k, v, mask)
        return drop(self.projection(y.transpose(1, 2).reshape(batch, seq, width)),
                    self.dropout, self.training)

    def materialised(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """softmax(q k^T / sqrt(d / H)) v with every S x S matrix held in memory.

        `mask` [S, S] is minus infinity where a query would look ahead and 0 elsewhere
        (None: all may look). Adding it in place is safe, because the product before it
        does not need its result again. Its gradient passes through unchanged, whereas
        `masked_fill` would write all the scores once more in the backward pass.
        """
        scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
        if mask is not None:
            scores += mask
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32)
        weights = drop(weights, self.dropout, self.training)
        return weights.to(v.dtype) @ v


class FeedForward(nn.Module):
    """Two matrices with GELU between them: d -> 4 d -> d."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.expand = nn.Linear(shape.width, 4 * shape.width)
        self.contract = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.gelu(self.expand(x), approximate="tanh")
        return drop(self.contract(hidden), self.dropout, self.training)


class Block(nn.Module):
    """One transformer block; each half adds to the residual stream."""

    def __init__(self, shape: Shape, attention: str, recompute: str, dropout: float) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(shape.width, eps=1e-5)
        self.attention = Attention(shape, attention, recompute, dropout)
        self.norm_2 = nn.LayerNorm(shape.width, eps=1e-5)
        self.feed_forward = FeedForward(shape, dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


class GPT(nn.Module):
    """A GPT-2 of the given `shape`, randomly initialised from torch's global generator.

    `attention`: "flash" calls torch's scaled_dot_product_attention, which picks the best
    fused kernel of the device; "materialised" writes the S x S scores to memory; "tiled" is
    flash's algorithm spelled out (`tiled_attention`), to read and slow, without dropout.
    `recompute`: "none"; "selective" drops the S x S matrices (only "materialised" has any);
    "every-block" keeps only the input of each block, "every-K" that of every K-th, "sqrt" of
    every ceil(sqrt(N_L))-th. `dropout` is a probability, 0 for none.
    `loss_rows`: tokens per slice of the loss. 0 or None holds all B S x V logits at once, as
    PyTorch's own cross-entropy; a number that many rows at a time (see `loss`).
    `pad_vocab`: the token embedding gets rows up to a multiple of `VOCAB_MULTIPLE`, for
    matrix units that are quicker on round sizes. No token uses them and they never get any
    probability, so that loss and gradients are those of the model without them.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        attention: str = "flash",
        recompute: str = "none",
        dropout: float = 0.0,
        loss_rows: int | None = 0,
        pad_vocab: bool = False,
    ) -> None:
        super().__init__()
        choice("attention", attention, ATTENTION_FORMS)
        blocks_per_segment(recompute, shape.layers)  # refuses what is no policy
        self.dropout = number("dropout", dropout, low=0.0, high=0.99)
        if self.dropout and attention == "tiled":
            raise InputError("dropout", dropout, "0 with tiled attention, which drops no weights",
                             "Choose --attention materialised or flash to train with dropout.")
        self.loss_rows = count("loss_rows", loss_rows or 0, low=0)
        self.shape, self.attention, self.recompute = shape, attention, recompute
        self.token_embedding = nn.Embedding(shape.vocab, shape.width)
        self.position_embedding = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(
            Block(shape, attention, recompute, self.dropout) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, eps=1e-5)
        self._initialise()
        self.no_such_token: Tensor | None
        self.register_buffer("no_such_token", None, persistent=False)
        if pad_vocab:
            self._pad_vocab()

    @classmethod
    def from_pretrained(cls, name: str, **switches: Any) -> GPT:
        """The original weights: "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", or a folder.

        See `pretrained.from_pretrained` for other sources and for the errors.
        """
        from .pretrained import from_pretrained

        return from_pretrained(name, **switches)

    def _initialise(self) -> None:
        """Normal 0.02 for matrices (0.01 for positions, as in the original), zero biases.

        Two projections per block add to the residual stream; their spread shrinks by
        1 / sqrt(2 N_L) so that the stream does not grow with depth.
        """
        residual = 0.02 / math.sqrt(2 * self.shape.layers)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                ends_branch = name.endswith(("projection", "contract"))
                nn.init.normal_(module.weight, std=residual if ends_branch else 0.02)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        nn.init.normal_(self.position_embedding.weight, std=0.01)

    def _pad_vocab(self) -> None:
        """Add rows of zeros, after all random numbers are drawn: the others stay the same.

        The head's bias gives the new columns minus infinity inside the product itself,
        where a slice of the logits would have to be copied to be contiguous.
        """
        vocab = self.shape.vocab
        extra = -vocab % VOCAB_MULTIPLE
        weight = functional.pad(self.token_embedding.weight.detach(), (0, 0, 0, extra))
        self.token_embedding = nn.Embedding(vocab + extra, self.shape.width, _weight=weight)
        self.no_such_token = functional.pad(torch.zeros(vocab, device=weight.device),
                                            (0, extra), value=-math.inf)

    def features(self, tokens: Tensor) -> Tensor:
        """What the head reads: [B, S] token numbers -> [B, S, d]."""
        seq = tokens.shape[-1]
        if tokens.dim() != 2 or not 0 < seq <= self.shape.context:
            raise InputError("tokens", tuple(tokens.shape),
                             f"of shape [B, S] with 1 <= S <= {self.shape.context}",
                             "Cut the text into pieces of at most the model's context.")
        positions = torch.arange(seq, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        x = drop(x, self.dropout, self.training)
        mask = None
        if self.attention == "materialised":
            mask = torch.full((seq, seq), -math.inf, device=tokens.device).triu(1)
        return self.norm(self._through_blocks(x, mask))

    def _through_blocks(self, x: Tensor, mask: Tensor | None) -> Tensor:
        step = blocks_per_segment(self.recompute, self.shape.layers)
        if step is None or not torch.is_grad_enabled():
            return self._run(0, self.shape.layers, x, mask)
        for first in range(0, self.shape.layers, step):
            last = min(first + step, self.shape.layers)
            x = recomputed(self._run, self.dropout, first, last, x, mask)
        return x

    def _run(self, first: int, last: int, x: Tensor, mask: Tensor | None) -> Tensor:
        for index in range(first, last):
            x = self.blocks[index](x, mask)
        return x

    def head(self, x: Tensor) -> Tensor:
        """Logits [..., V] from features [..., d], through the token embedding itself.

        With a padded vocabulary there are more columns, all minus infinity.
        """
        return functional.linear(x, self.token_embedding.weight, self.no_such_token)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, S, V] for the token after each of `tokens` [B, S]."""
        return self.head(self.features(tokens))[..., :self.shape.vocab]

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats over all `targets` [B, S] that are not `IGNORED`.

        A float32 scalar in every precision. With no target left it is 0, not NaN.
        """
        return self.loss_of_features(self.features(tokens), targets)

    def loss_of_features(self, x: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy from what the head reads, `features`: [B, S, d]."""
        x, wanted = x.flatten(0, 1), targets.flatten()
        if self.loss_rows:
            total = summed_in_slices(x, self.token_embedding.weight, self.no_such_token, wanted,
                                     self.loss_rows)
        else:
            total = functional.cross_entropy(self.head(x).float(), wanted, ignore_index=IGNORED,
                                             reduction="sum")
        return total / (wanted != IGNORED).sum().clamp(min=1)


def drop(x: Tensor, probability: float, training: bool) -> Tensor:
    """Dropout that saves a one-byte mask on every device.

    `nn.Dropout` saves a mask in x's own format on a CPU, which would make a CPU's
    account of memory differ from CUDA's.
    """
    if not training or probability == 0.0:
        return x
    return torch.native_dropout(x, probability, True)[0]


def recomputed(function: Any, dropout: float, *inputs: Any) -> Tensor:
    """`function(*inputs)`, keeping only the inputs and computing the rest again later.

    With dropout the generator's state is kept too, so that the second pass drops the
    same elements.
    """
    result: Tensor = checkpoint(function, *inputs, use_reentrant=False,
                                preserve_rng_state=dropout > 0.0)
    return result
