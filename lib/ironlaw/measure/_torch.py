"""PyTorch for the instruments, or one clear line when it is not installed."""

from __future__ import annotations

from ..errors import UnavailableError

try:
    import torch
except ImportError:
    raise UnavailableError(
        "PyTorch", "the instruments run real work on this device through it.",
        "Install the labs' extra: pip install 'ironlaw[labs]'.",
    ) from None

__all__ = ["torch"]
