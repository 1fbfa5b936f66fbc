"""How long one training step of GPT-2 takes on this device, and its MFU.

The step is the trainer's own (`ironlaw.gpt2.step`), on random tokens: time depends on
shapes, not on the text. Warm-up steps are dropped. Each remaining step is one sample;
the median is reported with the interquartile range beside it.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
from collections.abc import Callable, Iterator, Sequence

from ..config import RunConfig
from ..errors import InputError, count
from ..gpt2 import random_state
from ..gpt2 import step as gpt2_step
from ..results import DeviceProfile, Peak, StepMeasurement
from ..units import duration
from . import flops, host, matmul, timing
from ._torch import torch
from .device import Device, find
from .origin import software


def measure_step(
    config: RunConfig,
    *,
    steps: int = 20,
    warmup: int = 3,
    profile: DeviceProfile | None = None,
    device: str | Device | None = None,
    seed: int = 0,
    pad_vocab: bool = False,
    compile: bool = False,
) -> StepMeasurement:
    """Time `steps` optimizer steps of `config` after `warmup` unmeasured ones.

    `device` as in `device.find`. The MFU divides by the data sheet's dense peak where
    the catalogue knows the device, else by the calibrated peak in `profile`, else it
    is None with the reason. The global random state is left as it was. `pad_vocab` and
    `compile` as in `gpt2.step.build`: they change how a step is computed and not the model
    FLOPs that its MFU counts; a note says what they came to.
    """
    return measure_steps([config], steps=steps, warmup=warmup, profile=profile, device=device,
                         seed=seed, pad_vocab=pad_vocab, compile=compile)[0]


def measure_steps(
    configs: Sequence[RunConfig],
    *,
    steps: int = 20,
    warmup: int = 3,
    profile: DeviceProfile | None = None,
    device: str | Device | None = None,
    seed: int = 0,
    pad_vocab: bool = False,
    compile: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> list[StepMeasurement]:
    """Time several batches of one model, taking turns: one step of each, then again.

    What slows the machine for a while then slows all of them alike, and their ratios
    hold. The configurations may differ only in `batch` and `seq`; `progress` hears after
    the warm-up how long the rest will take; else as `measure_step`.
    """
    count("number of configurations", len(configs))
    count("steps", steps)
    count("warmup", warmup, low=0)
    for other in configs[1:]:
        if other.replace(batch=1, seq=1) != configs[0].replace(batch=1, seq=1):
            raise InputError("configs", other.to_json(), "equal to the first but for batch and seq",
                             "Measure other settings in a call of their own.")
    here = find(device)
    work = [flops.count(config) for config in configs]
    target = here.torch_device
    share = timing.processor_share()
    with timing.on(target), matmul.exact_float32_products(target) as mode:
        samples, parameters, form = _timed(configs, target, steps, warmup, seed, progress,
                                           pad_vocab=pad_vocab, compile=compile)
        _release(target)
        dtypes = dtypes_used(configs[0].precision, target)
    peak, no_peak = peak_for(here, profile, dtypes)
    share = min(share, timing.processor_share())  # others may come or go during the steps
    notes = {
        **host.circumstances(here.threads, share),
        "timing": f"{steps} steps after {warmup} of warm-up on {here.type}, {here.threads} CPU "
                  "threads" + (", stamped by the GPU." if here.type == "cuda" else
                               ", the device idle at both ends of each."),
        "dtype": f"Matrix products in {dtypes[0]}, float32 precision {mode!r}.",
        **form,
    }
    return [_measurement(config, here, flop, taken, parameters, peak, no_peak, notes)
            for config, flop, taken in zip(configs, work, samples, strict=True)]


def dtypes_used(precision: str, device: torch.device) -> tuple[str, ...]:
    """Formats in which products of a step may run, the main one first.

    A step in mixed precision still has FP32 products, and "FP32" ones run in TF32 (or
    BF16) when PyTorch's float32 precision allows it: found out by a probe. A fair
    ceiling is the fastest format in this list.
    """
    rounded = "tf32" if device.type == "cuda" else "bf16"
    full = "fp32" if matmul.float32_is_exact(device) else rounded
    main = {"amp-bf16": "bf16", "pure-bf16": "bf16", "amp-fp16": "fp16"}.get(precision, full)
    return tuple(dict.fromkeys((main, full, "fp32")))


def peak_for(
    here: Device, profile: DeviceProfile | None, dtypes: tuple[str, ...]
) -> tuple[Peak | None, str]:
    """The peak that an MFU on `here` divides by, or None and the reason.

    Data sheets come first, so that an MFU compares with published ones; `dtypes[0]`
    must be known, and the fastest of the others raises the ceiling, never lowers it.
    """
    entry = here.catalogue
    if entry is not None and dtypes[0] in entry.dtypes:
        dtype = max((d for d in dtypes if d in entry.dtypes), key=entry.peak)
        return Peak(flops_per_second=entry.peak(dtype),
                    source=f"{entry.name} data sheet: {dtype}, dense"), ""
    if profile is None:
        return None, "There is no peak to divide by. Run `ironlaw calibrate` first."
    if (profile.name, profile.device_type) != (here.name, here.type):
        return None, (f"The profile was measured on {profile.name} ({profile.device_type}), this "
                      f"is {here.name} ({here.type}). Run `ironlaw calibrate` here.")
    if here.type == "cpu" and here.threads > profile.threads:
        return None, (f"The profile was measured with {profile.threads} threads, this step used "
                      f"{here.threads}. Run `ironlaw calibrate` with as many.")
    if dtypes[0] not in profile.matmul:
        why = profile.reasons.get(f"matmul.{dtypes[0]}", "it was not measured.")
        return None, f"The profile holds no {dtypes[0]} peak: {why} Run `ironlaw calibrate` again."
    peaks = [profile.peak(d) for d in dtypes if d in profile.matmul]
    return max(peaks, key=lambda p: p.flops_per_second), ""


def share_of_peak(flops_per_second: float, peak: Peak | None,
                  reason: str = "") -> tuple[float | None, str]:
    """The MFU of a rate of model FLOP/s, or None and the reason (`reason` without a peak).

    More than the peak is not a result but a sign that the peak is wrong, and is refused.
    """
    if peak is None:
        return None, reason
    share = flops_per_second / peak.flops_per_second
    if share > 1.0:
        return None, (f"{share:.2f} of {peak.source} is impossible: that peak was measured on a "
                      "busier machine or under other settings. Run `ironlaw calibrate` again.")
    return share, ""


def _measurement(config: RunConfig, here: Device, work: flops.StepFlops, samples: list[float],
                 parameters: int, peak: Peak | None, no_peak: str,
                 notes: dict[str, str]) -> StepMeasurement:
    took = timing.spread(samples)
    mfu, reason = share_of_peak(work.model / took.median, peak, no_peak)
    return StepMeasurement(
        config=config.to_json(), device=here.name, parameters=parameters,
        tokens_per_step=work.tokens, flops_per_token=work.per_token,
        flops_per_step=float(work.model), hardware_flops_per_step=float(work.hardware),
        step_seconds=took.median, spread_seconds=took.interquartile, samples=samples,
        tokens_per_second=work.tokens / took.median, peak=peak, mfu=mfu, **software(here),
        reasons={"mfu": reason} if reason else {}, notes=dict(notes))


def _timed(configs: Sequence[RunConfig], device: torch.device, steps: int, warmup: int,
           seed: int, progress: Callable[[str], None], *, pad_vocab: bool,
           compile: bool) -> tuple[list[list[float]], int, dict[str, str]]:
    """Seconds of each measured step per configuration, the parameters trained, and the form."""
    with own_random_state(device):
        torch.manual_seed(seed)
        train = gpt2_step.build(configs[0], device, pad_vocab=pad_vocab, compile=compile)
        batches = [gpt2_step.random_batches(config, device, seed) for config in configs]

        def one(turn: int) -> None:
            train(batches[turn % len(batches)])

        def all_in_turn() -> None:
            for turn in range(len(batches)):
                one(turn)

        for left in reversed(range(warmup)):
            took = timing.seconds_per_call(all_in_turn, device)
            if left == 0:
                progress(f"warmed up; {steps} steps of each take about {duration(steps * took)}")
        clock = _stamped_by_the_gpu if device.type == "cuda" else _by_the_wall_clock
        samples = clock(one, device, steps * len(configs))
        parameters = sum(p.numel() for p in train.model.parameters())
        form: dict[str, str] = {}
        if pad_vocab:
            vocab, table = configs[0].shape.vocab, train.model.token_embedding.weight
            parameters -= (len(table) - vocab) * table.shape[1]
            form["pad_vocab"] = (f"The vocabulary of {vocab} has {len(table)} rows; parameters "
                                 "and FLOPs are the model's own.")
        if compile:  # known only now: compiling may fail at the first step
            form["compile"] = ("Forward and backward passes are compiled." if train.compiled
                               else f"Not compiled: {train.not_compiled.rstrip('.')}.")
    return [samples[first::len(configs)] for first in range(len(configs))], parameters, form


@contextlib.contextmanager
def own_random_state(device: torch.device) -> Iterator[None]:
    """Random numbers drawn inside leave those outside as they were."""
    before = random_state.get(device)
    try:
        yield
    finally:
        random_state.restore(device, before)


def _release(device: torch.device) -> None:
    """Give the step's memory back: the next measurement may need all of it."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def _stamped_by_the_gpu(call: Callable[[int], None], device: torch.device,
                        steps: int) -> list[float]:
    """Events between steps, one wait at the end: the queue stays full, as in training."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    timing.synchronise(device)
    events[0].record()
    for turn, event in enumerate(events[1:]):
        call(turn)
        event.record()
    events[-1].synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(events)]


def _by_the_wall_clock(call: Callable[[int], None], device: torch.device,
                       steps: int) -> list[float]:
    samples = []
    timing.synchronise(device)
    for turn in range(steps):
        began = time.perf_counter()
        call(turn)
        timing.synchronise(device)
        samples.append(time.perf_counter() - began)
    return samples
