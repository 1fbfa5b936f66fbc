"""A profiler's trace of a few steps, read the way chapter 4 reads one.

PyTorch's profiler writes down every operation. From that: which operations take the time,
where the device had none to run and what the host did then, and which of the three limits
of the D-A-M table the time points to: data (gaps while the next batch is made), algorithm
(arithmetic: matrix products and attention) or machine (memory: everything that mostly
moves bytes). On CUDA "running" means kernels on the GPU; on a CPU it means PyTorch's
operations, and Python between them is the gap. Profiling itself slows the host down:
shares are to be trusted more than seconds.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from ..config import RunConfig
from ..errors import UnavailableError, count
from ..gpt2 import step as gpt2_step
from ..results_systems import Gap, KernelRow, TraceMeasurement
from ..units import percent, si
from . import host, matmul, timing
from ._torch import torch
from .device import Device, find
from .origin import origin
from .step import own_random_state

LOAD, TRAIN = "load the batch", "train"
"""The two parts of an iteration, as they are named in the trace."""
CATEGORIES = (
    # Patterns are tried in order, on names of operations and of GPU kernels alike.
    ("attention", r"attention|flash|fmha|sdpa"),
    ("matmul", r"\b(add|b)?mm\b|addmm|bmm|matmul|linear|gemm|gemv|cutlass|xmma|nvjet|mkldnn|conv"),
    ("optimizer", r"adam|_foreach|multi_tensor|sgd|_fused_"),
    ("softmax", r"softmax|log_softmax|nll_loss|cross_entropy"),
    ("norm", r"layer_?norm|LayerNorm|GammaBeta"),
    ("embedding", r"embedding|index_select|gather"),
    ("communication", r"nccl|all_?reduce|all_?gather|reduce_?scatter"),
    ("copy", r"copy|memcpy|memset|to_copy|clone|contiguous|\bcat\b|zero_|fill_"),
)
COMPUTE = ("attention", "matmul")
_MOST_KERNELS, _MOST_GAPS = 40, 40
_SHORTEST_GAP = 20e-6


@dataclass(frozen=True)
class Span:
    """One operation: name, start and end in seconds."""

    name: str
    start: float
    end: float


def measure_trace(
    config: RunConfig | None = None,
    *,
    steps: int = 3,
    load: Callable[[], Sequence[gpt2_step.Batch]] | None = None,
    device: str | Device | None = None,
    chrome_trace: str | Path | None = None,
) -> TraceMeasurement:
    """Profile `steps` training steps of `config` (default: nano, batch 4) after two of warm-up.

    `load` makes the micro-batches of a step (default: the same random ones, ready at once).
    `chrome_trace` names a file to write the timeline to, for chrome://tracing or Perfetto.
    """
    config = config or RunConfig(batch=4)
    here = find(device)
    target = here.torch_device
    with (timing.on(target), own_random_state(target),
          matmul.exact_float32_products(target) as mode):
        torch.manual_seed(0)
        train = gpt2_step.build(config, target)
        ready = gpt2_step.random_batches(config, target)
        return profile_job(load or (lambda: ready), train, steps=steps, device=here,
                           config=config, chrome_trace=chrome_trace,
                           notes={"float32_matmul": mode})


def profile_job(
    load: Callable[[], Any],
    train: Callable[[Any], Any],
    *,
    steps: int = 3,
    warmup: int = 2,
    device: str | Device | None = None,
    config: RunConfig | None = None,
    chrome_trace: str | Path | None = None,
    notes: dict[str, str] | None = None,
) -> TraceMeasurement:
    """Profile any loop of `train(load())`: `load` makes a batch, `train` works on it."""
    here = find(device)
    target = here.torch_device
    count("steps", steps)
    count("warmup", warmup, low=0)
    share = timing.processor_share() if here.type == "cpu" else None
    for _ in range(warmup):
        train(load())
    activities = [ProfilerActivity.CPU]
    if here.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    _quiet()
    timing.synchronise(target)
    with profile(activities=activities, with_flops=True) as profiler:
        began = time.perf_counter()
        for _ in range(steps):
            with record_function(LOAD):
                batch = load()
            with record_function(TRAIN):
                train(batch)
        timing.synchronise(target)
        seconds = time.perf_counter() - began
    if chrome_trace is not None:
        profiler.export_chrome_trace(str(chrome_trace))
    events = list(profiler.events())
    on_gpu = here.type == "cuda"
    work = kernels(events) if on_gpu else host_spans(events)
    return _measurement(here, config, steps, seconds, work, events, notes or {}, share)


def host_spans(events: Iterable[Any]) -> list[Span]:
    """Operations on the host, outermost first, without the two parts' own names."""
    found = [Span(e.name, e.time_range.start / 1e6, e.time_range.end / 1e6) for e in events
             if e.device_type == DeviceType.CPU and e.name.startswith("aten::")]
    return sorted(found, key=lambda s: (s.start, -s.end))


