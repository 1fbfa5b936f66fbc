"""Whether `torch.compile` can work here; where it cannot, a step runs as it stands.

What can be known beforehand `obstacle` says. Whether a compiler is not only there but works
shows when it is first called: `Trial` lets a first step fail without any loss.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil

import torch
from torch import nn

from . import random_state
from .out_of_memory import is_out_of_memory
from .precision import Precision


def obstacle(precision: Precision, device: torch.device | str, attention: str = "flash") -> str:
    """Why a step in `precision` cannot be compiled on `device`; empty when it can."""
    if attention == "tiled":
        return "tiled attention is written to be read: compiling would unroll its loops for minutes"
    where = torch.device(device)
    if where.type == "cpu":
        return _cpu_obstacle()
    if where.type == "cuda":
        return _cuda_obstacle(precision, where)
    return f"torch.compile is not used on {where.type}, where PyTorch calls it experimental"


def _cpu_obstacle() -> str:
    wanted = os.environ.get("CXX") or {"Windows": "cl", "Darwin": "clang++"}.get(
        platform.system(), "g++")
    if shutil.which(wanted) is None:
        return f"torch.compile needs a C++ compiler on a CPU, and {wanted} was not found"
    return ""


def _cuda_obstacle(precision: Precision, device: torch.device) -> str:
    if importlib.util.find_spec("triton") is None:
        return "torch.compile needs the library Triton on CUDA, and it is not installed"
    capability = torch.cuda.get_device_capability(device)
    if capability < (7, 0):
        return ("torch.compile needs compute capability 7.0, and this device has "
                "{}.{}".format(*capability))
    if capability < (8, 0) and precision.matmul_dtype == torch.bfloat16:
        return ("compiled kernels need compute capability 8.0 for bfloat16, and this device has "
                "{}.{}".format(*capability))
    return ""


class Trial:
    """What a first compiled pass could spoil, kept until that pass has succeeded.

    Gradients there already (from earlier micro-batches) and the state of the random numbers:
    `undo` puts both back, so that the same pass can run again as it stands.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())
        self.device = self.parameters[0].device
        self.gradients = [None if p.grad is None else p.grad.clone() for p in self.parameters]
        self.random = random_state.get(self.device)

    def undo(self) -> None:
        """Gradients and random numbers as they were."""
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        random_state.restore(self.device, self.random)


def failure(problem: Exception) -> str:
    """Why a first compiled pass failed, for people; raises `problem` if it is short memory.

    Any other error may be the compiler's. One of the model's own comes again, and uncaught,
    when the pass runs as it stands.
    """
    if is_out_of_memory(problem):
        raise problem
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"torch.compile failed ({type(problem).__name__}: {lines[0] if lines else 'no reason'})"
