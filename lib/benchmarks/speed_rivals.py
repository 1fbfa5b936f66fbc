"""The training steps that `train_speed.py` sets against each other, one function each.

Every function builds a model and returns one call that trains on one micro-batch, and a list
of every option that was chosen. All train GPT-2 of the same sizes on the same random
tokens with AdamW at a fixed learning rate, without dropout.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from ironlaw.config import RunConfig
from ironlaw.gpt2 import precision, step
from ironlaw.transformer import Shape
from torch import Tensor, nn
from torch.nn import functional

Rival: TypeAlias = tuple[Callable[[], None], dict[str, str]]
LEARNING_RATE = 6e-4
BETAS = (0.9, 0.95)
DECAY = 0.1


def update_rule(device: str) -> dict[str, bool]:
    """The form of AdamW that nanoGPT's recipe takes on `device`."""
    return {"fused": True} if torch.device(device).type == "cuda" else {"foreach": True}


def ours(config: RunConfig, device: str) -> Rival:
    """What `ironlaw train` runs by default."""
    return _ours(config, device, compiled=False)


def ours_compiled(config: RunConfig, device: str) -> Rival:
    """What `ironlaw train --compile` runs."""
    return _ours(config, device, compiled=True)


def ours_fastest(config: RunConfig, device: str) -> Rival:
    """What `ironlaw train --compile --pad-vocab` runs."""
    return _ours(config, device, compiled=True, padded=True)


def nanogpt_style(config: RunConfig, device: str) -> Rival:
    """An eager step after nanoGPT's published recipe.

    Fused attention, AdamW with decay on matrices only, clipping at 1.0, logits for all
    positions in one piece, gradients set to None. As in that recipe AdamW is PyTorch's fused
    one on CUDA, and goes over all tensors at once elsewhere.
    """
    torch.manual_seed(0)
    model = PlainGPT(config.shape).to(device)
    rule = update_rule(device)
    weights = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": weights, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
        lr=LEARNING_RATE, betas=BETAS, **rule)
    formats = precision.of(config.precision, device)
    tokens, targets = step.random_batches(config, device)[0]

    def call() -> None:
        with formats.autocast():
            logits = model(tokens)
            loss = functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return call, {"attention": "scaled_dot_product_attention, is_causal", "clip": "1.0",
                  "optimizer": f"torch.optim.AdamW({next(iter(rule))}=True)", "compile": "no",
                  "loss": "cross_entropy over all logits",
                  "float32_matmul_precision": torch.get_float32_matmul_precision(),
                  "allocator": "as it is", "zero_grad": "set_to_none=True"}


def transformers(config: RunConfig, device: str) -> Rival:
    """`transformers`' GPT2LMHeadModel in the plain loop of its documentation, no clipping."""
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers import __version__ as version

    shape = config.shape
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=shape.vocab, n_positions=shape.context, n_embd=shape.width,
        n_layer=shape.layers, n_head=shape.heads, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0)).to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS,
                                  weight_decay=DECAY)
    formats = precision.of(config.precision, device)
    tokens = step.random_batches(config, device)[0][0]

    def call() -> None:
        with formats.autocast():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return call, {"transformers": version, "attention": str(model.config._attn_implementation),
                  "clip": "none", "optimizer": "torch.optim.AdamW, PyTorch's own choice",
                  "compile": "no", "loss": "the model's own",
                  "float32_matmul_precision": torch.get_float32_matmul_precision(),
                  "allocator": "as it is", "zero_grad": "set_to_none=True"}


RIVALS: dict[str, Callable[[RunConfig, str], Rival]] = {
    "ours": ours, "ours_compiled": ours_compiled, "ours_fastest": ours_fastest,
    "nanogpt_style": nanogpt_style, "transformers": transformers}


def _ours(config: RunConfig, device: str, *, compiled: bool, padded: bool = False) -> Rival:
    from ironlaw.commands._attention import quickest, quickest_rows
    from ironlaw.measure import matmul

    kind = torch.device(device).type
    config = config.replace(attention=quickest(kind), optimizer="adamw-fused",
                            loss_rows=quickest_rows(kind))
    # As the trainer does, for as long as this process lives.
    mode = contextlib.ExitStack().enter_context(
        matmul.exact_float32_products(torch.device(device)))
    torch.manual_seed(0)
    train = step.build(config, device, learning_rate=LEARNING_RATE, weight_decay=DECAY,
                       pad_vocab=padded, compile=compiled)
    batches = step.random_batches(config, device)

    options = {"attention": config.attention, "clip": "1.0", "optimizer": config.optimizer,
               "loss": (f"in slices of {config.loss_rows} tokens" if config.loss_rows
                        else "cross_entropy over all logits"),
               "vocabulary": f"{len(train.model.token_embedding.weight)} rows",
               "float32_matmul_precision": f"{mode} (exact float32 products)",
               "allocator": "freed memory is kept (glibc)", "zero_grad": "set_to_none=True"}

    def call() -> None:
        train(batches)
        # Compiling may turn out to be impossible at the first step.
        options["compile"] = "yes" if train.compiled else f"no {train.not_compiled}".strip()

    return call, options


class PlainBlock(nn.Module):
    """Norm, causal attention, norm, feed-forward, each added to x: [B, S, d] -> [B, S, d]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attn = nn.Linear(shape.width, 3 * shape.width)
        self.attn_out = nn.Linear(shape.width, shape.width)
        self.fc = nn.Linear(shape.width, 4 * shape.width)
        self.fc_out = nn.Linear(4 * shape.width, shape.width)
        self.gelu = nn.GELU(approximate="tanh")

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, width = x.shape
        parts = self.attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (part.view(batch, seq, self.heads, -1).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_out(y.transpose(1, 2).contiguous().view(batch, seq, width))
        x = x + self.fc_out(self.gelu(self.fc(self.ln_2(x))))
        return x


class PlainGPT(nn.Module):
    """GPT-2 the way a short public script writes it: token numbers [B, S] to logits [B, S, V]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.wte = nn.Embedding(shape.vocab, shape.width)
        self.wpe = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(PlainBlock(shape) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.width)
        self.lm_head = nn.Linear(shape.width, shape.vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() >= 2:
                std = 0.02 / math.sqrt(2 * shape.layers) if "_out" in name else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))