def device_spans(events: Iterable[Any]) -> list[Span]:
    """Kernels and copies on the GPU; ranges that only mark a part of the program are no work."""
    found = [Span(e.name, e.time_range.start / 1e6, e.time_range.end / 1e6) for e in events
             if e.device_type == DeviceType.CUDA and not getattr(e, "is_user_annotation", False)
             and not e.name.startswith((LOAD, TRAIN, "Optimizer."))]
    return sorted(found, key=lambda s: (s.start, -s.end))


def kernels(events: Iterable[Any]) -> list[Span]:
    """`device_spans`, or `UnavailableError` where there is none: that GPU was not watched.

    Without this a trace that could not see the GPU would read as a GPU that did nothing.
    """
    found = device_spans(events)
    if not found:
        raise UnavailableError(
            "What the GPU ran", "the profiler saw not one of its kernels.",
            "Allow profiling on this GPU (NVIDIA restricts its counters to administrators by "
            "default), or use a PyTorch build with CUPTI.")
    return found


def launches(call: Callable[[], Any], device: torch.device) -> tuple[int, float | None]:
    """How many operations `call` starts on `device`, and the seconds in which a GPU ran any.

    On CUDA these are kernels and copies; elsewhere PyTorch's operations that call no other
    one, and no time, since the host's calls do not tell when a device was busy.
    """
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    _quiet()
    timing.synchronise(device)
    with profile(activities=activities) as profiler:
        call()
        timing.synchronise(device)
    events = list(profiler.events())
    if on_gpu:
        work = kernels(events)
        return len(work), sum(b - a for a, b in union(work))
    return len(leaves(host_spans(events))), None


