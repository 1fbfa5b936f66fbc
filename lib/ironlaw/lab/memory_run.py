"""Lab 2's measurement: a step of GPT-2 accounted to the byte, and the batch that fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..config import RunConfig
from ..results import MemoryMeasurement, MemorySweep, Result
from ..units import gigabytes
from .recording import recorded_or
from .student import Student
from .table import Residuals

_KINDS: Mapping[str, type[Result]] = {"flash": MemoryMeasurement,
                                      "materialised": MemoryMeasurement, "sweep": MemorySweep}
CPU_LIMIT = 1e9
"""Bytes that the sweep may fill where there is no GPU: a small machine's share."""


@dataclass(frozen=True)
class MemoryRun:
    """What was measured of one model.

    `flash` and `materialised` are the same step with the two forms of attention; `sweep`
    looks for the largest batch (tiled attention) within `sweep.limit_bytes`.
    """

    flash: MemoryMeasurement
    materialised: MemoryMeasurement
    sweep: MemorySweep

    @property
    def peak_bytes(self) -> int:
        """The peak of the step with tiled attention as PyTorch allocates it, no rounding."""
        if self.flash.tracker_peak_bytes is not None:
            return self.flash.tracker_peak_bytes
        return self.flash.peak_bytes

    def compare(self, parameter_count: Callable[..., float],
                state_bytes: Callable[..., Mapping[str, float]],
                block_bytes: Callable[..., float], step_bytes: Callable[..., float],
                largest_batch: Callable[..., float], *, predicted_peak: float,
                guess: float | None = None) -> Residuals:
        """The learner's account, by the five functions of the lab, beside what PyTorch counted.

        `predicted_peak` and `guess` are bytes at the fullest moment with tiled attention.
        """
        step, config = self.flash, RunConfig.from_json(self.flash.config)
        shape = config.shape
        sizes = (shape.layers, shape.width, shape.heads, shape.vocab, shape.context)
        count = parameter_count(shape.layers, shape.width, shape.vocab, shape.context)
        state = state_bytes(count, "autocast")
        table = Residuals().add("parameters", "", predicted=count, measured=step.parameters)
        for name, found in (("weights", step.parameter_bytes), ("gradients", step.gradient_bytes),
                            ("moments", step.optimizer_bytes)):
            table.add(name, "B", predicted=state[name], measured=found)
        for name, run in (("tiled", self.flash), ("materialised", self.materialised)):
            table.add(f"kept by one block, {name}", "B", measured=run.saved_bytes_per_block,
                      predicted=block_bytes(config.batch, config.sequence, shape.width,
                                            shape.heads, name))
        table.add("peak, tiled", "B", guess=guess, predicted=predicted_peak,
                  measured=self.peak_bytes)
        table.add("peak, materialised", "B", measured=self.materialised.peak_bytes,
                  predicted=step_bytes(*sizes, config.batch, config.sequence, "materialised"))
        table.add("largest batch within the limit", "", measured=self.sweep.largest_batch,
                  predicted=largest_batch(self.sweep.limit_bytes, *sizes, config.sequence))
        if step.reserved_bytes is not None and step.context_bytes is not None:  # a GPU was asked
            table.add("peak by its allocator", "B", predicted=self.peak_bytes,
                      measured=step.peak_bytes)
            table.add("all that it holds", "B", predicted=self.peak_bytes,
                      measured=step.reserved_bytes + step.context_bytes)
        return table

    def __str__(self) -> str:
        config = RunConfig.from_json(self.flash.config)
        step = f"{config.batch} x {config.sequence} tokens"
        lines = [f"{config.model}, {step}, {config.precision}: the peak is "
                 f"{gigabytes(self.peak_bytes, 4)}, reached in the {self.flash.moment} pass.",
                 f"With the scores in memory: {gigabytes(self.materialised.peak_bytes, 4)}.",
                 f"Within {gigabytes(self.sweep.limit_bytes, 4)} the largest batch is "
                 f"{self.sweep.largest_batch}."]
        if self.flash.context_bytes is not None and self.flash.reserved_bytes is not None:
            lines.append(f"{self.flash.device} counted {gigabytes(self.flash.peak_bytes, 4)}, "
                         f"reserved {gigabytes(self.flash.reserved_bytes, 4)}, and holds "
                         f"{gigabytes(self.flash.context_bytes, 4)} besides.")
        return "\n".join(lines)


def measure_memory(recorded: str = "", model: str | None = None) -> MemoryRun:
    """Account for a step of a real GPT-2, or read `recorded` back.

    `model` defaults to gpt2-124m on a CUDA device and nano elsewhere. Without a GPU
    nothing is computed: PyTorch's tracker follows the step on tensors without contents.
    """
    found = recorded_or(recorded, lambda: _measure(model), _KINDS)
    return MemoryRun(**found)


def consistent(student: Student) -> None:
    """A check for the lab: `measured` is a record of memory whose parts add up."""
    run = student.record("measured", "MemoryRun")
    kinds = ("parameters", "gradients", "optimizer", "cast_copies", "activations", "logits",
             "transient")
    for step in (run.flash, run.materialised):
        peak = student.number("the measured peak", step.memory_bytes["peak"], low=1)
        if step.backend == "tracker" and step.memory_bytes["logits"] is not None:
            parts = sum(student.number(kind, step.memory_bytes[kind], low=0) for kind in kinds)
            student.close("the sum of the parts", parts, peak, rtol=2e-3)
        listed = sum(student.number("a saved tensor", t.bytes, low=1) for t in step.saved_tensors)
        student.close("the sum of the tensors that a block keeps", listed,
                      step.saved_bytes_per_block, rtol=1e-6)
    student.require(run.materialised.saved_bytes_per_block > run.flash.saved_bytes_per_block,
                    "Materialised attention should keep more than tiled attention.")


def configuration(device_type: str, model: str | None = None) -> RunConfig:
    """The step that is accounted for on a device of this type."""
    small = device_type != "cuda"
    return RunConfig(model=model or ("nano" if small else "gpt2-124m"), batch=8 if small else 4,
                     precision="amp-bf16")


def _measure(model: str | None) -> dict[str, Result]:
    from ..gpt2.runtime import prepare

    prepare()  # before torch comes in
    from ..measure import memory
    from ..measure.device import find, obstacle

    here = find()
    config = configuration(here.type, model)
    if obstacle(here.torch_device, "bf16"):
        config = config.replace(precision="amp-fp16")  # the reason is not empty: no BF16 here
    print(f"1 of 3: one step of {config.model}, tiled attention", flush=True)
    flash = (memory.on_device(config, here) if here.type == "cuda" else memory.trace(config))
    print("2 of 3: the same with the scores in memory", flush=True)
    materialised = memory.trace(config.replace(attention="materialised"))
    limit = CPU_LIMIT
    if here.type == "cuda" and here.memory_bytes:
        limit = 0.9 * here.memory_bytes  # the rest is for context, libraries, fragmentation
    print(f"3 of 3: the largest batch within {gigabytes(limit)}", flush=True)
    return {"flash": flash, "materialised": materialised, "sweep": memory.sweep(config, limit)}
