"""Lab 3's measurement: this device's two roofs, and GPT-2's operations beneath them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from .. import workspace
from ..results import DeviceProfile, Result, RooflineMeasurement
from ..units import si, significant
from .recording import recorded_or
from .student import Student

_KINDS: Mapping[str, type[Result]] = {"profile": DeviceProfile, "roofline": RooflineMeasurement}


@dataclass(frozen=True)
class RooflineRun:
    """What was measured on one device.

    `profile`: the best matrix product in each number format, and the copy bandwidth;
    `roofline`: GPT-2's operations, timed in turns with the roofs above them.
    """

    profile: DeviceProfile
    roofline: RooflineMeasurement

    def points(self) -> list[dict[str, str | float]]:
        """The operations as the roofline widget of chapter 2 shows them."""
        return [{"name": k.name, "intensity": k.intensity, "flops_per_second": k.flops_per_second}
                for k in self.roofline.kernels]

    def __str__(self) -> str:
        roof = self.roofline
        lines = [f"{roof.device} in {roof.dtype}: at most "
                 f"{si(roof.peak_flops_per_second, 'FLOP/s')} and "
                 f"{si(roof.bytes_per_second, 'B/s')}, "
                 f"a ridge at {significant(roof.ridge_point)} FLOP per byte."]
        lines += [f"  {k.name:<24} {k.shape:<24} {significant(k.intensity):>7} FLOP/B "
                  f"{si(k.flops_per_second, 'FLOP/s'):>14}" for k in roof.kernels]
        lines += [roof.notes[name] for name in ("busy", "threads", "cache") if name in roof.notes]
        return "\n".join(lines)


def measure_kernels(recorded: str = "", model: str | None = None) -> RooflineRun:
    """Measure the roofs and GPT-2's operations on this device, or read `recorded` back.

    `model` defaults to gpt2-124m on a CUDA device and nano elsewhere. The points are kept
    in the learner's workspace too, where chapter 2's roofline widget finds them.
    """
    run = RooflineRun(**recorded_or(recorded, lambda: _measure(model), _KINDS))
    if not os.environ.get("NBGRADER_EXECUTION"):
        with contextlib.suppress(OSError):  # a disk that cannot be written: the notebook has it
            workspace.put("labs", "lab_03", run.points())
    return run


def consistent(student: Student) -> None:
    """A check for the lab: `measured` is a record in which nothing beats the roofs."""
    roof = student.record("measured", "RooflineRun").roofline
    peak = student.number("the measured peak", roof.peak_flops_per_second, low=1e6)
    bandwidth = student.number("the measured bandwidth", roof.bytes_per_second, low=1e6)
    for kernel in roof.kernels:
        work = student.number(f"the FLOP of {kernel.name}", kernel.flops, low=1)
        traffic = student.number(f"the bytes of {kernel.name}", kernel.traffic_bytes, low=1)
        seconds = student.number(f"the seconds of {kernel.name}", kernel.seconds, low=1e-9)
        best = min(peak, work / traffic * bandwidth)
        if not kernel.cache_resident:
            student.require(work / seconds <= 1.15 * best,
                            f"{kernel.name} beats the roof: no operation can. Measure again on a "
                            "quieter machine.")


def _measure(model: str | None) -> dict[str, Result]:
    from ..gpt2.runtime import prepare

    prepare()  # before torch comes in
    from ..measure.calibration import calibrate
    from ..measure.device import find
    from ..measure.roofline import measure_roofline

    here = find()
    print(f"1 of 2: how fast {here.name} multiplies in each number format", flush=True)
    dtypes = ["fp32", "bf16"] if here.type == "cpu" else None
    profile = calibrate(here, dtypes=dtypes, seconds=12 if here.type == "cpu" else None)
    print("2 of 2: GPT-2's operations, in turns with a copy, a read and a product", flush=True)
    return {"profile": profile, "roofline": measure_roofline(here, model, seconds=25)}
