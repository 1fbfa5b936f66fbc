"""`ironlaw calibrate`: measure this device into the learner's profile."""

from __future__ import annotations

import argparse
import json
import sys
import time

from .. import workspace
from ..hardware import Accelerator, accelerator
from ..results import DeviceProfile
from ..units import gibibytes, percent, si


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="cpu, cuda, cuda:N or mps (default: the best there is)")
    parser.add_argument("--seconds", type=float,
                        help="about how long it may take (default: 15, on an accelerator 20)")
    parser.add_argument("--dtypes", help="number formats to measure, by commas: "
                        "fp32,tf32,bf16,fp16 (default: all)")
    parser.add_argument("--json", action="store_true", help="print the profile as JSON")


def run(args: argparse.Namespace) -> int:
    profile = measured(args.device, args.seconds, args.dtypes.split(",") if args.dtypes else None)
    if args.json:
        print(json.dumps(profile.to_json(), indent=1))
    else:
        print(table(profile))
        print(f"\nSaved to {workspace.path()}.")
    return 0


def measured(device: str | None = None, seconds: float | None = None,
             dtypes: list[str] | None = None) -> DeviceProfile:
    """Calibrate with progress on stderr, and keep the profile in the workspace."""
    from ..measure.calibration import calibrate

    began = time.perf_counter()

    def say(stage: str) -> None:
        print(f"[{time.perf_counter() - began:5.1f} s] {stage}", file=sys.stderr, flush=True)

    profile = calibrate(device, dtypes, seconds, progress=say)
    say("done")
    workspace.save_profile(profile)
    return profile


def table(profile: DeviceProfile) -> str:
    """The profile in words, beside what the catalogue promises where it knows the device."""
    entry = accelerator(profile.catalogue_name) if profile.catalogue_name else None
    memory = gibibytes(profile.memory_bytes) if profile.memory_bytes else "memory unknown"
    lines = [f"{profile.name} ({profile.device_type}), {memory}, {profile.threads} CPU threads",
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


def _promised(entry: Accelerator | None, field: str) -> float | None:
    if entry is None or (field != "bandwidth" and field not in entry.peaks):
        return None
    return entry.figure(field).value


def _row(label: str, value: float | None, unit: str, promised: float | None) -> str:
    shown = si(value, unit) if value is not None else "not had"
    sheet = si(promised, unit) if promised else ""
    share = percent(value / promised) if value is not None and promised else ""
    return f"  {label:<34} {shown:>14} {sheet:>14} {share:>8}".rstrip()