def _quiet() -> None:
    """Keep the profiler's own library from printing lines for its developers."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def leaves(spans: Sequence[Span]) -> list[Span]:
    """Those of `spans` (in order of start, the outer first) that no other one lies within.

    Spans of two threads may lie within each other by chance; PyTorch's backward pass runs
    on one thread while the other waits, so that this stays rare.
    """
    return [span for place, span in enumerate(spans)
            if place + 1 == len(spans) or spans[place + 1].start >= span.end]


def category(name: str) -> str:
    """The kind of work that an operation or kernel called `name` does."""
    for kind, pattern in CATEGORIES:
        if re.search(pattern, name, re.IGNORECASE):
            return kind
    return "elementwise"


def union(spans: Iterable[Span]) -> list[tuple[float, float]]:
    """The stretches covered by at least one of `spans` (in order of start), merged."""
    merged: list[tuple[float, float]] = []
    for span in spans:
        if merged and span.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span.end))
        else:
            merged.append((span.start, span.end))
    return merged


def gaps(busy: list[tuple[float, float]], start: float, end: float) -> list[tuple[float, float]]:
    """What `busy` leaves of the stretch from `start` to `end`."""
    found, at = [], start
    for begins, ends in busy:
        if begins > at:
            found.append((at, min(begins, end)))
        at = max(at, ends)
    if end > at:
        found.append((at, end))
    return [(a, b) for a, b in found if b > a]


def overlap(piece: tuple[float, float], parts: Iterable[tuple[float, float]]) -> float:
    """Seconds that `piece` shares with `parts`, which do not overlap each other."""
    return sum(max(0.0, min(piece[1], b) - max(piece[0], a)) for a, b in parts)


def classify(shares: dict[str, float]) -> tuple[str | None, list[str]]:
    """The axis of the D-A-M table that `shares` of the time point to, and why, in words."""
    said = [f"{percent(shares['data'])} of the time the device waited for the next batch.",
            f"{percent(shares['compute'])} went to matrix products and attention, "
            f"{percent(shares['memory'])} to operations that mostly move bytes.",
            f"{percent(shares['host'])} were other gaps: Python, launches, waiting for results."]
    largest = max(shares, key=lambda name: shares[name])
    axis = {"data": "data", "compute": "algorithm", "memory": "machine"}.get(largest)
    verdict = {
        "data": "Data-bound: make batches in parallel and ahead of time.",
        "algorithm": "Compute-bound: fewer or cheaper operations, or a format that is faster.",
        "machine": "Memory-bound: fuse operations, keep less, or move fewer bytes per value.",
        None: "None of the three: the host does not keep the device busy. Larger batches, "
              "compiled steps, or fewer small operations.",
    }[axis]
    return axis, [*said, verdict]


def _measurement(here: Device, config: RunConfig | None, steps: int, seconds: float,
                 work: list[Span], events: list[Any], notes: dict[str, str],
                 share: float | None) -> TraceMeasurement:
    marks = [(e.name, e.time_range.start / 1e6, e.time_range.end / 1e6) for e in events
             if e.name in (LOAD, TRAIN) and e.device_type == DeviceType.CPU]
    loading = [(a, b) for name, a, b in marks if name == LOAD]
    start = min((a for _, a, _ in marks), default=0.0)
    end = max([b for _, _, b in marks] + [span.end for span in work], default=start)
    whole = max(end - start, 1e-9)
    if here.type != "cuda":
        # On a CPU making a batch may run operations too: that is waiting for data all the same.
        work = [s for s in work if not overlap((s.start, s.end), loading)]
    busy = union(work)
    idle = gaps(busy, start, end)
    waited = sum(overlap(gap, loading) for gap in idle)
    on_host = here.type != "cuda"
    rows = kernel_rows(work, flops_by_name(events) if on_host else {}, nested=on_host)
    running = sum(b - a for a, b in busy)
    by_kind = sum(row.seconds for row in rows) or 1.0
    compute = sum(row.seconds for row in rows if row.category in COMPUTE) / by_kind
    shares = {"data": waited / whole, "host": (sum(b - a for a, b in idle) - waited) / whole,
              "compute": running * compute / whole, "memory": running * (1 - compute) / whole}
    axis, evidence = classify(shares)
    long = sorted((g for g in idle if g[1] - g[0] >= _SHORTEST_GAP), key=lambda g: g[0] - g[1])
    if long:
        longest = long[0][1] - long[0][0]
        evidence.append(f"{len(long)} gaps of {si(_SHORTEST_GAP, 's')} or more, the longest "
                        f"{si(longest, 's')}.")
    reasons = {} if axis else {"axis": evidence[3]}
    if here.type == "cuda":
        reasons["kernels.flops"] = "The profiler counts FLOP per operation, not per GPU kernel."
    elif here.type == "mps":
        notes = {**notes, "device": "The profiler sees no MPS kernels: these are the host's calls, "
                                    "which return before the GPU is done."}
    return TraceMeasurement(
        **origin(here), config=config.to_json() if config else None, steps=steps, seconds=seconds,
        busy_seconds=running, idle_share=1.0 - running / whole, shares=shares, axis=axis,
        evidence=evidence, kernels=rows[:_MOST_KERNELS], gap_count=len(idle),
        gaps=[Gap(start=a - start, seconds=b - a, during=_during((a, b), loading))
              for a, b in sorted(long[:_MOST_GAPS])],
        reasons=reasons, notes={**host.circumstances(here.threads, share), **notes})


def _during(gap: tuple[float, float], loading: list[tuple[float, float]]) -> str:
    return LOAD if 2 * overlap(gap, loading) > gap[1] - gap[0] else TRAIN


def kernel_rows(work: list[Span], flops: dict[str, float], *,
                nested: bool = True) -> list[KernelRow]:
    """Own time per name, the largest first.

    `nested` operations call each other, and what one spends in others is theirs. Kernels
    on a GPU call nothing; where two overlap, they run side by side.
    """
    own: dict[str, float] = {}
    calls: dict[str, int] = {}
    stack: list[Span] = []
    for span in work:
        while stack and stack[-1].end <= span.start:
            stack.pop()
        if nested and stack and span.end <= stack[-1].end:
            own[stack[-1].name] -= span.end - span.start
        own[span.name] = own.get(span.name, 0.0) + span.end - span.start
        calls[span.name] = calls.get(span.name, 0) + 1
        stack.append(span)
    total = sum(own.values()) or 1.0
    rows = [KernelRow(name=name[:120], category=category(name), calls=calls[name],
                      seconds=max(0.0, spent), share=max(0.0, spent) / total,
                      flops=flops.get(name)) for name, spent in own.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def flops_by_name(events: Iterable[Any]) -> dict[str, float]:
    """FLOP of the operations that the profiler knows a formula for."""
    found: dict[str, float] = {}
    for event in events:
        if getattr(event, "flops", None):
            found[event.name] = found.get(event.name, 0.0) + float(event.flops)
    return found
