"""`ironlaw predict`: FLOPs, memory and time of one training step, before it runs."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .. import hardware, workspace
from ..config import RunConfig
from ..errors import InputError, fraction
from ..predict import flops, peak, plan, step_time
from ..units import duration, gibibytes, gigabytes, percent, si, significant
from . import _attention


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ironlaw predict`."""
    RunConfig.add_flags(parser, _attention.other_flags())
    _attention.add_flags(parser)
    parser.add_argument("--eta", type=float,
                        help="share of the peak that the device sustains, in (0, 1]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Predict and print; the exit status is 0."""
    _attention.fill(args, _attention.device_type(args.device))
    found = outputs(RunConfig.from_flags(args), args.eta)
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        _print(found)
    return 0


def outputs(config: RunConfig, eta: float | None = None) -> dict[str, Any]:
    """What `--json` prints. A value that cannot be had is null; `reasons` says why.

    `eta` is the share of the peak that the hardware sustains, recomputation included; it is
    checked even where no peak is known and it cannot be used.
    """
    if eta is not None:
        fraction("eta", eta)
    shape, seq = config.shape, config.sequence
    per_step = flops.per_step(shape, config.batch, seq) * config.accumulate
    again = flops.recomputed_per_step(shape, config.batch, seq, config.recompute,
                                      config.attention) * config.accumulate
    memory = peak.step_memory(config)
    rate, source, reason = peak_rate(config)
    reasons: dict[str, str] = {}
    seconds = floor = None
    if rate is None:
        reasons |= dict.fromkeys(("step_seconds", "floor_seconds", "peak_source"), reason)
    else:
        floor = step_time.from_peak(per_step + again, rate)
        if eta is None:
            reasons["step_seconds"] = ("Give --eta, the share of the peak that this device "
                                       "sustains. The step at the peak is its lower bound.")
        else:
            seconds = step_time.from_peak(per_step + again, rate, eta)
    for name in ("tokens_per_second", "mfu"):
        if seconds is None:
            reasons[name] = reasons["step_seconds"]
    return {
        "config": config.to_json(),
        "flops_per_token": flops.per_token(shape, seq),
        "flops_per_step": per_step,
        "hardware_flops_per_step": per_step + again,
        "memory_bytes": memory.to_json(),
        "peak_moment": memory.moment,
        "step_seconds": seconds,
        "floor_seconds": floor,
        "tokens_per_second": config.tokens_per_step / seconds if seconds else None,
        "mfu": per_step / (seconds * rate) if seconds and rate else None,
        "peak_source": source,
        "reasons": reasons,
        "notes": notes(config),
    }


def notes(config: RunConfig) -> dict[str, str]:
    """What a reader of these numbers should know, by the flag that it is about."""
    if config.recompute == "selective" and config.attention == "flash":
        return {"recompute": "Selective recomputation drops the S x S scores. Tiled (flash) "
                             "attention never keeps them, so here it changes nothing."}
    return {}


def peak_rate(config: RunConfig) -> tuple[float | None, str | None, str]:
    """Peak FLOP/s for the configuration's products, where it comes from, or why not."""
    dtype = plan.PRODUCTS[config.precision]
    if config.device == "this":
        profile = workspace.profile()
        if profile is None:
            return None, None, "This device is not calibrated yet: run `ironlaw calibrate`."
        if dtype not in profile.matmul:
            return None, None, (f"The calibration of {profile.name} holds no {dtype} rate: "
                                "run `ironlaw calibrate` again.")
        found = profile.peak(dtype)
        return found.flops_per_second, found.source, ""
    entry = hardware.accelerator(config.device)
    try:
        rate = entry.peak(dtype)
    except InputError as problem:
        return None, None, str(problem)
    return rate, f"{entry.name}, {dtype}, dense: {entry.figure(dtype).source}", ""


def _print(found: dict[str, Any]) -> None:
    config, memory = found["config"], found["memory_bytes"]
    shape = RunConfig.from_json(config).shape
    micro = "micro-batch" if config["accumulate"] == 1 else "micro-batches"
    print(f"{shape.name}: {shape.parameters:,} parameters, {config['batch']} x "
          f"{config['seq'] or shape.context} tokens x {config['accumulate']} {micro}, "
          f"{config['precision']}, {config['attention']} attention{_sliced(config)}, "
          f"{config['optimizer']}, recompute {config['recompute']}\n")
    print(f"  {'model FLOP per token':<28}{si(found['flops_per_token'], 'FLOP', 4):>16}")
    print(f"  {'model FLOP per step':<28}{si(found['flops_per_step'], 'FLOP', 4):>16}")
    print(f"  {'hardware FLOP per step':<28}{si(found['hardware_flops_per_step'], 'FLOP', 4):>16}")
    print(f"\n  memory at the peak ({found['peak_moment']})")
    for kind, size in memory.items():
        share = f"{100 * size / memory['peak']:.1f} %"
        binary = f"   ({gibibytes(size)})" if kind == "peak" else ""
        print(f"    {kind.replace('_', ' '):<26}{gigabytes(size, 4):>16}{share:>10}{binary}")
    print("    not counted: device context, library workspaces, fragmentation\n")
    for note in found["notes"].values():
        print(f"  {note}\n")
    if found["floor_seconds"] is not None:
        print(f"  {'step at the peak':<28}{duration(found['floor_seconds']):>16}"
              f"   ({found['peak_source']})")
    if found["step_seconds"] is None:
        print(f"  {'step':<28}{'unknown':>16}   {found['reasons']['step_seconds']}")
        return
    print(f"  {'step':<28}{duration(found['step_seconds']):>16}")
    print(f"  {'tokens per second':<28}{significant(found['tokens_per_second']):>16}")
    print(f"  {'MFU':<28}{percent(found['mfu']):>16}")


def _sliced(config: dict[str, Any]) -> str:
    rows = config["loss_rows"]
    return f", loss in slices of {rows:,} tokens" if rows else ""
