"""What the difference between a predicted and a measured step consists of.

Arithmetic only; the evidence comes from `measure.parts` and `measure.memory` as plain
results. The parts of a row always sum to its `measured - predicted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .config import RunConfig
from .errors import InputError
from .predict import step_time
from .predict.peak import StepMemory
from .predict.step_time import Line
from .results import DeviceProfile, MemoryMeasurement, StepMeasurement
from .results_systems import StepParts
from .units import memory, si

LAUNCH, OPTIMIZER, HEAD, REST = "launch", "optimizer", "loss head", "rest"

# FP32 bytes that an optimizer's pass moves per parameter at the least: weight and
# gradient read, weight written, and each moment read and written.
_OPTIMIZER_BYTES = {"sgd": 12.0, "momentum": 20.0, "rmsprop": 20.0}
_ADAM_BYTES = 28.0
# Clipping reads every gradient for the norm, then reads and writes it once more.
_CLIPPING_BYTES = 12.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One contribution to a residual, in the unit of its row; all parts sum to the residual."""

    name: str
    amount: float
    why: str


def head_flops(config: RunConfig) -> float:
    """Model FLOP of the final projection in one step, forward and backward: 6 d V per token."""
    return 6.0 * config.shape.width * config.shape.vocab * config.tokens_per_step


def above_floor(measured: StepMeasurement, parts: StepParts, floor: float,
                peak: float) -> list[Part]:
    """Split the time above FLOP / peak into the four parts, each as it was measured.

    The floor holds the head's own products, so the loss head counts for what it takes
    beyond them. "rest" is what remains, so that the parts sum to the difference.
    """
    config = RunConfig.from_json(measured.config)
    step = measured.step_seconds
    launch = parts.exposed_launch_seconds(step)
    products = step_time.from_peak(head_flops(config), peak)
    update, head = parts.optimizer.seconds, parts.head.seconds
    return [
        Part(name=LAUNCH, amount=launch, why=_launch_words(parts, launch)),
        Part(name=OPTIMIZER, amount=update,
             why=f"clipping and update, timed alone; {parts.launches['optimizer']:,} launches "
                 "are in it"),
        Part(name=HEAD, amount=head - products,
             why=f"final projection and cross-entropy over {config.shape.vocab:,} tokens of "
                 f"vocabulary, timed alone: {si(head, 's')}, of which {si(products, 's')} are "
                 "products at the peak"),
        Part(name=REST, amount=step - floor - launch - update - (head - products),
             why="the blocks: products below the peak; norms, softmax and GELU wait for memory; "
                 "Python; noise"),
    ]


def off_the_line(measured: StepMeasurement, predicted: float,
                 anchors: tuple[StepMeasurement, StepMeasurement],
                 parts: tuple[StepParts, StepParts, StepParts]) -> list[Part]:
    """Split `measured - predicted` by parts, where a line through `anchors` predicted.

    Each part of the whole step is held against a line through the same part of the two
    anchors (`parts`: of the first, the second, the whole step).
    """
    tokens = [m.tokens_per_step for m in (*anchors, measured)]
    steps = [m.step_seconds for m in (*anchors, measured)]

    def off(values: Sequence[float]) -> float:
        few, more, whole = values
        slope = (more - few) / (tokens[1] - tokens[0])
        return whole - (few + slope * (tokens[2] - tokens[0]))

    found = [
        Part(name=LAUNCH,
             amount=off([p.exposed_launch_seconds(s) for p, s in zip(parts, steps, strict=True)]),
             why="launches x time of one, against the same in the smaller steps"),
        Part(name=OPTIMIZER, amount=off([p.optimizer.seconds for p in parts]),
             why="does not grow with the batch: a difference is noise"),
        Part(name=HEAD, amount=off([p.head.seconds for p in parts]),
             why="against a line through that of the smaller steps"),
    ]
    left = measured.step_seconds - predicted - sum(part.amount for part in found)
    return [*found, Part(name=REST, amount=left,
                         why="the blocks, and costs that do not grow in a straight line; noise")]


