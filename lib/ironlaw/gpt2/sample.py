"""Let a trained model continue a text."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import count, not_negative
from .model import GPT


@torch.no_grad()
def sample(
    model: GPT,
    tokens: Tensor,
    n: int,
    *,
    temperature: float = 0.8,
    top_k: int | None = 50,
    seed: int = 0,
) -> Tensor:
    """`tokens` [B, S] with `n` more drawn after them: [B, S + n].

    Each is drawn from the `top_k` likeliest (None: all) after dividing the logits by
    `temperature`; 0 takes the likeliest. The draw has a generator of its own and leaves
    torch's global one alone. Only the last `context` tokens are looked at.
    """
    count("n", n, low=0)
    not_negative("temperature", temperature)
    generator = torch.Generator(device="cpu").manual_seed(seed)
    was_training = model.training
    model.eval()
    for _ in range(n):
        logits = model(tokens[:, -model.shape.context:])[:, -1].float().cpu()
        if temperature == 0.0:
            chosen = logits.argmax(-1, keepdim=True)
        else:
            if top_k is not None:
                kth = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
                logits = logits.masked_fill(logits < kth, -torch.inf)
            chosen = torch.multinomial(torch.softmax(logits / temperature, -1), 1,
                                       generator=generator)
        tokens = torch.cat([tokens, chosen.to(tokens.device)], dim=1)
    model.train(was_training)
    return tokens
