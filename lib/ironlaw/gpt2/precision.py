"""Number formats of a training step: which values are 16 bit wide, and what that needs.

| name | parameters, gradients, moments | matrix products | loss scaling |
|---|---|---|---|
| fp32 | float32 | float32 | no |
| amp-bf16 | float32 | bfloat16 (autocast) | no: same range as float32 |
| amp-fp16 | float32 | float16 (autocast) | yes: small gradients would underflow |
| pure-bf16 | bfloat16 | bfloat16 | no |
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch import nn

from ..config import PRECISIONS
from ..errors import InputError, UnavailableError, choice


def no_autocast(device_type: str) -> contextlib.AbstractContextManager[object]:
    """A context without autocast, for code that spells its formats out.

    Inside autocast a product of two float32 tensors runs in 16 bit, whatever `.float()` was
    written before it. The meta device, where shapes are tried, has no autocast.
    """
    if not torch.amp.is_autocast_available(device_type):
        return contextlib.nullcontext()
    return torch.autocast(device_type, enabled=False)


@dataclass(frozen=True)
class Precision:
    """One row of the table above, for one kind of device ("cpu", "cuda" or "mps")."""

    name: str
    device_type: str

    @property
    def matmul_dtype(self) -> torch.dtype:
        """The format that matrix products run in; look up the peak for this one."""
        return {"fp32": torch.float32, "amp-fp16": torch.float16}.get(self.name, torch.bfloat16)

    @property
    def parameter_dtype(self) -> torch.dtype:
        """The format of parameters, their gradients and the optimizer's moments."""
        return torch.bfloat16 if self.name == "pure-bf16" else torch.float32

    def prepare(self, model: nn.Module) -> nn.Module:
        """`model` with its parameters in `parameter_dtype` (changed in place)."""
        return model.to(self.parameter_dtype)

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """The context to run a forward pass in; backward stays outside it."""
        if not self.name.startswith("amp"):
            return contextlib.nullcontext()
        return torch.autocast(self.device_type, dtype=self.matmul_dtype)

    def scaler(self) -> torch.amp.GradScaler:
        """Loss scaling for float16; for the others a scaler that passes everything through."""
        return torch.amp.GradScaler(self.device_type, enabled=self.name == "amp-fp16")


def of(name: str, device: torch.device | str) -> Precision:
    """The precision called `name` on `device`, or an error that says why it cannot run there."""
    choice("precision", name, PRECISIONS)
    kind = torch.device(device).type
    if name == "document":
        raise InputError(
            "precision", name, "fp32, amp-bf16, amp-fp16 or pure-bf16 when a step really runs",
            "The 2 + 2 + 4 + 8 byte recipe is the document's account of memory, not a mode of "
            "PyTorch; amp-bf16 also keeps 16 bytes per parameter, as 4 + 4 + 8.")
    if name in ("amp-bf16", "pure-bf16") and kind == "cuda" and not _has_bfloat16(device):
        raise UnavailableError(
            f"bfloat16 on {torch.cuda.get_device_name(device)}",
            "its matrix units know no bfloat16 (that needs compute capability 8.0), and "
            "emulating it would be slower than float32.",
            "Use --precision amp-fp16.")
    return Precision(name, kind)


def _has_bfloat16(device: torch.device | str) -> bool:
    """Whether that GPU has bfloat16 of its own: PyTorch only tells of the current one."""
    with torch.cuda.device(torch.device(device)):
        return torch.cuda.is_bf16_supported(including_emulation=False)
