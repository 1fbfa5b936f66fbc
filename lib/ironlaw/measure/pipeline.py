"""How fast data can come, stage by stage, and how much of it hides behind the step.

Each stage is timed alone, on real text: read files, tokenise them, copy a batch to the
device, train on it. Then DataLoaders with 0, 1, ... workers, alone; then whole training
loops fed by them. Without workers the step waits for every stage before it; with them it
waits only for what is slower than itself. The device's idle share tells the two apart.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ..config import RunConfig
from ..errors import count, number
from ..gpt2 import corpus, tokens
from ..gpt2 import step as gpt2_step
from ..results_instruments import LoaderTiming, LoopTiming, PipelineMeasurement, Timing
from . import host, loader, matmul, timing
from ._torch import torch
from .device import Device, find
from .origin import origin, timed
from .step import own_random_state

Fetch: TypeAlias = Callable[[], list[gpt2_step.Batch]]
_MOST = 64


def measure_pipeline(
    config: RunConfig | None = None,
    *,
    files: Sequence[Path] | None = None,
    workers: Sequence[int] | None = None,
    transform: loader.Transform | None = None,
    device: str | Device | None = None,
    seconds: float = 30.0,
) -> PipelineMeasurement:
    """Stage rates, loaders and loops for steps of `config` (default: nano, its own batch).

    `files` are text (default: the standard library's source). `workers` are numbers of
    DataLoader processes (default: 0, 1, ... up to the CPUs here, at most 4). `transform`
    works on each text before it is tokenised (`loader.clean` is a slow one). `seconds` is
    about how long it takes beyond starting the workers.
    """
    config = config or RunConfig()
    here = find(device)
    budget = number("seconds", seconds, low=0.2, high=3600.0, unit="s")
    counts = sorted({count("workers", n, low=0, high=256)
                     for n in (workers if workers is not None else usual_workers())} | {0})
    texts = list(files) if files is not None else corpus.standard_library()
    target = here.torch_device
    pinned = here.type == "cuda"
    dataset = loader.TextBatches(texts, config.shape.vocab, config.batch, config.sequence,
                                 transform)
    share = timing.processor_share() if here.type == "cpu" else None
    reasons, notes = _remarks(here, share)
    each = budget / (2 + 2 * len(counts))
    with (timing.on(target), own_random_state(target),
          matmul.exact_float32_products(target) as mode):
        torch.manual_seed(0)
        train = gpt2_step.build(config.replace(accumulate=1), target)
        stages = _stages(dataset, texts, train, target, pinned, each)
        alone, loops = [], []
        for n in counts:
            with _stream(dataset, n, pinned) as (stream, first):
                alone.append(_alone(stream, n, pinned, first, each))
                loops.append(_loop(stream, dataset, n, pinned, train, target, each))
    notes["float32_matmul"] = mode
    return PipelineMeasurement(
        **origin(here), config=config.to_json(), tokens_per_batch=config.batch * config.sequence,
        batch_bytes=8.0 * config.batch * (config.sequence + 1),
        corpus="standard library" if files is None else f"{len(texts)} text files",
        tokenizer=tokens.for_vocab(config.shape.vocab).name, start_method=loader.start_method(),
        stages=stages, loaders=alone, loops=loops, reasons=reasons, notes=notes)


def usual_workers() -> list[int]:
    """0, 1, 2, 4: as many as there are CPUs to run them, at most 4."""
    quota = host.cpu_quota()
    cpus = max(1, min(os.cpu_count() or 1, int(quota) if quota else 4, 4))
    return [n for n in (0, 1, 2, 4) if n <= cpus]


def _remarks(here: Device, share: float | None) -> tuple[dict[str, str], dict[str, str]]:
    reasons: dict[str, str] = {}
    notes = host.circumstances(here.threads, share)
    notes["workers"] = (
        f"Started by {loader.start_method()!r}, never forked from a process in which a GPU's "
        "driver may be running. Their start is in first_batch_seconds only.")
    if here.type == "cuda":
        notes["idle"] = ("From the GPU's own time stamps: the stretches between the end of one "
                         "step and the start of the next.")
    else:
        reasons["copy pinned"] = (
            f"Pinned memory is for CUDA's copy engines; on {here.type} it does nothing.")
        notes["idle"] = "The share of the loop spent waiting for the next batch and copying it."
    if here.type == "cpu":
        notes["device"] = ("Here the CPU is both sides: workers and the step share its cores, so "
                           "overlap can save less than on an accelerator.")
    return reasons, notes


def _stages(dataset: loader.TextBatches, texts: Sequence[Path], train: gpt2_step.TrainingStep,
            device: torch.device, pinned: bool, seconds: float) -> list[Timing]:
    """Seconds per batch of each stage alone. What is done per file is shared out by size."""
    tokenizer = tokens.for_vocab(dataset.vocab)
    wanted = dataset.batch * (dataset.seq + 1)
    parts: dict[str, Callable[[Any], Any]] = {
        "read": loader.read,
        **({"transform": dataset.transform} if dataset.transform else {}),
        "tokenise": tokenizer.encode,
    }
    samples: dict[str, list[float]] = {name: [] for name in parts}
    ends = time.perf_counter() + seconds / 2
    files = itertools.cycle(texts)
    tokenizer.encode("warm up")
    while len(samples["read"]) < 3 or (
            len(samples["read"]) < _MOST and time.perf_counter() < ends):
        got, spent = 0, dict.fromkeys(parts, 0.0)
        while got < wanted:
            value: Any = next(files)
            for name, call in parts.items():
                began = time.perf_counter()
                value = call(value)
                spent[name] += time.perf_counter() - began
            got += len(value) + 1
        # The last file reaches into the next batch: that part is not this batch's.
        for name, taken in spent.items():
            samples[name].append(taken * wanted / got)
    batch = next(iter(dataset))
    there = torch.empty_like(batch, device=device)
    found = [timed(name, taken) for name, taken in samples.items()]
    found.append(timed("copy", timing.sample(lambda: there.copy_(batch), device,
                                             seconds=seconds / 8, most=_MOST)))
    if pinned:
        locked = batch.pin_memory()
        found.append(timed("copy pinned", timing.sample(
            lambda: there.copy_(locked, non_blocking=True), device,
            seconds=seconds / 8, most=_MOST)))
    there.copy_(batch)
    pair = [(there[:, :-1], there[:, 1:])]
    for _ in range(2):
        train(pair)  # the first makes the optimizer's moments, the second settles memory
    found.append(timed("step", timing.sample(lambda: train(pair), device, seconds=seconds / 4,
                                             shortest=0.0, most=_MOST)))
    return found


@contextlib.contextmanager
def _stream(dataset: loader.TextBatches, workers: int,
            pinned: bool) -> Iterator[tuple[Iterator[torch.Tensor], float]]:
    """A running DataLoader and the seconds to its first batch; its workers end with it."""
    began = time.perf_counter()
    stream = iter(loader.loader(dataset, workers, pinned=pinned))
    try:
        next(stream)
        yield stream, time.perf_counter() - began
    finally:
        shutdown = getattr(stream, "_shutdown_workers", None)
        if shutdown is not None:
            shutdown()  # now, rather than when the garbage is collected


def _alone(stream: Iterator[torch.Tensor], workers: int, pinned: bool, first: float,
           seconds: float) -> LoaderTiming:
    for _ in range(workers * loader.PREFETCH):
        next(stream)  # made while nobody was waiting: they would flatter the rate
    samples: list[float] = []
    ends = time.perf_counter() + seconds
    while len(samples) < 3 or (len(samples) < _MOST and time.perf_counter() < ends):
        before = time.perf_counter()
        next(stream)
        samples.append(time.perf_counter() - before)
    return LoaderTiming(workers=workers, prefetch=loader.PREFETCH if workers else None,
                        pinned=pinned, first_batch_seconds=first, samples=samples,
                        batches_per_second=len(samples) / sum(samples))


def _loop(stream: Iterator[torch.Tensor], dataset: loader.TextBatches, workers: int,
          pinned: bool, train: gpt2_step.TrainingStep, device: torch.device,
          seconds: float) -> LoopTiming:
    """Train on what the loader gives. Warm-up uses up what was made ahead of the clock."""

    def fetch() -> list[gpt2_step.Batch]:
        batch = next(stream).to(device, non_blocking=pinned)
        return [(batch[:, :-1], batch[:, 1:])]

    for _ in range(1 + workers * loader.PREFETCH):
        train(fetch())
    run = _on_cuda if device.type == "cuda" else _on_the_clock
    waits, steps, whole = run(fetch, train, device, seconds)
    tokens_per_batch = dataset.batch * dataset.seq
    return LoopTiming(
        workers=workers, wait_samples=waits, step_samples=steps,
        iteration_seconds=whole / len(steps),
        tokens_per_second=tokens_per_batch * len(steps) / whole,
        idle_share=max(0.0, 1.0 - sum(steps) / whole))


def _on_the_clock(fetch: Fetch, train: gpt2_step.TrainingStep, device: torch.device,
                  seconds: float) -> tuple[list[float], list[float], float]:
    waits: list[float] = []
    steps: list[float] = []
    timing.synchronise(device)
    began = before = time.perf_counter()
    while len(steps) < 3 or (len(steps) < _MOST and before - began < seconds):
        batch = fetch()
        timing.synchronise(device)
        ready = time.perf_counter()
        train(batch)
        timing.synchronise(device)
        after = time.perf_counter()
        waits.append(ready - before)
        steps.append(after - ready)
        before = after
    return waits, steps, before - began


def _on_cuda(fetch: Fetch, train: gpt2_step.TrainingStep, device: torch.device,
             seconds: float) -> tuple[list[float], list[float], float]:
    """Nothing here waits for the GPU until the end, as in training.

    The start event is stamped when the GPU gets to it: at once after the previous step if
    the host is ahead, later if the batch came late. Those delays are the idle time.
    """
    marks: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
    timing.synchronise(device)
    origin_ = torch.cuda.Event(enable_timing=True)
    origin_.record()
    began = time.perf_counter()
    while len(marks) < 3 or (len(marks) < _MOST and time.perf_counter() - began < seconds):
        batch = fetch()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        train(batch)
        end.record()
        marks.append((start, end))
    timing.synchronise(device)
    ends = [origin_, *(end for _, end in marks)]
    waits = [a.elapsed_time(start) / 1e3 for a, (start, _) in zip(ends, marks, strict=False)]
    steps = [start.elapsed_time(end) / 1e3 for start, end in marks]
    return waits, steps, sum(waits) + sum(steps)
