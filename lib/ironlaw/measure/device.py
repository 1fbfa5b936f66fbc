"""Which device is here, and what the system knows about it.

`find` names it; `ironlaw.measure.calibration.calibrate` measures it. The catalogue
entry is looked up by the driver's exact name. An unknown device stays unknown: a
neighbour's peak would make every MFU wrong.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .. import hardware
from ..errors import InputError, UnavailableError, choice
from ..units import gigabytes
from . import host
from ._torch import torch

KINDS = ("cuda", "mps", "cpu")
ENVIRONMENT = "IRONLAW_DEVICE"
_SIXTEEN_BIT = {"bf16": torch.bfloat16, "fp16": torch.float16}
DTYPES = {"fp32": torch.float32, **_SIXTEEN_BIT}
"""Formats that tensors are stored in, by the names that flags and results use."""


@dataclass(frozen=True)
class Device:
    """A device that PyTorch can run on.

    `name` is what the driver or the system prints, `memory_bytes` the memory that
    training may use (bytes, None when unknown), `threads` the CPU threads PyTorch
    uses. `catalogue_name` is None for a device without an entry; `reasons` says why.
    """

    torch_device: torch.device
    name: str
    memory_bytes: float | None
    threads: int
    catalogue_name: str | None
    reasons: dict[str, str]

    @property
    def type(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.torch_device.type

    @property
    def catalogue(self) -> hardware.Accelerator | None:
        """The catalogue's entry, or None when the device is not in it."""
        return hardware.accelerator(self.catalogue_name) if self.catalogue_name else None


def find(wanted: str | torch.device | Device | None = None) -> Device:
    """The device to measure on.

    `wanted` ("cpu", "cuda", "cuda:1", "mps") decides, else the environment variable
    IRONLAW_DEVICE, else the best that is there: CUDA, then MPS, then CPU.
    Raises `InputError` for a name that is none of these, `UnavailableError` for a
    device that this machine or this build of PyTorch does not have.
    """
    if isinstance(wanted, Device):
        return wanted
    chosen = wanted if wanted is not None else os.environ.get(ENVIRONMENT) or None
    device = torch.device(best()) if chosen is None else _parsed(chosen)
    if device.type == "cuda":
        device = torch.device("cuda", _cuda_index(device))
    elif device.type == "mps" and not torch.backends.mps.is_available():
        raise UnavailableError("The MPS device", "this machine or this PyTorch has none.",
                               "Run on the CPU instead: cpu.")
    return _described(device)


def free_bytes(device: Device) -> float | None:
    """Memory that a step can still take on `device`, in bytes; None when it is unknown.

    On CUDA that includes what this program's allocator holds without using it. MPS shares
    memory with the whole system, which swaps rather than refuses: unknown.
    """
    target = device.torch_device
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(target)
        idle = torch.cuda.memory_reserved(target) - torch.cuda.memory_allocated(target)
        return float(free + idle)
    return host.available_bytes() if device.type == "cpu" else None


def best() -> str:
    """The most capable kind of device that is there."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def obstacle(device: torch.device, dtype: str) -> str:
    """Why `dtype` (fp32, tf32, bf16, fp16) has no matmul of its own here, or "" if it has.

    Emulation does not count as support: a T4 accepts BF16 and computes it slowly in
    FP32, which says nothing about the format.
    """
    choice("dtype", dtype, ("fp32", "tf32", "bf16", "fp16"))
    if dtype == "tf32":
        if device.type != "cuda" or torch.version.hip:
            return "TF32 is a mode of NVIDIA's tensor cores; this device has none."
        if torch.cuda.get_device_capability(device) < (8, 0):
            return "TF32 needs compute capability 8.0 or more."
    if dtype == "bf16" and device.type == "cuda":
        with torch.cuda.device(device):
            if not torch.cuda.is_bf16_supported(including_emulation=False):
                return "BF16 would be emulated on this GPU (it needs compute capability 8.0)."
    if device.type == "mps" and dtype in _SIXTEEN_BIT:
        try:
            torch.zeros(1, dtype=_SIXTEEN_BIT[dtype], device=device)
        except (RuntimeError, TypeError) as problem:  # before macOS 14 BF16 is a TypeError
            return f"This Mac's MPS has no {dtype.upper()}: {str(problem).splitlines()[0]}"
    return ""


def usual_dtype(device: Device) -> str:
    """The format that a step on `device` mostly computes in: a name of `DTYPES`.

    fp32, but on CUDA bf16, or fp16 where bf16 would be emulated.
    """
    if device.type != "cuda":
        return "fp32"
    return "fp16" if obstacle(device.torch_device, "bf16") else "bf16"


def _parsed(chosen: str | torch.device) -> torch.device:
    kinds = "one of 'cpu', 'cuda', 'cuda:N', 'mps'"
    try:
        device = torch.device(chosen)
    except (RuntimeError, TypeError, ValueError):
        raise InputError("device", chosen, kinds) from None
    if device.type not in KINDS:
        raise InputError("device", str(chosen), kinds)
    return device


def _cuda_index(device: torch.device) -> int:
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = ("no usable GPU was found." if built
               else "this PyTorch was built without CUDA.")
        raise UnavailableError("A CUDA device", why, "Run on the CPU instead (cpu), or install "
                               "the driver and a CUDA build of PyTorch.")
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise UnavailableError(f"CUDA device {index}",
                               f"this machine has {torch.cuda.device_count()}.",
                               f"Use cuda:0 to cuda:{torch.cuda.device_count() - 1}.")
    return index


def _described(device: torch.device) -> Device:
    reasons: dict[str, str] = {}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name, memory = properties.name, float(properties.total_memory)
    elif device.type == "mps":
        # The CPU and the GPU of an Apple chip share its name and its memory.
        name, memory = host.cpu_name(), float(torch.mps.recommended_max_memory())
    else:
        name, found = host.cpu_name(), host.memory_bytes()
        return Device(device, name, found, torch.get_num_threads(), None, {
            "catalogue_name": "The catalogue lists accelerators; this device is a CPU.",
            **({} if found else {"memory_bytes": "The operating system does not tell."}),
        })
    entry = hardware.resolve(name, memory if device.type == "cuda" else None)
    if entry is None:
        reasons["catalogue_name"] = (
            f"The catalogue has no entry for a device that calls itself {name!r} and has "
            f"{gigabytes(memory)} of memory. "
            "Nothing is assumed about it: only what is measured here counts.")
    return Device(device, name, memory, torch.get_num_threads(),
                  entry.name if entry else None, reasons)
