"""`calibrate`: measure a device into a `DeviceProfile`.

What each figure is, and which statistic is taken:
- matmul peak per number format: the best sample, because it serves as a ceiling;
- copy bandwidth: the best sample; bytes read plus bytes written, buffers far larger
  than the last cache (memory, not cache, is what training's pointwise work waits for);
- launch latency: the median, because every step pays the usual one, not the luckiest;
- host to device: the best sample, from pinned memory on CUDA.
"""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable, Sequence

from .. import __version__
from ..errors import choice, number
from ..results import DeviceProfile, MatmulRate
from ..units import MIB, si
from . import host, matmul, timing
from ._torch import torch
from .device import Device, find, obstacle

Progress = Callable[[str], None]
_DEFAULT_SECONDS = {"cpu": 15.0, "cuda": 20.0, "mps": 20.0}
_MATMUL_SHARE = 0.75


def calibrate(
    device: str | Device | None = None,
    dtypes: Sequence[str] | None = None,
    seconds: float | None = None,
    *,
    progress: Progress | None = None,
) -> DeviceProfile:
    """Measure matmul peaks, copy bandwidth, launch latency and host-to-device rate.

    `device` as in `device.find`; `dtypes` a selection of fp32, tf32, bf16, fp16
    (default: all); `seconds` about how long it may take (default 15 on a CPU, 20 on
    an accelerator); `progress` receives one line per stage. Rates are in FLOP/s and
    bytes/s. A figure that cannot be had is None or absent, with the reason in `reasons`.
    """
    here = find(device)
    chosen = [choice("dtypes", d, matmul.DTYPES) for d in dtypes or matmul.DTYPES]
    budget = number("seconds", seconds if seconds is not None else _DEFAULT_SECONDS[here.type],
                    low=0.5, high=3600.0, unit="s")
    say = progress or (lambda line: None)
    reasons, notes = dict(here.reasons), host.circumstances(here.threads, timing.processor_share())
    with timing.on(here.torch_device):
        peaks = _peaks(here, chosen, budget * _MATMUL_SHARE, reasons, notes, say)
        say("copy bandwidth")
        samples: dict[str, list[float]] = {}
        copy = _copy_rate(here, budget * 0.1, reasons, notes, samples)
        say("launch latency")
        launch = _launch_seconds(here, budget * 0.05, samples)
        say("host to device")
        transfer = _host_to_device(here, budget * 0.1, reasons, notes, samples)
    return DeviceProfile(
        name=here.name, device_type=here.type, threads=here.threads,
        memory_bytes=here.memory_bytes, matmul=peaks, copy_bytes_per_second=copy,
        launch_seconds=launch, host_to_device_bytes_per_second=transfer,
        catalogue_name=here.catalogue_name, versions=versions(here),
        measured_on=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        samples=_short(samples), reasons=reasons, notes=notes,
    )


