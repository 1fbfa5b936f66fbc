"""Energy of training steps: the power that an NVIDIA GPU reports, integrated over time.

A thread reads NVML's power sensor while steps run; the integral over the readings, by
trapezoids, is the energy. Stretches without a reading are bridged by their trapezoid and
named. Newer GPUs also keep a counter of their own, which is read before and after and
stands beside it. The sensor sees the GPU alone, not the host around it. Without NVML
nothing is measured, and the result says why: a figure from a data sheet is no measurement.

NVML's documentation (nvmlDeviceGetPowerUsage) says that from Ampere on, GA100 excepted, a
reading is the average over a second. So before the clock runs, the GPU idles, or trains,
for that long.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from ..config import RunConfig
from ..errors import UnavailableError, positive
from ..gpt2 import step as gpt2_step
from ..results_systems import EnergyMeasurement
from . import host, timing
from ._torch import torch
from .device import Device, find
from .origin import origin
from .step import own_random_state

PERIOD = 0.05
"""Seconds between readings."""
GAP = 4 * PERIOD
"""A longer stretch between two readings is named: what happened in it was not seen."""
_IDLE_SECONDS = 1.0
_SENSOR_SECONDS = 1.0
_MOST_KEPT = 2000


def measure_energy(
    config: RunConfig | None = None,
    *,
    seconds: float = 10.0,
    device: str | Device | None = None,
) -> EnergyMeasurement:
    """Train steps of `config` (default: nano) for about `seconds` and integrate the power.

    On a device without NVML `joules` is None with the reason, and no step is run.
    """
    config = config or RunConfig()
    here = find(device)
    positive("seconds", seconds, unit="s")
    try:
        sensor = nvml_sensor(here)
    except UnavailableError as problem:
        why = f"Not measured: {problem}"
        return EnergyMeasurement(
            **origin(here), config=config.to_json(), steps=0, tokens=0, seconds=0.0, power=[],
            joules=None, counter_joules=None, idle_watts=None,
            reasons=dict.fromkeys(("joules", "counter_joules", "idle_watts"), why),
            notes=host.circumstances(here.threads))
    try:
        return _with(sensor, config, here, seconds)
    finally:
        sensor.close()


@dataclass
class Sensor:
    """Where power comes from: `watts()` now, and `counter()` in joules or None."""

    watts: Callable[[], float]
    counter: Callable[[], float | None]
    close: Callable[[], None] = lambda: None


@dataclass
class Sampler:
    """Reads `watts` every `period` seconds while active; `samples` are (seconds, watts) pairs.

    The first reading is at entry and the last at exit, so the integral covers all of it. A
    reading that fails is left out and counted in `failed`.
    """

    watts: Callable[[], float]
    period: float = PERIOD
    clock: Callable[[], float] = time.perf_counter
    samples: list[tuple[float, float]] = field(default_factory=list)
    failed: int = 0

    def __post_init__(self) -> None:
        positive("period", self.period, unit="s")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_reading, daemon=True)
        self._began = 0.0

    def __enter__(self) -> Self:
        self._began = self.clock()
        self._read()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._read()

    def _keep_reading(self) -> None:
        while not self._stop.wait(self.period):
            self._read()

    def _read(self) -> None:
        try:
            watts = float(self.watts())
        except Exception:  # NVML's errors share no base with Python's; one reading is not all
            self.failed += 1
            return
        self.samples.append((self.clock() - self._began, watts))


def integrate(samples: Sequence[tuple[float, float]]) -> float:
    """Joules under (seconds, watts) pairs in order of time, by trapezoids.

    Fewer than two pairs span no time: 0.
    """
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2.0 for a, b in itertools.pairwise(samples))


def gaps(samples: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """(start, length) in seconds of the unread stretches of [0, `end`] longer than `GAP`."""
    times = [0.0, *(at for at, _ in samples), end]
    return [(a, b - a) for a, b in itertools.pairwise(times) if b - a > GAP]


def nvml_sensor(here: Device) -> Sensor:
    """NVML's power sensor of `here`, or `UnavailableError` saying what is missing.

    The GPU is found by its own UUID: NVML numbers the machine's GPUs, PyTorch only those
    that CUDA_VISIBLE_DEVICES shows.
    """
    if here.type != "cuda":
        raise UnavailableError("A power sensor", f"NVML reads NVIDIA GPUs, this is {here.type}.",
                               "Measure at the wall socket, or on a machine with such a GPU.")
    if torch.version.hip:
        raise UnavailableError("A power sensor", "NVML reads NVIDIA GPUs, this one is AMD's.",
                               "Measure at the wall socket, or with the vendor's own tool.")
    try:
        import pynvml
    except ImportError:
        raise UnavailableError("pynvml", "it asks the GPU for its power.",
                               "Install it with: pip install nvidia-ml-py") from None
    refusal = "Virtual and some laptop GPUs have none."
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        raise UnavailableError("The GPU's power sensor", f"NVML says: {problem}.",
                               refusal) from None
    try:
        handle = _handle(pynvml, here.torch_device)
        pynvml.nvmlDeviceGetPowerUsage(handle)
    except pynvml.NVMLError as problem:
        pynvml.nvmlShutdown()
        raise UnavailableError("The GPU's power sensor", f"NVML says: {problem}.",
                               refusal) from None
    except UnavailableError:
        pynvml.nvmlShutdown()
        raise

    def counter() -> float | None:
        try:
            return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3  # from mJ
        except pynvml.NVMLError:
            return None

    return Sensor(watts=lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,  # from mW
                  counter=counter, close=pynvml.nvmlShutdown)


def _handle(nvml: Any, device: torch.device) -> Any:
    """NVML's handle of the GPU that PyTorch calls `device`; a slice of a GPU is refused.

    By UUID, else by its place on the PCI bus. A number would do with a single GPU only: CUDA
    counts what CUDA_VISIBLE_DEVICES shows and puts the fastest first, NVML counts all.
    """
    properties = torch.cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    place: list[Any] = [getattr(properties, f"pci_{part}_id", None)
                        for part in ("domain", "bus", "device")]
    if re.search(r"\bMIG\b", getattr(properties, "name", "")):
        raise _shared(properties.name)
    if uuid is not None:
        text = str(uuid)
        handle = nvml.nvmlDeviceGetHandleByUUID(
            (text if text.startswith("GPU-") else f"GPU-{text}").encode())
    elif None not in place:
        handle = nvml.nvmlDeviceGetHandleByPciBusId(
            "{:08X}:{:02X}:{:02X}.0".format(*place).encode())
    elif nvml.nvmlDeviceGetCount() == 1:
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
    else:
        raise UnavailableError(
            "The right GPU's power sensor", "this PyTorch does not tell which of several GPUs it "
            "uses.", "Install a newer PyTorch, which names the GPU by its UUID.")
    with contextlib.suppress(nvml.NVMLError):  # GPUs that cannot be sliced say so by an error
        if nvml.nvmlDeviceGetMigMode(handle)[0]:
            raise _shared(properties.name)
    return handle


def _shared(name: str) -> UnavailableError:
    return UnavailableError(
        "Power of a slice of a GPU", f"the sensor of {name} is the whole GPU's, whose other "
        "slices may be at work.", "Measure on a GPU that is not in MIG mode.")


def _with(sensor: Sensor, config: RunConfig, here: Device, seconds: float) -> EnergyMeasurement:
    target = here.torch_device
    with timing.on(target), own_random_state(target):
        torch.manual_seed(0)
        train = gpt2_step.build(config, target)
        batches = gpt2_step.random_batches(config, target)
        timing.synchronise(target)
        time.sleep(_SENSOR_SECONDS)
        with Sampler(sensor.watts) as before:
            time.sleep(_IDLE_SECONDS)
        began, warm = time.perf_counter(), 0
        while warm < 3 or time.perf_counter() - began < _SENSOR_SECONDS:
            train(batches)
            timing.synchronise(target)
            warm += 1
        steps, first = 0, sensor.counter()
        began = time.perf_counter()
        with Sampler(sensor.watts) as during:
            while time.perf_counter() - began < seconds or not steps:
                train(batches)
                timing.synchronise(target)  # else the host queues hours of work
                steps += 1
        took = time.perf_counter() - began
        last = sensor.counter()
    reasons: dict[str, str] = {}
    counted = last - first if first is not None and last is not None else None
    if counted is None:
        reasons["counter_joules"] = "This GPU keeps no energy counter (Volta and later do)."
    joules = integrate(during.samples) if len(during.samples) > 1 else None
    if joules is None:
        reasons["joules"] = "Not measured: the sensor gave fewer than two readings."
    idle = [watts for _, watts in before.samples]
    if not idle:
        reasons["idle_watts"] = "Not measured: the sensor gave no reading before the steps."
    unseen = gaps(during.samples, took)
    thinned = during.samples[::max(1, len(during.samples) // _MOST_KEPT)]
    notes = {"scope": "The GPU alone: not the host, the power supply's losses, or cooling."}
    if unseen and joules is not None:
        whole = sum(length for _, length in unseen)
        notes["gaps"] = (
            f"{len(unseen)} stretches of more than {GAP:g} s without a reading, the longest "
            f"{max(length for _, length in unseen):.2g} s, {100 * whole / took:.0f} % of the time "
            "in all. Between the readings around one the integral takes a straight line; before "
            "the first and after the last it counts nothing.")
    if during.failed:
        notes["failed"] = f"{during.failed} readings failed and are left out of the integral."
    return EnergyMeasurement(
        **origin(here), config=config.to_json(), steps=steps,
        tokens=steps * config.tokens_per_step, seconds=took, power=thinned, joules=joules,
        counter_joules=counted, idle_watts=sum(idle) / len(idle) if idle else None,
        gaps=unseen[:_MOST_KEPT], reasons=reasons, notes=notes)
