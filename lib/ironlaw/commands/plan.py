"""`ironlaw plan`: the largest batch that fits a device, or the cheapest way to make one fit."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from .. import hardware, workspace
from ..config import RunConfig
from ..errors import InputError, count, not_negative, positive
from ..predict import plan
from ..units import GB, gigabytes, memory, percent
from . import _attention, _formats


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ironlaw plan`."""
    RunConfig.add_flags(parser, _attention.other_flags())
    _attention.add_flags(parser)
    parser.add_argument("--memory", type=float, metavar="GB",
                        help="device memory in GB (10^9 bytes), instead of --device's")
    parser.add_argument("--reserve", type=float, metavar="GB", default=0.0,
                        help="GB to leave for the device's context and workspaces (default: 0)")
    parser.add_argument("--most", type=int, default=5, help="plans to print (default: 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Plan and print; the exit status is 1 when nothing fits."""
    count("most", args.most)
    # A size of memory alone says nothing of a CPU: then it is an accelerator's.
    kind = "cuda" if args.memory is not None else _attention.device_type(args.device)
    _attention.fill(args, kind)
    config = RunConfig.from_flags(args)
    device_bytes, source = device_memory(config, args.memory)
    found = outputs(config, device_bytes, source, reserve(args.reserve, device_bytes),
                    _formats.usable(config, here=args.memory is None))
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        _print(config, found, args.most)
    return 0 if found["plans"] else 1


def device_memory(config: RunConfig, given: float | None) -> tuple[float, str]:
    """Bytes of the device and where the number comes from, or `InputError`."""
    if given is not None:
        return positive("memory", given, unit="GB") * GB, "given"
    if config.device != "this":
        entry = hardware.accelerator(config.device)
        return entry.value("memory"), f"{entry.name}: {entry.memory.source}"
    profile = workspace.profile()
    if profile is None or profile.memory_bytes is None:
        raise InputError("device", "this", "one whose memory is known, and nothing is known "
                         "of this one yet",
                         "Run `ironlaw calibrate`, or give --memory GB or --device NAME.")
    return profile.memory_bytes, f"calibrated on {profile.name}"


def reserve(given: float, device_bytes: float) -> float:
    """The bytes of `--reserve`, given in GB; `InputError` unless they leave room for a step."""
    kept = not_negative("reserve", given, unit="GB") * GB
    if kept >= device_bytes:
        raise InputError("reserve", given, f"less than the device's {gigabytes(device_bytes)}",
                         "Give fewer GB, or plan for a device with more memory.")
    return kept


def outputs(
    config: RunConfig, device_bytes: float, source: str, reserve_bytes: float,
    precisions: Sequence[str] | None = None,
) -> dict[str, Any]:
    """What `--json` prints: the wish, the largest batch as it stands, and all plans."""
    largest = plan.largest_batch(config, device_bytes, reserve_bytes)
    return {
        "config": config.to_json(),
        "device_bytes": device_bytes,
        "device_source": source,
        "reserve_bytes": reserve_bytes,
        "wish_bytes": plan.step_memory(config).peak,
        "largest_batch": largest.config.batch if largest else 0,
        "largest_batch_bytes": largest.memory.peak if largest else None,
        "plans": [
            {"changes": list(p.changes), "config": p.config.to_json(),
             "memory_bytes": p.memory.to_json(), "free_bytes": p.free_bytes,
             "extra_flops": p.extra_flops, "same_numbers": p.same_numbers}
            for p in plan.plans(config, device_bytes, reserve_bytes, precisions=precisions)],
        "workers_to_shard": plan.workers_to_shard(config, device_bytes, reserve_bytes),
    }


def _print(config: RunConfig, found: dict[str, Any], most: int) -> None:
    device = memory(found["device_bytes"])
    print(f"{config.shape.name} on {device} ({found['device_source']}): as asked, a step of "
          f"{config.batch} x {config.accumulate} sequences needs {memory(found['wish_bytes'])}.")
    if found["largest_batch"]:
        print(f"Largest micro-batch with these settings: {found['largest_batch']}, at "
              f"{gigabytes(found['largest_batch_bytes'], 4)}.")
    else:
        print("With these settings not even a micro-batch of 1 fits.")
    if not found["plans"]:
        print("\nNo setting makes it fit. " + _shard(found["workers_to_shard"]))
        return
    print(f"\nWays to run all {config.batch * config.accumulate} sequences, the cheapest first:")
    print(f"  {'peak':>12} {'free':>12} {'extra FLOP':>11}  changes")
    for p in found["plans"][:most]:
        words = " ".join(p["changes"]) or "none: it fits as asked"
        if not p["same_numbers"]:
            words += "   (other number format: check the loss)"
        print(f"  {gigabytes(p['memory_bytes']['peak'], 4):>12} "
              f"{gigabytes(p['free_bytes'], 4):>12} "
              f"{percent(p['extra_flops']):>11}  {words}")
    if not found["reserve_bytes"]:
        print("\nNot counted: the device's context, workspaces and fragmentation. "
              "Keep room for them with --reserve GB.")


def _shard(workers: int | None) -> str:
    if workers is None:
        return "Its activations alone are too much: shorten the sequence."
    return (f"Sharding parameters, gradients and moments (ZeRO-3, FSDP) over {workers} such "
            "devices would.")
