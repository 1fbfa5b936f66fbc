"""Lab 1's measurement: the device's peak, one training step, and a short run of GPT-2."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from ..config import RunConfig
from ..results import DeviceProfile, Result, StepMeasurement, TrainingResult
from .recording import recorded_or

_KINDS: Mapping[str, type[Result]] = {"profile": DeviceProfile, "step": StepMeasurement,
                                      "training": TrainingResult}


@dataclass(frozen=True)
class TrainingRun:
    """What was measured on one device.

    `profile`: what the device sustains; `step`: the time of one training step; `training`:
    a whole run of `training.steps` steps, with its losses and its seconds.
    """

    profile: DeviceProfile
    step: StepMeasurement
    training: TrainingResult

    @property
    def peak(self) -> float:
        """FLOP/s that the MFU divides by."""
        if self.step.peak is not None:
            return self.step.peak.flops_per_second
        return max(rate.flops_per_second for rate in self.profile.matmul.values())

    def __str__(self) -> str:
        step = self.step
        return (f"{step.config['model']} on {step.device}: {step.step_seconds:.4g} s for a step of "
                f"{step.tokens_per_step:,} tokens, {step.tokens_per_second:,.0f} tokens/s; "
                f"{self.training.steps} steps took {self.training.seconds:.1f} s, the loss went "
                f"from {self.training.losses[0][1]:.2f} to {self.training.final_loss:.2f}.")


@dataclass(frozen=True)
class Plan:
    """How much is measured: steps timed, steps trained, seconds of calibration, and the text."""

    config: RunConfig
    timed_steps: int = 8
    steps: int = 60
    seconds: float | None = None
    corpus: str = "standard-library"


def measure_training(recorded: str = "", model: str | None = None) -> TrainingRun:
    """Measure this device with a real GPT-2, or read `recorded` back.

    `model` defaults to gpt2-124m on a CUDA device and nano elsewhere. The learner's cell
    fills itself with the record; see `ironlaw.lab.recording`.
    """
    found = recorded_or(recorded, lambda: measure(model), _KINDS)
    return TrainingRun(**found)


def plan(device_type: str, model: str | None = None) -> Plan:
    """What is measured on a device of this type."""
    if device_type == "cuda":
        return Plan(RunConfig(model=model or "gpt2-124m", batch=4, precision="amp-bf16",
                              optimizer="adamw-fused"), steps=100)
    config = RunConfig(model=model or "nano", batch=8, optimizer="adamw")
    return Plan(config, seconds=8) if device_type == "cpu" else Plan(config, steps=100)


def measure(model: str | None = None, chosen: Plan | None = None) -> dict[str, Result]:
    """Calibrate, time a step and train on this device; `chosen` overrides the usual plan."""
    from ..gpt2.runtime import keep_freed_memory

    keep_freed_memory()  # before torch comes in
    from ..gpt2 import progress
    from ..gpt2.settings import TrainSettings
    from ..measure.calibration import calibrate
    from ..measure.device import find, obstacle
    from ..measure.step import measure_step
    from ..measure.training import train

    here = find()
    todo = chosen or plan(here.type, model)
    config = todo.config
    if config.precision == "amp-bf16" and obstacle(here.torch_device, "bf16"):
        config = config.replace(precision="amp-fp16")  # no BF16 here
    print(f"1 of 3: how fast {here.name} multiplies matrices", flush=True)
    profile = calibrate(here, dtypes=None if here.type == "cuda" else ["fp32"],
                        seconds=todo.seconds)
    print(f"2 of 3: one training step of {config.model}, several times", flush=True)
    step = measure_step(config, steps=todo.timed_steps, warmup=2, profile=profile, device=here)
    print(f"3 of 3: a run of {todo.steps} steps on real text", flush=True)
    with tempfile.TemporaryDirectory(prefix="ironlaw-lab-") as folder:
        settings = TrainSettings(run=config, steps=todo.steps, checkpoint_every=0,
                                 corpus=todo.corpus)
        trained = train(settings, folder, device=here, profile=profile,
                        on_progress=progress.reporter())
    training = dataclasses.replace(trained, checkpoint=None, reasons={
        **trained.reasons, "checkpoint": "The lab keeps the measurement, not the weights."})
    return {"profile": profile, "step": step, "training": training}
