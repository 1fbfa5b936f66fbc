"""Which instruments a recording runs, in which order, and at which sizes.

The order is that of the course's need: the device itself, a step, its memory, and then what
a learner is least likely to be able to measure.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

from ..config import RunConfig
from ..errors import UnavailableError
from ..results import DeviceProfile, Result
from ..units import memory as memory_words
from .device import Device
from .record import Instrument

_LARGER = (("gpt2-350m", 8), ("gpt2-774m", 4), ("gpt2-1558m", 4))


def instruments(here: Device, base: RunConfig, folder: Path) -> list[Instrument]:
    """All of them for `here`; `base` is the training step that they share."""
    made: dict[str, DeviceProfile] = {}
    on_gpu = here.type == "cuda"
    fitted = functools.cache(functools.partial(fitting, here))

    def device(here: Device, seconds: float) -> Result:
        from .calibration import calibrate
        made["profile"] = calibrate(here, seconds=min(seconds, 60.0))
        return made["profile"]

    def step(config: RunConfig, *, fastest: bool = False) -> Instrument:
        def make(here: Device, seconds: float) -> Result:
            from .step import measure_step
            return measure_step(fitted(config), steps=30 if on_gpu else 10, warmup=3, device=here,
                                profile=made.get("profile") or recorded_profile(folder),
                                pad_vocab=fastest, compile=fastest)
        if fastest:  # compiling a large model takes its time
            return Instrument(f"step_{config.model}_compiled", 2.0, 60.0, make)
        return Instrument(_named("step", config, base), 1.0, 15.0, make)

    def memory(config: RunConfig) -> Instrument:
        def make(here: Device, seconds: float) -> Result:
            from .memory import measure_memory
            return measure_memory(fitted(config), "device" if on_gpu else "tracker", here)
        return Instrument(_named("memory", config, base), 0.5, 10.0, make)

    def roofline(here: Device, seconds: float) -> Result:
        from .roofline import measure_roofline
        return measure_roofline(here, seconds=min(seconds, 60.0), training=True)

    def pipeline(here: Device, seconds: float) -> Result:
        from .pipeline import measure_pipeline
        return measure_pipeline(fitted(base), device=here, seconds=min(seconds * 0.7, 60.0))

    def workers(here: Device, seconds: float) -> Result:
        from .workers import measure_workers
        return measure_workers(device=here, seconds=min(seconds * 0.5, 15.0))

    def precision(here: Device, seconds: float) -> Result:
        from .precision import measure_precision
        small = base.replace(batch=2, precision="fp32")  # sorting gradients copies them
        return measure_precision(fitted(small), steps=8 if on_gpu else 5, device=here)

    def attention(here: Device, seconds: float) -> Result:
        from .attention import measure_attention
        heads = base.shape.heads
        return measure_attention(heads=heads, head_width=base.shape.width // heads, device=here,
                                 seconds=min(seconds * 0.6, 60.0))

    def recompute(here: Device, seconds: float) -> Result:
        from .recompute import measure_recompute
        # A loss in slices does part of its backward work in the forward pass.
        whole = base.replace(batch=4, attention="materialised", loss_rows=0)
        return measure_recompute(fitted(whole, least=4), device=here,
                                 rounds=10 if on_gpu else 5)

    def scaling(here: Device, seconds: float) -> Result:
        from ._torch import torch
        from .scaling import measure_scaling
        each = RunConfig(batch=2, seq=128)  # with one GPU it runs on the CPU
        if on_gpu and torch.cuda.device_count() > 1:
            without_scaling = "fp32" if base.precision == "amp-fp16" else base.precision
            each = fitted(base.replace(batch=max(1, base.batch // 2), precision=without_scaling))
        return measure_scaling(each, device=here, timeout=math.ceil(max(60.0, 2 * seconds)))

    def parts(here: Device, seconds: float) -> Result:
        from .parts import measure_parts
        return measure_parts([fitted(base)], rounds=10, device=here)[0]

    def trace(here: Device, seconds: float) -> Result:
        from .trace import measure_trace
        return measure_trace(fitted(base), device=here)

    def energy(here: Device, seconds: float) -> Result:
        from .energy import measure_energy
        return measure_energy(fitted(base), seconds=min(seconds, 20.0), device=here)

    def activations(here: Device, seconds: float) -> Result:
        from .activations import measure_activations
        return measure_activations(device=here, seconds=min(seconds, 30.0))

    whole = [
        Instrument("device", 1.5, 10.0, device), step(base), memory(base),
        Instrument("attention", 1.5, 10.0, attention),
        Instrument("precision", 1.5, 30.0, precision),
        Instrument("recompute", 1.5, 30.0, recompute),
        Instrument("pipeline", 1.5, 20.0, pipeline),
        Instrument("workers", 0.5, 10.0, workers),
        Instrument("parts", 0.5, 10.0, parts), Instrument("trace", 0.5, 10.0, trace),
        Instrument("scaling", 1.5, 30.0, scaling),
        Instrument("roofline", 1.5, 10.0, roofline), Instrument("energy", 0.5, 1.0, energy),
        Instrument("activations", 1.0, 10.0, activations),
    ]
    if on_gpu:
        for model, batch in _LARGER:
            larger = base.replace(model=model, batch=batch)
            whole += [step(larger), memory(larger)]
        # In the form that `ironlaw train --compile --pad-vocab` has: on tensor cores it is the
        # one to hold against a data sheet. On a CPU it would need a C++ compiler.
        whole += [step(base, fastest=True), *(
            step(base.replace(model=model, batch=batch), fastest=True)
            for model, batch in _LARGER)]
    else:
        whole.append(memory(RunConfig(model="gpt2-124m", batch=4, precision="amp-bf16")))
    return whole


def fitting(here: Device, config: RunConfig, least: int = 1) -> RunConfig:
    """`config` with its batch halved until a step fits into the GPU's free memory.

    A fifth of that stays free for what tensors are not: context, workspaces, fragments. A
    CPU's configurations are small, and stay. Raises `UnavailableError` below `least` sequences.
    """
    from .device import free_bytes
    from .memory import trace

    free = free_bytes(here) if here.type == "cuda" else None
    if free is None:
        return config
    while trace(config).peak_bytes > 0.8 * free:
        if config.batch // 2 < least:
            raise UnavailableError(
                "Memory for this step", f"{config.model} with {config.batch} x {config.sequence} "
                f"tokens does not fit into {memory_words(free)}.", "Free memory on this device.")
        config = config.replace(batch=config.batch // 2)
    return config


def recorded_profile(folder: Path) -> DeviceProfile | None:
    """The device profile that an earlier run left in `folder`, or None."""
    try:
        return DeviceProfile.from_json((folder / "device.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _named(what: str, config: RunConfig, base: RunConfig) -> str:
    return what if config.model == base.model else f"{what}_{config.model}"
