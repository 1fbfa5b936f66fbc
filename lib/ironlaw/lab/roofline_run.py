"""Lab 3's measurement: this device's two roofs, and GPT-2's operations beneath them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .. import workspace
from ..results import DeviceProfile, KernelTiming, Result, RooflineMeasurement
from ..units import duration, si, significant
from .recording import recorded_or
from .student import Student
from .table import Residuals

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
        """The operations as the roofline widget of chapter 2 shows them, and their roofs."""
        roof = self.roofline
        above: dict[str, str | float] = {
            "device": roof.device, "dtype": roof.dtype,
            "peak_flops_per_second": roof.peak_flops_per_second,
            "bytes_per_second": roof.bytes_per_second}
        return [{"name": k.name, "intensity": k.intensity,
                 "flops_per_second": k.flops_per_second, **above} for k in roof.kernels]

    def compare(self, intensity: Callable[[KernelTiming], float],
                attainable: Callable[[float, float, float], float]) -> Residuals:
        """The learner's own roof over each operation beside the rate that it reached, GFLOP/s.

        `intensity` takes an operation and returns FLOP per byte; `attainable` takes that,
        the peak (FLOP/s) and the bandwidth (bytes/s), and returns FLOP/s.
        """
        table, roofs = Residuals(), (self.roofline.peak_flops_per_second,
                                     self.roofline.bytes_per_second)
        for kernel in self.roofline.kernels:
            found = intensity(kernel)
            table.add(f"{kernel.name}, {significant(found)} FLOP/B", "GFLOP/s",
                      predicted=attainable(found, *roofs) / 1e9,
                      measured=kernel.flops_per_second / 1e9)
        return table

    def __str__(self) -> str:
        """What was measured, and nothing that the learner is about to work out from it."""
        roof = self.roofline
        lines = [f"{roof.device} in {roof.dtype}: at most "
                 f"{si(roof.peak_flops_per_second, 'FLOP/s')} and "
                 f"{si(roof.bytes_per_second, 'B/s')}."]
        lines += [f"  {k.name:<24} {k.shape:<24} {si(k.flops, 'FLOP'):>12} in "
                  f"{duration(k.seconds)}" for k in roof.kernels]
        lines += [roof.notes[name] for name in ("busy", "threads", "cache") if name in roof.notes]
        return "\n".join(lines)


def measure_kernels(recorded: str = "", model: str | None = None) -> RooflineRun:
    """Measure the roofs and GPT-2's operations on this device, or read `recorded` back.

    `model` defaults to gpt2-124m on a CUDA device and nano elsewhere. The points are kept
    in the learner's workspace too, where chapter 2's roofline widget finds them. A device
    measured now that has no profile yet gets this one; a record read back, which may come
    from another machine, never becomes one.
    """
    run = RooflineRun(**recorded_or(recorded, lambda: _measure(model), _KINDS))
    if not os.environ.get("NBGRADER_EXECUTION"):
        with contextlib.suppress(OSError):  # a disk that cannot be written: the notebook has it
            workspace.put("labs", "lab_03", run.points())
            if not recorded.strip() and workspace.profile() is None:
                workspace.save_profile(run.profile)
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
        if not kernel.cache_resident:
            again = "no operation can. Measure again on a quieter machine."
            student.require(work / seconds <= 1.15 * peak,
                            f"{kernel.name} computes faster than the peak: {again}")
            student.require(traffic / seconds <= 1.15 * bandwidth,
                            f"{kernel.name} moves bytes faster than the memory: {again}")


def names_bounds(student: Student) -> None:
    """A check for the lab: `predicted_bound` names a side for all, and one ridge can part them."""
    found = student.value("predicted_bound")
    student.require(isinstance(found, dict), "predicted_bound should be a dictionary.")
    sides: dict[str, list[tuple[float, str]]] = {"memory": [], "compute": []}
    for kernel in student.record("measured", "RooflineRun").roofline.kernels:
        side = found.get(kernel.name)
        student.require(side in ("memory", "compute"),
                        f"predicted_bound[{kernel.name!r}] should be 'memory' or 'compute'.")
        work = student.number(f"the FLOP of {kernel.name}", kernel.flops, low=1)
        traffic = student.number(f"the bytes of {kernel.name}", kernel.traffic_bytes, low=1)
        sides[side].append((work / traffic, kernel.name))
    if sides["memory"] and sides["compute"]:
        (high, left), (low, right) = max(sides["memory"]), min(sides["compute"])
        student.require(high <= 1.02 * low, f"{left} is memory-bound and {right}, which does less "
                        "work per byte, compute-bound: no ridge lies between them that way round.")


def names_shares(student: Student) -> None:
    """A check for the lab: `reached` holds a share for every operation."""
    found = student.value("reached")
    student.require(isinstance(found, dict), "reached should be a dictionary.")
    for kernel in student.record("measured", "RooflineRun").roofline.kernels:
        student.number(f"reached[{kernel.name!r}]", found.get(kernel.name), low=0, high=10)


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
    print("2 of 2: GPT-2's operations, in turns with memory streams and a product", flush=True)
    return {"profile": profile, "roofline": measure_roofline(here, model, seconds=25)}
