"""The state of torch's random numbers, on the host and on the device of a run."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

State: TypeAlias = tuple[Tensor, Tensor | None]
"""The host's state, and the device's where it has numbers of its own."""


def get(device: torch.device) -> State:
    """The state now."""
    if device.type == "cuda":
        return torch.get_rng_state(), torch.cuda.get_rng_state(device)
    return torch.get_rng_state(), torch.mps.get_rng_state() if device.type == "mps" else None


def restore(device: torch.device, state: State) -> None:
    """Go back to `state`, which `get` gave."""
    host, own = state
    torch.set_rng_state(host)
    if own is not None and device.type == "cuda":
        torch.cuda.set_rng_state(own, device)
    elif own is not None and device.type == "mps":
        torch.mps.set_rng_state(own)
