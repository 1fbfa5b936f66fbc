"""Still figures of chapter 2: what Adam keeps, the ladder of activations, functions timed.

`figures` gives these names out again, so that chapters import one module.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from math import prod

from .. import hardware, transformer
from ..errors import choice, count, positive
from ..predict import activations, memory
from ..results import ActivationTimings
from ..units import GB, MB, counted, gigabytes, significant
from .canvas import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    Canvas,
    Still,
    styled,
)
from .drawing import HALO, log_axis, no_marks, round_up

_RECORDING = "activations.json"


def adam_state(parameters: float = 1.5e9, device: str = "V100 32GB SXM") -> Still:
    """What training with Adam keeps for `parameters` parameters, FP32 above mixed precision.

    Weights, gradients and moments stand as 1 : 1 : 2 in FP32; the mixed recipe of
    2 + 2 + 4 + 8 bytes needs as much. `device` (catalogue name) gives the dashed line.
    """
    capacity = hardware.accelerator(device).value("memory")
    recipes = (("FP32", memory.training_state(positive("parameters", parameters), weight_bytes=4,
                                              gradient_bytes=4, master_bytes=0)),
               ("mixed", memory.training_state(parameters)))
    canvas = Canvas(680, 200)
    axes = canvas.axes((0.09, 0.27, 0.88, 0.58))
    with styled():
        for row, (_, state) in enumerate(recipes):
            left = 0.0
            for name, size, colour in (
                    ("weights", state.weights, BLUE), ("gradients", state.gradients, ORANGE),
                    ("FP32 copy", state.master, GREEN), ("Adam's moments", state.moments, PURPLE)):
                if not size:
                    continue
                axes.barh(row, size / GB, left=left / GB, height=0.68, color=colour,
                          edgecolor="white", zorder=3)
                axes.text((left + size / 2) / GB, row, f"{name}\n{significant(size / GB)} GB",
                          color="white", ha="center", va="center", fontsize=8, zorder=4)
                left += size
        total = max(state.total for _, state in recipes)
        end = 1.08 * max(total, capacity if capacity < 2 * total else 0.0)
        axes.set_xlim(0, end / GB)
        axes.set_ylim(1.5, -0.5)
        axes.set_yticks([0, 1], [name for name, _ in recipes])
        no_marks(axes, "y")
        if capacity < end:
            axes.axvline(capacity / GB, color=INK, lw=1.5, ls=(0, (4, 3)), zorder=5)
            axes.text(0.992 * capacity / GB, 0.5, f"{device.split()[0]}\n{gigabytes(capacity)}",
                      ha="right", va="center", zorder=6, bbox=HALO)
        axes.set_xlabel("gigabytes (10⁹ bytes), without activations")
        axes.set_title(f"What Adam keeps for {significant(parameters / 1e9, 2)} billion parameters")
    full, mixed = (state for _, state in recipes)
    caption = (
        f"In FP32: weights {gigabytes(full.weights)}, gradients {gigabytes(full.gradients)}, "
        f"moments {gigabytes(full.moments)}; together {gigabytes(full.total)}, "
        f"{significant(full.total / full.weights)} times the weights. Mixed precision keeps "
        f"{gigabytes(mixed.weights)} of weights and {gigabytes(mixed.gradients)} of gradients in "
        f"16 bit, but also an FP32 copy of {gigabytes(mixed.master)}: "
        f"{gigabytes(mixed.total)} again. Activations come on top.")
    return Still(canvas, f"Two stacked bars. {caption}", caption)


def activation_ladder(sizes: Sequence[int] = (784, 128, 64, 10), batch: int = 4) -> Still:
    """Activations of a small digit classifier, a V100's memory, and those of GPT-2 XL.

    `sizes` are the classifier's layer sizes, input first; one digit passes in FP32, and
    each layer keeps its pre-activations and its outputs. GPT-2 XL takes `batch` sequences
    of 1,024 tokens in 16 bit, by the document's formula.
    """
    layers = [count(f"sizes[{i}]", size) for i, size in enumerate(sizes)]
    outputs = [4.0 * size for _, size in pairwise(layers)]
    digits = activations.per_batch_bytes(1, outputs, outputs)
    xl = transformer.model("gpt2-1558m")
    text = activations.document_bytes(xl.layers, batch, xl.context, xl.width, xl.heads)
    v100 = hardware.accelerator("V100 32GB SXM")
    capacity = v100.value("memory")
    net = "-".join(map(str, layers))
    rungs = ((f"digit network {net}\none digit, FP32", digits, BLUE),
             (f"{v100.name}: all of its memory", capacity, MUTED),
             (f"GPT-2 XL, {batch} × {xl.context:,} tokens\n16 bit", text, ORANGE))
    canvas = Canvas(680, 230)
    axes = canvas.axes((0.30, 0.21, 0.66, 0.68))
    low, high = 100.0, 1e13
    with styled():
        log_axis(axes.xaxis)
        axes.set_xlim(low, high)
        axes.set_ylim(2.6, -0.6)
        axes.axvline(capacity, color=MUTED, lw=1.2, ls=(0, (4, 3)), zorder=2)
        for row, (_, size, colour) in enumerate(rungs):
            axes.plot([low, size], [row, row], color=colour, lw=3, zorder=3)
            axes.plot([size], [row], "o", color=colour, ms=10, mec="white", zorder=4)
            axes.text(size * 2, row, gigabytes(size), va="center", weight="bold", zorder=5,
                      bbox=HALO)
        axes.set_yticks(range(3), [name for name, _, _ in rungs])
        no_marks(axes, "y")
        axes.set_xticks([10.0**k for k in range(3, 13, 3)], ["1 kB", "1 MB", "1 GB", "1 TB"])
        axes.set_xlabel("bytes, logarithmic")
        axes.set_title("Activations kept for the backward pass")
    over = "more" if text > capacity else "less"
    caption = (
        f"A network with layers of {net} units keeps {gigabytes(digits)} for one digit. GPT-2 XL "
        f"keeps {gigabytes(text)} for {counted(batch, 'sequence')}, {over} than the "
        f"{gigabytes(capacity)} that a V100 has for everything: {text / digits / 1e6:,.0f} million "
        "times as much as the digit. The axis is logarithmic: each labelled step is a factor of "
        "a thousand.")
    return Still(canvas, f"Three values on a logarithmic axis of bytes. {caption}", caption)


def recordings() -> list[str]:
    """The names of the recordings of activation functions that come with the course."""
    folder = resources.files("ironlaw").joinpath("recordings")
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir()
                  if entry.is_dir() and entry.joinpath(_RECORDING).is_file())


@cache
def recorded(name: str) -> ActivationTimings:
    """The recording called `name`, or `InputError` listing those that exist."""
    folder = resources.files("ironlaw").joinpath("recordings", choice("recording", name,
                                                                      recordings()))
    return ActivationTimings.from_json(json.loads(folder.joinpath(_RECORDING).read_text("utf-8")))


def activation_timings(recording: str = "cpu_2core") -> Still:
    """Activation functions as measured on one device, as bars from zero beside a plain copy.

    `recording` names one that comes with the course (`recordings`). Bars are medians; the
    thin line leads from the fastest call to the upper quartile. Where other programs ran,
    the words compare the fastest calls, which met them least.
    """
    run = recorded(recording)
    busy = "busy" in run.notes
    fastest = {name: min(times) for name, times in run.samples.items()}
    names = [name for name in run.medians if name != "copy"]
    upper = {name: run.medians[name] + run.spreads[name] / 2 for name in run.medians}
    canvas = Canvas(680, 280)
    axes = canvas.axes((0.17, 0.175, 0.80, 0.72))
    with styled():
        for row, name in enumerate(names):
            axes.barh(row, 1e3 * run.medians[name], height=0.62, color=BLUE, zorder=3)
            axes.plot([1e3 * fastest[name], 1e3 * upper[name]], [row, row], color=INK, lw=1.4,
                      marker="|", ms=8, zorder=4)
            axes.text(1e3 * upper[name], row, f"  {significant(1e3 * run.medians[name])} ms",
                      va="center", zorder=5)
        copy = 1e3 * run.medians["copy"]
        axes.axvline(copy, color=ORANGE, lw=2, ls=(0, (4, 2)), zorder=3.5)
        axes.text(copy, -0.62, f" plain copy, {significant(copy)} ms", color=ORANGE, va="bottom",
                  zorder=5)
        axes.set_xlim(0, round_up(1.15e3 * max(upper.values())))
        axes.set_ylim(len(names) - 0.5, -1.1)
        axes.set_yticks(range(len(names)), names)
        no_marks(axes, "y")
        axes.set_xlabel("milliseconds per call, forward only (bar: median; line: fastest call to "
                        "upper quartile)")
        axes.set_title(f"Activation functions on their own: {run.device}, {run.dtype.upper()}")
    compared = fastest if busy else run.medians
    ratios = {name: compared[name] / compared["copy"] for name in names}
    most, least = (pick(names, key=ratios.__getitem__) for pick in (max, min))
    threads = f"{run.threads} thread{'s' if run.threads > 1 else ''}, " \
        if run.device_type == "cpu" else ""
    values = prod(run.shape)
    caption = (
        f"Measured on {run.device} ({threads}PyTorch {run.versions.get('torch', '?')}, "
        f"{run.measured_on[:10]}) on a tensor of {' × '.join(f'{n:,}' for n in run.shape)} in "
        f"{run.dtype.upper()}, {significant(values / 1e6)} million values, "
        f"{significant(_megabytes(run, values))} MB; each function is an operation of its own that "
        "reads the tensor and writes another. "
        + ("Other programs ran at the same time, so the fastest calls tell more than the medians: "
           "by them " if busy else "By the medians ")
        + f"{least} takes {significant(ratios[least], 2)} times as long as copying the tensor, "
          f"and “{most}” {significant(ratios[most], 2)} times.")
    bars = ", ".join(f"{name} {significant(1e3 * run.medians[name])} ms" for name in names)
    return Still(canvas, f"Bars from zero: {bars}; a plain copy {significant(copy)} ms.", caption)


def _megabytes(run: ActivationTimings, values: int) -> float:
    return values * (4.0 if run.dtype == "fp32" else 2.0) / MB
