"""Results for the eye: what `print` and a notebook show of the results in `results`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .hardware import Accelerator, accelerator
from .results_tables import table
from .units import gigabytes, memory, percent, si, significant

if TYPE_CHECKING:
    from .results import (
        ActivationTimings,
        DeviceProfile,
        MemoryMeasurement,
        RooflineMeasurement,
        StepMeasurement,
    )


def device(profile: DeviceProfile) -> str:
    """The profile in words, beside what the catalogue promises where it knows the device."""
    entry = accelerator(profile.catalogue_name) if profile.catalogue_name else None
    holds = memory(profile.memory_bytes) if profile.memory_bytes else "memory unknown"
    lines = [f"{profile.name} ({profile.device_type}), {holds}, {profile.threads} CPU threads",
             f"PyTorch {profile.versions.get('torch', '?')}, measured {profile.measured_on}", ""]
    lines.append(f"  {'quantity':<34} {'measured':>14} {'promised':>14} {'reached':>8}")
    for dtype, rate in profile.matmul.items():
        promised = _promised(entry, dtype)
        lines.append(_row(f"{dtype} matmul, {rate.shape}", rate.flops_per_second, "FLOP/s",
                          promised))
    lines.append(_row("copy, read + written", profile.copy_bytes_per_second, "B/s",
                      _promised(entry, "bandwidth")))
    lines.append(_row("host to device", profile.host_to_device_bytes_per_second, "B/s", None))
    lines.append(_row("launch of one tiny operation", profile.launch_seconds, "s", None))
    explained = {**profile.reasons, **profile.notes}
    if explained:
        lines += ["", "Notes"]
        lines += [f"  {name}: {text}" for name, text in explained.items()
                  if not name.endswith(".skipped")]
    return "\n".join(lines)


def step(measured: StepMeasurement) -> str:
    """A measured step in three lines: what, how fast, and how near to the peak."""
    config = measured.config
    if measured.mfu is not None and measured.peak is not None:
        use = f"MFU {percent(measured.mfu)} of {si(measured.peak.flops_per_second, 'FLOP/s')} " \
              f"({measured.peak.source})"
    else:
        use = f"MFU not had: {measured.reasons.get('mfu', 'there is no peak to divide by.')}"
    lines = [
        f"{config.get('model')}, {measured.tokens_per_step:,} tokens a step, "
        f"{config.get('precision')}, on {measured.device}",
        f"{si(measured.step_seconds, 's')} a step (median of {len(measured.samples)}, the middle "
        f"half spans {si(measured.spread_seconds, 's')}), "
        f"{significant(measured.tokens_per_second, 4)} tokens/s",
        f"{use}; {si(measured.flops_per_step, 'FLOP')} a step",
    ]
    return "\n".join([*lines, *(measured.notes[n] for n in ("busy", "threads")
                                if n in measured.notes)])


def memory_of_a_step(measured: MemoryMeasurement) -> str:
    """Bytes by kind at the fullest moment, and what a device's allocator says beyond them."""
    config = measured.config
    peak = measured.peak_bytes
    rows = [(kind.replace("_", " "), "unknown" if size is None else gigabytes(size, 4),
             "" if size is None else percent(size / peak))
            for kind, size in measured.memory_bytes.items()]
    rows += [(name, memory(size), "") for name, size in beyond_the_split(measured).items()]
    lines = [f"{config.get('model')}, {config.get('batch')} sequences in "
             f"{config.get('precision')}, measured by {measured.backend} ({measured.device}): "
             f"{memory(peak)} at the peak, in the {measured.moment}", "",
             *table(("kind", "bytes", "share"), rows)]
    return "\n".join([*lines, *(f"  {why}" for name, why in measured.reasons.items()
                                if name == "memory_bytes")])


def beyond_the_split(measured: MemoryMeasurement) -> dict[str, int]:
    """What is known beside the split of the peak, by name, in bytes."""
    found = {"beyond the tensors": measured.overhead_bytes,
             "reserved by the allocator": measured.reserved_bytes,
             "context and others": measured.context_bytes,
             "saved by one block": measured.saved_bytes_per_block}
    return {name: size for name, size in found.items() if size is not None}


def roofline(measured: RooflineMeasurement) -> str:
    """The two roofs, and each operation with the share of the lower one that it reached."""
    peak, bandwidth = measured.peak_flops_per_second, measured.bytes_per_second
    rows = []
    for k in measured.kernels:
        limit = min(peak, k.intensity * bandwidth)
        rows.append((k.name, si(k.seconds, "s"), si(k.flops, "FLOP"), gigabytes(k.traffic_bytes),
                     significant(k.intensity), si(k.flops_per_second, "FLOP/s"),
                     percent(k.flops_per_second / limit)))
    return "\n".join([
        f"{measured.device} in {measured.dtype}, {measured.model}: {si(peak, 'FLOP/s')} "
        f"({measured.peak_source}) and {si(bandwidth, 'B/s')}"
        + (f" ({measured.bytes_source})" if measured.bytes_source else ""), "",
        *table(("operation", "time", "work", "traffic", "FLOP/B", "rate", "of its roof"), rows),
        *(f"  {said}" for name, said in measured.notes.items() if name in ("busy", "cache"))])


def activations(measured: ActivationTimings) -> str:
    """Each function's time, and how it stands to a plain copy."""
    copy = measured.medians["copy"]
    rows = [(name, si(took, "s"), si(measured.spreads[name], "s"), significant(took / copy))
            for name, took in measured.medians.items()]
    shape = " x ".join(map(str, measured.shape))
    return "\n".join([f"{measured.device}, {shape} values in {measured.dtype}", "",
                      *table(("function", "time", "spread", "to a copy"), rows),
                      *(f"  {said}" for name, said in measured.notes.items() if name == "busy")])


def _promised(entry: Accelerator | None, field: str) -> float | None:
    if entry is None or (field != "bandwidth" and field not in entry.peaks):
        return None
    return entry.figure(field).value


def _row(label: str, value: float | None, unit: str, promised: float | None) -> str:
    shown = si(value, unit) if value is not None else "not had"
    sheet = si(promised, unit) if promised else ""
    share = percent(value / promised) if value is not None and promised else ""
    return f"  {label:<34} {shown:>14} {sheet:>14} {share:>8}".rstrip()