def estimated_above_floor(config: RunConfig, measured: StepMeasurement,
                          profile: DeviceProfile | None, line: Line | None,
                          floor: float) -> list[Part]:
    """The split where no part was measured: by the line, and bytes over bandwidth."""
    gap = measured.step_seconds - floor
    if line is None:
        return [Part(name="everything else", amount=gap,
                     why="products below the peak, memory-bound work, launches, optimizer")]
    parts = []
    fixed, bandwidth = line.alpha, profile.copy_bytes_per_second if profile else None
    if bandwidth:
        width = 0.5 if config.precision == "pure-bf16" else 1.0
        moved = width * (_OPTIMIZER_BYTES.get(config.optimizer, _ADAM_BYTES) + _CLIPPING_BYTES)
        update = step_time.optimizer_seconds(measured.parameters, moved, bandwidth)
        update = min(update, fixed)
        parts.append(Part(name="optimizer and clipping, estimated", amount=update,
                          why=f"{moved:g} B per parameter at the calibrated copy bandwidth, "
                              "at most alpha"))
        fixed -= update
    return [
        *parts,
        Part(name="rest of the fixed cost" if bandwidth else "fixed cost, alpha", amount=fixed,
             why="launches, Python, and what else a step pays at any size"),
        Part(name="tokens' work above the floor",
             amount=line.beta * config.tokens_per_step - floor,
             why="products below the peak; norms, softmax, GELU and loss wait for memory"),
        Part(name="not on the line",
             amount=measured.step_seconds - line.seconds(config.tokens_per_step),
             why="noise, caches, and costs that do not grow in a straight line"),
    ]


def of_memory(predicted: StepMemory, measured: MemoryMeasurement) -> list[Part]:
    """Split the difference of the peaks by kind; what an allocator adds is a part of its own."""
    kinds = {kind: size for kind, size in measured.memory_bytes.items() if kind != "peak"}
    gap = measured.peak_bytes - predicted.peak
    if None in kinds.values():
        return [Part(name="all kinds together", amount=gap,
                     why=measured.reasons.get("memory_bytes", "they were not told apart"))]
    forecast = predicted.to_json()
    known = {kind: size for kind, size in kinds.items() if size is not None}
    parts = [Part(name=kind.replace("_", " "), amount=size - forecast[kind],
                  why=f"predicted {memory(forecast[kind])}, measured {memory(size)}")
             for kind, size in known.items()]
    beyond = measured.peak_bytes - sum(known.values())
    if beyond and measured.reserved_bytes is not None:
        parts.append(Part(name="allocator", amount=beyond,
                          why="held beyond the tensors of these kinds: rounding to blocks, "
                              "workspaces of libraries"))
    elif beyond:
        parts.append(Part(name="of no kind", amount=beyond,
                          why="the tracker's peak less the sum of the kinds"))
    return parts


def in_order(anchors: tuple[StepMeasurement, StepMeasurement] | None, measured: StepMeasurement,
             parts: Sequence[StepParts]) -> tuple[StepParts, ...]:
    """`parts` matched to the two anchors and the step, or `InputError` naming what is missing.

    Without anchors the step's own part is enough.
    """
    found = []
    for step in (*(anchors or ()), measured):
        mine = [p for p in parts if p.config == step.config]
        if not mine:
            raise InputError("parts", [p.config for p in parts],
                             f"measured for {step.config['batch']} x {step.config['seq']}, too",
                             "Measure the parts of the same configurations as the steps.")
        found.append(mine[0])
    return tuple(found)


def _launch_words(parts: StepParts, counted: float) -> str:
    number, each = parts.launches["rest"], parts.launch.seconds
    words = f"{number:,} operations of the blocks x {si(each, 's')} for starting one"
    if parts.busy_seconds is not None and counted < number * each:
        words += ("; the GPU was at work meanwhile, so only the stretches in which it was idle "
                  "count")
    if parts.device_type == "mps":
        words += ("; at most, since MPS starts one while it runs another and nothing tells when "
                  "it was idle")
    return words
