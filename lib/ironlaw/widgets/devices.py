"""What a memory or roofline widget asks of a device: peaks, bandwidth, memory.

The iron-law widget's `device` gives names, peaks and where they come from; this adds the
bytes. A catalogue entry promises (data sheet), this device has been measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import hardware, workspace
from ..errors import UnavailableError, choice
from .iron_law.state import THIS_DEVICE, Device, device, device_names

__all__ = ["BYTES_PER_VALUE", "THIS_DEVICE", "Machine", "machine", "machine_names",
           "memory_bytes", "memory_names"]

BYTES_PER_VALUE = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0}
"""Bytes that one value takes in memory; TF32 is FP32 in memory, rounded on the way in."""


@dataclass(frozen=True)
class Machine:
    """A roofline's two ceilings: peaks in FLOP/s by dtype, bandwidth in bytes/s.

    `note` says whether they are promised or measured.
    """

    name: str
    peaks: dict[str, float]
    usual_dtype: str
    bandwidth: float
    note: str

    def peak(self, dtype: str) -> float:
        """Peak FLOP/s in `dtype`, or `InputError` naming the known ones."""
        return self.peaks[choice("dtype", dtype, self.peaks)]


def machine_names() -> list[str]:
    """Devices whose bandwidth and a training peak are known, then this device."""
    return [name for name in device_names() if name == THIS_DEVICE
            or hardware.accelerator(name).bandwidth.value is not None]


def machine(name: str) -> Machine:
    """Peaks and bandwidth of a catalogue entry, or of the calibrated profile.

    Raises UnavailableError when this device has not been calibrated, or its copy
    bandwidth could not be measured.
    """
    known: Device = device(name)
    peaks = {dtype: peak for dtype, peak in known.peaks.items() if dtype in BYTES_PER_VALUE}
    if name != THIS_DEVICE:
        return Machine(known.name, peaks, known.usual_dtype,
                       hardware.accelerator(name).value("bandwidth"), "data sheet")
    profile = workspace.profile()
    rate = profile.copy_bytes_per_second if profile else None
    if rate is None:
        raise UnavailableError("The memory bandwidth of this device", "it was not measured.",
                               "Run `ironlaw calibrate` again; it says why if it cannot.")
    return Machine(known.name, peaks, known.usual_dtype, rate, "measured by `ironlaw calibrate`")


def memory_names() -> list[str]:
    """Devices whose memory is known, the smallest first, then this device."""
    known = [n for n in hardware.names() if hardware.accelerator(n).memory.value is not None]
    return [*sorted(known, key=lambda n: (hardware.accelerator(n).value("memory"), n)),
            THIS_DEVICE]


def memory_bytes(name: str) -> float:
    """Bytes of memory of a catalogue entry, or of this device as calibrated.

    Raises UnavailableError when this device has no profile, or one without memory.
    """
    if name != THIS_DEVICE:
        return hardware.accelerator(name).value("memory")
    profile = workspace.profile()
    if profile is None or profile.memory_bytes is None:
        why = profile.reasons.get("memory_bytes", "") if profile else ""
        raise UnavailableError("The memory of this device", why or "it has not been measured yet.",
                               "Run `ironlaw calibrate` in a terminal, then choose it again.")
    return profile.memory_bytes
