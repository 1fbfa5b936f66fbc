"""`ironlaw measure`: what one training step really takes, under the keys of `predict`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from .. import workspace
from ..config import RunConfig
from ..errors import InputError, count
from ..results import MemoryMeasurement, StepMeasurement
from ..results_text import beyond_the_split
from ..units import duration, gibibytes, gigabytes, percent, si, significant
from . import _attention, _room

if TYPE_CHECKING:
    from ..measure.device import Device

_QUICK_BLOCKS = 12
"""Passes through a block that are traced before anybody wonders whether something hangs."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ironlaw measure`."""
    RunConfig.add_flags(parser, _attention.other_flags())
    _attention.add_flags(parser)
    parser.add_argument("--backend", choices=("tracker", "device"), default="tracker",
                        help="tracker: fake tensors, memory and FLOP of any size without a GPU; "
                             "device: real steps on the device here (default: tracker)")
    parser.add_argument("--steps", type=int, default=10,
                        help="steps that are timed by --backend device (default: 10)")
    parser.add_argument("--on", metavar="KIND", help="where to run: cpu, cuda, cuda:N or mps "
                        "(default: the best there is)")
    _room.add_flag(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Measure and print; the exit status is 0."""
    from ..gpt2.runtime import prepare

    prepare()  # has an effect only before torch comes in
    _attention.fill(args, _where(args.on).type if args.backend == "device"
                    else _attention.device_type(args.device))
    found = outputs(RunConfig.from_flags(args), args.backend, args.on, args.steps,
                    args.force)
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        _print(found)
    return 0


def outputs(config: RunConfig, backend: str = "tracker", on: str | None = None,
            steps: int = 10, force: bool = False) -> dict[str, Any]:
    """What `--json` prints: the keys of `ironlaw predict`, measured.

    A value that cannot be had is null; `reasons` says why. Times need the "device", where
    a step that cannot fit in memory is refused, unless `force` is set.
    """
    if backend != "device" and on is not None:
        raise InputError("on", on, "left out with --backend tracker, which runs on no device",
                         "Add --backend device to take real steps, or leave out --on.")
    from ..measure import flops
    from ..measure.device import free_bytes
    from ..measure.memory import measure_memory

    if backend == "device":
        count("steps", steps)
        here = _where(on)
        if config.device not in ("this", here.catalogue_name):
            raise InputError("device", config.device, "'this' when a step is measured",
                             "Choose where to run with --on; `ironlaw predict` takes any device.")
        free = free_bytes(here)
        _room.check(config, here.type, free, force=force,
                    catalogue_name=here.catalogue_name, say=_say)
        with _room.memory_errors(config, here, free):
            step = _timed(config, on, steps)
            memory = measure_memory(config, "device", here)
    else:
        if config.shape.layers * config.accumulate > _QUICK_BLOCKS:
            _say(f"tracing {config.shape.layers} blocks without their contents; on a busy machine "
                 "the largest models take minutes")
        step, memory = None, measure_memory(config, "tracker")
    work = flops.count(config)
    reasons = dict(memory.reasons)
    if step is None:
        for name in ("step_seconds", "floor_seconds", "tokens_per_second", "mfu", "peak_source"):
            reasons[name] = "Fake tensors take no time: use --backend device."
    else:
        reasons |= step.reasons
    return {
        "config": config.to_json(),
        "flops_per_token": work.per_token,
        "flops_per_step": float(work.model),
        "hardware_flops_per_step": float(work.hardware),
        "memory_bytes": memory.memory_bytes,
        "peak_moment": memory.moment,
        "step_seconds": step.step_seconds if step else None,
        "floor_seconds": (work.hardware / step.peak.flops_per_second
                          if step and step.peak else None),
        "tokens_per_second": step.tokens_per_second if step else None,
        "mfu": step.mfu if step else None,
        "peak_source": step.peak.source if step and step.peak else None,
        "reasons": reasons,
        "notes": dict(memory.notes),
        "memory": memory.to_json(),
        "measurement": step.to_json() if step else None,
    }


def _where(on: str | None) -> Device:
    from ..measure.device import find

    try:
        return find(on)
    except InputError as problem:
        if on is None:  # the environment variable's fault, and not the flag's
            raise
        raise InputError("on", problem.value, problem.allowed) from None


def _timed(config: RunConfig, on: str | None, steps: int) -> StepMeasurement:
    from ..measure.step import measure_step

    _say(f"timing {steps} steps")
    return measure_step(config, steps=steps, profile=workspace.profile(), device=on)


def _print(found: dict[str, Any]) -> None:
    memory = MemoryMeasurement.from_json(found["memory"])
    shape = RunConfig.from_json(found["config"]).shape
    print(f"{shape.name}: {shape.parameters:,} parameters, measured by {memory.backend} "
          f"({memory.device})\n")
    print(f"  {'model FLOP per token':<28}{si(found['flops_per_token'], 'FLOP', 4):>16}")
    print(f"  {'model FLOP per step':<28}{si(found['flops_per_step'], 'FLOP', 4):>16}")
    print(f"  {'hardware FLOP per step':<28}{si(found['hardware_flops_per_step'], 'FLOP', 4):>16}")
    print(f"\n  memory at the peak ({memory.moment})")
    for kind, size in memory.memory_bytes.items():
        share = f"{100 * size / memory.peak_bytes:.1f} %" if size is not None else ""
        binary = f"   ({gibibytes(size)})" if kind == "peak" and size is not None else ""
        print(f"    {kind.replace('_', ' '):<26}"
              f"{gigabytes(size, 4) if size is not None else 'unknown':>16}{share:>10}{binary}")
    for name, size in beyond_the_split(memory).items():
        print(f"    {name:<26}{gigabytes(size, 4):>16}{'':>10}   ({gibibytes(size)})")
    if "backend" in memory.notes:
        print(f"    {memory.notes['backend']}")
    if found["step_seconds"] is None:
        print(f"\n  {'step':<28}{'unknown':>16}   {found['reasons']['step_seconds']}")
        return
    print(f"\n  {'step':<28}{duration(found['step_seconds']):>16}")
    print(f"  {'tokens per second':<28}{significant(found['tokens_per_second']):>16}")
    shown = percent(found["mfu"]) if found["mfu"] is not None else "unknown"
    print(f"  {'MFU':<28}{shown:>16}   {found['peak_source'] or found['reasons'].get('mfu', '')}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
