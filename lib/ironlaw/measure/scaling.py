"""Data parallelism for real, over processes of this machine: what the exchange costs.

Two processes (or more) join a group: NCCL with a GPU each where there are enough, gloo on
the CPU elsewhere. Measured are all-reduces by message size, and a training step of GPT-2
alone, under DDP and under FSDP2; each must give the gradient of all the data together.
The processes are started and ended here, within a time limit, and see only the loopback
network.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config import RunConfig
from ..errors import InputError, UnavailableError, count, number
from ..results_systems import AllReduceTiming, ParallelStep, ScalingMeasurement
from ..units import KIB, MIB
from . import host, timing
from ._torch import torch
from .device import Device, find
from .origin import origin

MESSAGES = (4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB)
_POLL = 0.1


def measure_scaling(
    config: RunConfig | None = None,
    *,
    processes: int = 2,
    message_bytes: Sequence[float] = MESSAGES,
    repeats: int = 5,
    device: str | Device | None = None,
    timeout: float = 180.0,
) -> ScalingMeasurement:
    """All-reduces of `message_bytes` and steps of `config`, `repeats` times each.

    `config.batch` (default: nano, batch 2, 128 tokens) is the batch of each process.
    `timeout` in seconds bounds the whole; processes that are still there are ended then,
    and `UnavailableError` says what they last printed.
    """
    config = (config or RunConfig(batch=2, seq=128)).replace(accumulate=1)
    here = find(device)
    count("processes", processes, low=2, high=64)
    count("repeats", repeats)
    limit = number("timeout", timeout, low=1.0, high=3600.0, unit="s")
    sizes = [number("message_bytes", size, low=4.0, unit="B") for size in message_bytes]
    if config.precision == "amp-fp16":
        raise InputError("precision", config.precision, "fp32, amp-bf16 or pure-bf16 here",
                         "Loss scaling would change the step from one sample to the next.")
    if not torch.distributed.is_available():
        raise UnavailableError("torch.distributed", "this PyTorch was built without it.",
                               "Install a PyTorch build for Linux, macOS or Windows from its site.")
    share = timing.processor_share() if here.type == "cpu" else None
    backend, reasons = _backend(here, processes)
    threads = max(1, here.threads // processes) if backend == "gloo" else here.threads
    with tempfile.TemporaryDirectory(prefix="ironlaw-scaling-") as folder:
        spec = Path(folder) / "spec.json"
        spec.write_text(json.dumps({
            "config": config.to_json(), "backend": backend, "message_bytes": sizes,
            "repeats": repeats, "timeout": limit}), encoding="utf-8")
        _run(spec, processes, threads, limit)
        found = json.loads(spec.with_name("result.json").read_text(encoding="utf-8"))
    reasons |= {f"steps.{name}": why for name, why in found["problems"].items()}
    notes = {**host.circumstances(here.threads, share),
             "network": "Processes of one machine: gloo sends through the loopback interface."
             if backend == "gloo" else "NCCL chooses the links between the GPUs."}
    if backend == "gloo":
        notes["processes"] = (f"{processes} processes with {threads} thread(s) each share the CPU: "
                              "'alone' runs beside its twin, too.")
    return ScalingMeasurement(
        **origin(here), config=config.to_json(), backend=backend, processes=processes,
        threads_per_process=threads, all_reduce=[_reduced(row) for row in found["all_reduce"]],
        steps=[_stepped(name, row) for name, row in found["steps"].items()],
        reasons=reasons, notes=notes)


def _backend(here: Device, processes: int) -> tuple[str, dict[str, str]]:
    reasons: dict[str, str] = {}
    if here.type == "cuda":
        there = torch.cuda.device_count()
        if there >= processes and torch.distributed.is_nccl_available():
            reasons["wire_bytes"] = "NCCL does not tell what it sends."
            return "nccl", reasons
        reasons["nccl"] = (f"NCCL wants a GPU per process: there are {there} for {processes}. "
                           "Measured with gloo on the CPU instead.")
    elif here.type == "mps":
        reasons["nccl"] = "MPS has no collectives: measured with gloo on the CPU instead."
    return "gloo", reasons


def _reduced(row: dict[str, Any]) -> AllReduceTiming:
    took = timing.spread(row["samples"])
    return AllReduceTiming(
        message_bytes=row["message_bytes"], samples=row["samples"], seconds=took.median,
        spread_seconds=took.interquartile, wire_bytes=row["wire_bytes"])


def _stepped(name: str, row: dict[str, Any]) -> ParallelStep:
    took = timing.spread(row["samples"])
    return ParallelStep(
        method=name, samples=row["samples"], seconds=took.median,
        spread_seconds=took.interquartile, parameter_bytes=row["parameter_bytes"],
        gradient_error=row["gradient_error"], wire_bytes=row["wire_bytes"])


def _run(spec: Path, processes: int, threads: int, limit: float) -> None:
    """Start the processes, wait for all of them, and leave none behind."""
    ends = time.monotonic() + limit
    running: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        try:
            for rank in range(processes):
                log = stack.enter_context(_log(spec, rank).open("wb"))
                running.append(subprocess.Popen(
                    [sys.executable, "-m", "ironlaw.measure.scaling_worker", str(spec)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank),
                         "WORLD_SIZE": str(processes), "OMP_NUM_THREADS": str(threads)}))
            _wait(running, spec, ends, limit)
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                process.wait()


def _wait(running: list[subprocess.Popen[bytes]], spec: Path, ends: float, limit: float) -> None:
    """Return when all have ended well; one that fails would leave the others waiting."""
    while True:
        states = [process.poll() for process in running]
        for rank, state in enumerate(states):
            if state:
                raise UnavailableError(
                    f"Process {rank} of {len(running)}", f"it ended with status {state}: "
                    f"{_last_line(spec, rank)}", "Try fewer processes or a smaller model.")
        if None not in states:
            return
        if time.monotonic() > ends:
            raise UnavailableError(
                "A result from every process", f"they were not done after {limit:g} s. "
                f"{_last_line(spec, 0)}", "Allow more time, or take a smaller model.")
        time.sleep(_POLL)


def _log(spec: Path, rank: int) -> Path:
    return spec.with_name(f"log-{rank}.txt")


def _last_line(spec: Path, rank: int) -> str:
    with contextlib.suppress(OSError):
        lines = _log(spec, rank).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "It said nothing.")
    return "It said nothing."
