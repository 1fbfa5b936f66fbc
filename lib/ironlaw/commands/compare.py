"""`ironlaw compare`: a step of GPT-2, predicted, measured, and the difference."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from .. import compare, workspace
from ..config import RunConfig
from ..errors import InputError
from ..predict import flops
from ..predict.peak import step_memory
from ..results import DeviceProfile, StepMeasurement
from . import _attention, _room


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ironlaw compare`."""
    RunConfig.add_flags(parser, _attention.other_flags())
    _attention.add_flags(parser)
    parser.add_argument("--steps", type=int, default=20,
                        help="steps that are timed, after warm-up (default: 20)")
    parser.add_argument("--on", metavar="KIND", help="where to run: cpu, cuda, cuda:N or mps "
                        "(default: the best there is)")
    _room.add_flag(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Calibrate if need be, measure, lay both sides together, print."""
    from ..gpt2.runtime import prepare

    before = dict(os.environ)
    prepare()  # as the trainer does; has an effect only before torch comes in
    from ..measure.device import find, free_bytes

    here, asked = find(args.on), args.attention is not None
    _attention.fill(args, here.type)
    config = RunConfig.from_flags(args)
    _on_this_device(config, here.catalogue_name)
    _say("Comparing with " + _attention.described(config.attention, here.type, asked=asked))
    free = free_bytes(here)
    _room.check(config, here.type, free, force=args.force,
                catalogue_name=here.catalogue_name, say=_say)
    profile = _profile(here.name, here.type, args.on, before)
    with _room.memory_errors(config, here, free):
        laid, measured = compare.run(config, steps=args.steps, profile=profile, device=args.on,
                                     progress=_say)
    if args.json:
        print(json.dumps(outputs(laid, measured), indent=1))
    else:
        print(laid)
    return 0


def outputs(laid: compare.Comparison, measured: StepMeasurement) -> dict[str, Any]:
    """The JSON of this command: both sides under the same keys, then the rows.

    Each side holds `flops_per_token`, `flops_per_step` (model FLOP),
    `hardware_flops_per_step`, `memory_bytes` (by kind, and their peak), `step_seconds`,
    `tokens_per_second`, `mfu` and `peak_source`; a null has its reason under `reasons`.
    `residual_split` says what each difference consists of: by row, then by part.
    """
    config = RunConfig.from_json(measured.config)
    step, rate, mfu = (laid.row(k) for k in ("step_seconds", "tokens_per_second", "mfu"))
    per_step = flops.per_token(config.shape, config.sequence) * config.tokens_per_step
    again = flops.recomputed_per_step(config.shape, config.batch, config.sequence,
                                      config.recompute, config.attention) * config.accumulate
    memory, reasons = laid.memory, dict(laid.memory.reasons) if laid.memory else {}
    for row in (step, rate, mfu, laid.row("memory_bytes")):
        if row.reason:
            reasons[row.key] = row.reason
    peak = laid.peak_source
    return {
        "config": measured.config,
        "predicted": {
            "flops_per_token": laid.row("flops_per_token").predicted, "flops_per_step": per_step,
            "hardware_flops_per_step": per_step + again,
            "memory_bytes": step_memory(config).to_json(),
            "step_seconds": step.predicted, "tokens_per_second": rate.predicted,
            "mfu": mfu.predicted, "peak_source": peak,
        },
        "measured": {
            "flops_per_token": measured.flops_per_token,
            "flops_per_step": measured.flops_per_step,
            "hardware_flops_per_step": measured.hardware_flops_per_step,
            "memory_bytes": memory.memory_bytes if memory else None,
            "step_seconds": measured.step_seconds,
            "tokens_per_second": measured.tokens_per_second,
            "mfu": measured.mfu, "peak_source": peak,
        },
        "residuals": {row.key: row.residual for row in laid.rows},
        "residual_split": {row.key: {part.name: part.amount for part in row.parts}
                           for row in laid.rows if row.parts},
        "reasons": reasons,
        "comparison": laid.to_json(),
        "measurement": measured.to_json(),
    }


def _on_this_device(config: RunConfig, catalogue_name: str | None) -> None:
    if config.device not in ("this", catalogue_name):
        raise InputError(
            "device", config.device, "'this' when a step is measured",
            "A step runs on the device at hand; choose it with --on. `ironlaw predict` "
            "takes any device of the catalogue.")


def _profile(name: str, device_type: str, kind: str | None,
             environment: dict[str, str]) -> DeviceProfile | None:
    """The saved profile of the device that will run; calibrated now when there is none.

    Calibration has a process and an `environment` of its own: threads that do not spin,
    as this command's, would lower the peak (see `commands.calibrate`).
    """
    profile = workspace.profile()
    if profile is not None and (profile.name, profile.device_type) == (name, device_type):
        return profile
    _say("no profile of this device yet: calibrating first (once)")
    words = ["calibrate", *(["--device", kind] if kind else [])]
    subprocess.run([sys.executable, "-m", "ironlaw.cli", *words], env=environment, check=False,
                   stdout=subprocess.DEVNULL)
    return workspace.profile()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
