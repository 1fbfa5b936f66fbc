"""Whether `torch.compile` can work here; where it cannot, a step runs as it stands."""

from __future__ import annotations

import os
import platform
import shutil

import torch

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
    capability = torch.cuda.get_device_capability(device)
    if capability < (7, 0):
        return ("torch.compile needs compute capability 7.0, and this device has "
                "{}.{}".format(*capability))
    if capability < (8, 0) and precision.matmul_dtype == torch.bfloat16:
        return ("compiled kernels need compute capability 8.0 for bfloat16, and this device has "
                "{}.{}".format(*capability))
    return ""
