"""The update rules that a step can run, with weight decay where it belongs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..config import OPTIMIZERS, TRAINABLE_OPTIMIZERS
from ..errors import InputError, choice, not_negative, positive

BETAS = (0.9, 0.95)
"""Adam's averaging factors as in GPT-3's training (Brown et al. 2020, appendix B)."""


def groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters in two groups: matrices and embeddings decay, biases and norms do not.

    Decay pulls weights towards zero; a norm's gain or a bias has no reason to be small.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]


def make(
    model: nn.Module,
    name: str,
    learning_rate: float,
    *,
    weight_decay: float = 0.1,
    betas: tuple[float, float] = BETAS,
    eps: float = 1e-8,
) -> torch.optim.Optimizer:
    """The optimizer called `name` over `model`'s parameters.

    `adamw` is PyTorch's own choice of implementation; `adamw-foreach` updates all
    tensors of a group together (fewer, larger kernels; a temporary of about 4 bytes per
    parameter); `adamw-fused` does the whole update in one pass over memory. `sgd`,
    `momentum`, `rmsprop` and `adam` are as in the document and use no weight decay.
    """
    choice("optimizer", name, OPTIMIZERS)
    if name not in TRAINABLE_OPTIMIZERS:
        raise InputError("optimizer", name, "one of " + ", ".join(TRAINABLE_OPTIMIZERS),
                         f"{name} is known to the memory model only; train with adamw-fused.")
    rate = positive("learning_rate", learning_rate)
    decay = not_negative("weight_decay", weight_decay)
    if name in ("sgd", "momentum"):
        return torch.optim.SGD(groups(model, 0.0), lr=rate,
                               momentum=0.9 if name == "momentum" else 0.0)
    if name == "rmsprop":
        return torch.optim.RMSprop(groups(model, 0.0), lr=rate, eps=eps)
    if name == "adam":
        return torch.optim.Adam(groups(model, 0.0), lr=rate, betas=betas, eps=eps)
    variant = {"adamw-foreach": {"foreach": True}, "adamw-fused": {"fused": True}}.get(name, {})
    return torch.optim.AdamW(groups(model, decay), lr=rate, betas=betas, eps=eps, **variant)
