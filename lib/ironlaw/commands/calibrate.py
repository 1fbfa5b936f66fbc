"""`ironlaw calibrate`: measure this device into the learner's profile."""

from __future__ import annotations

import argparse
import json
import sys
import time

from .. import workspace
from ..results import DeviceProfile


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ironlaw calibrate`."""
    parser.add_argument("--device", help="cpu, cuda, cuda:N or mps (default: the best there is)")
    parser.add_argument("--seconds", type=float,
                        help="about how long it may take (default: 15, on an accelerator 20)")
    parser.add_argument("--dtypes", help="number formats to measure, by commas: "
                        "fp32,tf32,bf16,fp16 (default: all)")
    parser.add_argument("--json", action="store_true", help="print the profile as JSON")


def run(args: argparse.Namespace) -> int:
    """Calibrate, save the profile, print it."""
    profile = measured(args.device, args.seconds, args.dtypes.split(",") if args.dtypes else None)
    if args.json:
        print(json.dumps(profile.to_json(), indent=1))
    else:
        print(profile)
        print(f"\nSaved to {workspace.path()}.")
    return 0


def measured(device: str | None = None, seconds: float | None = None,
             dtypes: list[str] | None = None) -> DeviceProfile:
    """Calibrate with progress on stderr, and keep the profile in the workspace.

    Unlike the commands that time steps, this one leaves waiting threads spinning
    (`gpt2.runtime.prepare` would let them sleep). A peak is a ceiling, taken from the best
    sample of one large product; beside other programs a thread that sleeps comes back too
    late for most of them, and the peak was seen to fall to that of a single core.
    """
    from ..measure.calibration import calibrate

    began = time.perf_counter()

    def say(stage: str) -> None:
        print(f"[{time.perf_counter() - began:5.1f} s] {stage}", file=sys.stderr, flush=True)

    profile = calibrate(device, dtypes, seconds, progress=say)
    say("done")
    workspace.save_profile(profile)
    return profile
