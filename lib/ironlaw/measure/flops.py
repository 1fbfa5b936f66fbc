"""FLOPs of one training step, counted by PyTorch while the step runs on nothing.

On the `meta` device tensors have shapes and no contents: the counter sees every matrix
product of forward and backward, for any model size, in no memory. On a real device it
would not do: the CPU's attention kernel is not counted at all, and CUDA's fused one
recomputes inside its backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from torch.utils.flop_counter import FlopCounterMode

from ..config import RunConfig
from ..gpt2.model import GPT
from ..transformer import Shape
from ._torch import torch


@dataclass(frozen=True)
class StepFlops:
    """FLOP of one optimizer step over all its micro-batches.

    `model` is what the mathematics asks for, `hardware` what the device computes:
    the difference is the forward work that checkpointing does a second time. An MFU
    takes the first, a hardware utilisation (HFU) the second.
    """

    model: int
    hardware: int
    tokens: int

    @property
    def per_token(self) -> float:
        """Model FLOP per trained token."""
        return self.model / self.tokens


def count(config: RunConfig) -> StepFlops:
    """Count the step that `config` describes. Formats and optimizer do not change it.

    Convention: 2 FLOP per multiply-add, matrix products only, attention in full
    (no causal half), as in PaLM's MFU.
    """
    # Attention spelled out in tiles skips what the causal mask hides; the convention does not.
    attention = "flash" if config.attention == "tiled" else config.attention
    arguments = config.shape, config.batch, config.sequence, attention
    model = _micro_batch(*arguments, "none")
    recomputed = config.recompute != "none"
    hardware = _micro_batch(*arguments, config.recompute) if recomputed else model
    return StepFlops(model * config.accumulate, hardware * config.accumulate,
                     config.tokens_per_step)


@lru_cache(maxsize=64)
def _micro_batch(shape: Shape, batch: int, seq: int, attention: str, recompute: str) -> int:
    with torch.device("meta"):
        model = GPT(shape, attention=attention, recompute=recompute)
        tokens = torch.zeros(batch, seq, dtype=torch.int64)
    counter = FlopCounterMode(display=False)
    with counter, torch.enable_grad():
        model.loss(tokens, tokens).backward()
    return int(counter.get_total_flops())