def versions(here: Device | None = None) -> dict[str, str]:
    """The software that a figure depends on, with what matters on `here` alone."""
    found = {"ironlaw": __version__, "python": platform.python_version(),
             "torch": torch.__version__, "system": platform.platform()}
    if here is None:
        return found
    if here.type == "cuda":
        found["cuda"] = str(torch.version.cuda or torch.version.hip)
        found["capability"] = "{}.{}".format(*torch.cuda.get_device_capability(here.torch_device))
    elif here.type == "cpu":
        found["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
    return found


def _peaks(here: Device, dtypes: list[str], seconds: float, reasons: dict[str, str],
           notes: dict[str, str], say: Progress) -> dict[str, MatmulRate]:
    device = here.torch_device
    possible = []
    for dtype in dtypes:
        why = obstacle(device, dtype)
        if why:
            reasons[f"matmul.{dtype}"] = why
        else:
            possible.append(dtype)
    found: dict[str, MatmulRate] = {}
    ends = time.perf_counter() + seconds
    for position, dtype in enumerate(possible):
        # A format that ended early leaves its time to those that follow.
        weights = [2.0 if here.type == "cpu" and d == "fp32" else 1.0 for d in possible[position:]]
        share = max(0.2, (ends - time.perf_counter()) * weights[0] / sum(weights))
        say(f"matrix products in {dtype}")
        try:
            rates = _rates(here, dtype, share, notes)
        except RuntimeError as problem:  # "not implemented for 'Half'" on an old CPU build
            reasons[f"matmul.{dtype}"] = f"PyTorch refused: {str(problem).splitlines()[0]}"
            continue
        squares = [name for name in rates.rates if "x" not in name]
        if not squares:
            reasons[f"matmul.{dtype}"] = f"No product could be run: {rates.skipped}"
            continue
        best = max(rates.rates, key=lambda name: rates.rates[name])
        square = max(squares, key=lambda name: rates.rates[name])
        found[dtype] = MatmulRate(dtype=dtype, flops_per_second=rates.rates[best],
                                  size=int(square), by_size=rates.rates, best=best,
                                  samples=_short(rates.samples))
        if rates.skipped:
            notes[f"matmul.{dtype}.skipped"] = "; ".join(
                f"{name}: {why}" for name, why in rates.skipped.items())
    _note_emulation(found, notes)
    return found


def _short(samples: dict[str, list[float]]) -> dict[str, list[float]]:
    """At five digits, finer than any clock's noise: thousands of them travel in one file."""
    return {name: [float(f"{s:.5g}") for s in taken] for name, taken in samples.items()}


def _rates(here: Device, dtype: str, seconds: float, notes: dict[str, str]) -> matmul.Sweep:
    device = here.torch_device
    if here.type != "cpu" or dtype != "fp32":
        if dtype in ("fp32", "tf32"):
            _note_float32(device, dtype, notes)
        return matmul.sweep(device, dtype, seconds=seconds, memory_bytes=here.memory_bytes)
    # On a CPU the float32 setting picks another library, and the faster one is the ceiling,
    # as long as it still computes in FP32.
    plain = matmul.sweep(device, dtype, seconds=seconds * 0.45, memory_bytes=here.memory_bytes)
    with matmul.float32_mode("medium"):
        exact = matmul.float32_is_exact(device)
    other = matmul.sweep(device, dtype, seconds=seconds * 0.45, mode="medium",
                         memory_bytes=here.memory_bytes)
    rates = {"highest": max(plain.rates.values()), "medium": max(other.rates.values())}
    verdict = ("still exact FP32 here, so the faster of the two counts" if exact else
               "rounded to fewer bits here, so it does not count as FP32")
    notes["matmul.fp32.precision"] = (
        f"set_float32_matmul_precision: highest {si(rates['highest'], 'FLOP/s')}, "
        f"medium {si(rates['medium'], 'FLOP/s')} ({verdict}).")
    _note_threads(here, seconds * 0.1, notes)
    if not exact:
        return plain
    faster = {name: max(plain, other, key=lambda found: found.rates.get(name, 0.0))
              for name in plain.rates | other.rates}
    skipped = {n: why for n, why in (plain.skipped | other.skipped).items() if n not in faster}
    return matmul.Sweep({name: found.rates[name] for name, found in faster.items()}, skipped,
                        {name: found.samples[name] for name, found in faster.items()})


def _note_float32(device: torch.device, dtype: str, notes: dict[str, str]) -> None:
    """Say so when a setting outside PyTorch makes FP32 and TF32 other than asked for.

    NVIDIA_TF32_OVERRIDE and TORCH_ALLOW_TF32_CUBLAS_OVERRIDE do; a probe sees it.
    """
    with matmul.float32_mode("high" if dtype == "tf32" else "highest"):
        exact = matmul.float32_is_exact(device)
    if dtype == "fp32" and not exact:
        notes["matmul.fp32"] = ("Products asked for in FP32 come out rounded to fewer bits: "
                                "something outside PyTorch allows TF32 (NVIDIA_TF32_OVERRIDE?). "
                                "This is not a rate of FP32.")
    if dtype == "tf32" and exact:
        notes["matmul.tf32"] = ("Products asked for in TF32 come out as exact as FP32: something "
                                "outside PyTorch forbids TF32 (NVIDIA_TF32_OVERRIDE=0?), or this "
                                "library has none. This is a rate of FP32.")


def _note_threads(here: Device, seconds: float, notes: dict[str, str]) -> None:
    before = torch.get_num_threads()
    probe = [matmul.Product(1024, 1024, 1024)]
    rates = {}
    try:
        for threads in sorted({1, before}):
            torch.set_num_threads(threads)
            found = matmul.sweep(here.torch_device, "fp32", seconds=seconds / 2, wanted=probe)
            rates[threads] = found.rates[probe[0].name]
    finally:
        torch.set_num_threads(before)
    notes["matmul.fp32.threads"] = "FP32 product of side 1024: " + ", ".join(
        f"{n} thread{'s' * (n > 1)} {si(rate, 'FLOP/s')}" for n, rate in rates.items()) + "."


def _note_emulation(found: dict[str, MatmulRate], notes: dict[str, str]) -> None:
    full = found.get("fp32")
    for dtype in ("bf16", "fp16"):
        half = found.get(dtype)
        if full and half and half.flops_per_second < full.flops_per_second:
            share = half.flops_per_second / full.flops_per_second
            notes[f"matmul.{dtype}"] = (
                f"Slower than FP32 here ({share:.2g} of its rate): this device has no {dtype} "
                "arithmetic of its own. Training in it would save memory, not time.")


def _copy_rate(here: Device, seconds: float, reasons: dict[str, str],
               notes: dict[str, str], kept: dict[str, list[float]]) -> float | None:
    cache = host.last_level_cache_bytes() if here.type == "cpu" else None
    wanted = max(256 * MIB, 4 * (cache or 0.0)) if here.type == "cpu" else 1024 * MIB
    size = min(wanted, (here.memory_bytes or 2048 * MIB) / 16)
    elements = int(size) // 4
    try:
        source = torch.ones(elements, device=here.torch_device)
        target = torch.zeros(elements, device=here.torch_device)  # touches every page
    except RuntimeError as problem:
        reasons["copy_bytes_per_second"] = f"The buffers could not be made: {problem}"
        return None
    moved = 2.0 * 4 * elements
    samples = timing.sample(lambda: target.copy_(source), here.torch_device, seconds=seconds)
    kept["copy"] = samples
    notes["copy_bytes_per_second"] = (
        f"Best of {len(samples)} copies of {si(4.0 * elements, 'B')}, counting the bytes read "
        "and the bytes written."
        + (" The buffer is smaller than four last-level caches for lack of memory, so part of "
           "this is the cache's speed." if cache and size < 4 * cache else ""))
    return moved / min(samples)


def _launch_seconds(here: Device, seconds: float, kept: dict[str, list[float]]) -> float:
    """Time that one tiny operation takes when many are issued in a row."""
    value = torch.zeros(1, device=here.torch_device)
    samples = timing.sample(lambda: value.add_(1.0), here.torch_device, seconds=seconds)
    kept["launch"] = samples
    return timing.spread(samples).median


def _host_to_device(here: Device, seconds: float, reasons: dict[str, str],
                    notes: dict[str, str], kept: dict[str, list[float]]) -> float | None:
    key = "host_to_device_bytes_per_second"
    if here.type == "cpu":
        reasons[key] = "A CPU computes in the host's own memory: nothing is transferred."
        return None
    size = int(min(256 * MIB, (here.memory_bytes or 2048 * MIB) / 16))
    pinned = here.type == "cuda"
    try:
        source = torch.ones(size // 4, pin_memory=pinned)
        target = torch.empty(size // 4, device=here.torch_device)
    except RuntimeError as problem:
        reasons[key] = f"The buffers could not be made: {problem}"
        return None
    samples = timing.sample(lambda: target.copy_(source, non_blocking=pinned),
                            here.torch_device, seconds=seconds)
    kept["host_to_device"] = samples
    kind = "pinned" if pinned else "ordinary"
    notes[key] = (f"Best of {len(samples)} transfers of {si(4.0 * source.numel(), 'B')} "
                  f"from {kind} memory.")
    return 4.0 * source.numel() / min(samples)
