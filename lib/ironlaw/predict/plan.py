"""What fits: the largest batch on a device, and the cheapest way to make a batch fit.

Built on `peak.step_memory`, so the numbers are those of the project's GPT-2 in PyTorch
(or the document's with precision 'document'). Taught in chapters 3, 5 and 6.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .. import hardware
from ..config import RunConfig
from ..errors import InputError, choice, count, not_negative, positive
from . import flops, scaling
from .peak import StepMemory, step_memory


@dataclass(frozen=True)
class Fit:
    """A configuration that fits, and the bytes it leaves free."""

    config: RunConfig
    memory: StepMemory
    free_bytes: float


def room(device_bytes: float, reserve_bytes: float = 0.0) -> float:
    """Bytes that a step may use: the device's less a reserve for context and workspaces."""
    whole = positive("device_bytes", device_bytes)
    kept = not_negative("reserve_bytes", reserve_bytes)
    if kept >= whole:
        raise InputError("reserve_bytes", reserve_bytes, f"less than the device's {whole:g} bytes",
                         "Reserve less, or plan for a device with more memory.")
    return whole - kept


def largest_batch(config: RunConfig, device_bytes: float, reserve_bytes: float = 0.0) -> Fit | None:
    """The largest micro-batch of `config` that fits, or None when not even one does.

    Peak memory rises with the batch, so doubling and then halving the gap finds it.
    """
    available = room(device_bytes, reserve_bytes)

    def fits(batch: int) -> bool:
        return step_memory(config.replace(batch=batch)).peak <= available

    if not fits(1):
        return None
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return _fit(config.replace(batch=low), available)


@dataclass(frozen=True)
class Plan:
    """A way to run a whole batch on one device.

    `changes` names what differs from the wish. `extra_flops` is recomputed work over
    model FLOP (0.3 is 30 % more). `same_numbers` is false where a number format
    changes: such a run needs its loss validated.
    """

    config: RunConfig
    memory: StepMemory
    free_bytes: float
    changes: tuple[str, ...]
    extra_flops: float
    same_numbers: bool


PRECISION_STEPS = {"fp32": ("fp32", "amp-bf16", "amp-fp16", "pure-bf16"),
                   "amp-bf16": ("amp-bf16", "pure-bf16"),
                   "amp-fp16": ("amp-fp16", "pure-bf16"), "pure-bf16": ("pure-bf16",),
                   "document": ("document",)}
"""Formats that use less memory than the one asked for, nearest first."""

LOSS_ROWS = 1024
"""Tokens per slice of the loss in a plan: of GPT-2's 50,257 logits each, 206 MB in FP32."""

PRODUCTS = {"fp32": "fp32", "amp-bf16": "bf16", "pure-bf16": "bf16", "amp-fp16": "fp16",
            "document": "fp16"}
"""The format of the matrix products, whose peak counts."""


def formats(asked: str, dtypes: Collection[str] | None = None) -> tuple[str, ...]:
    """The precisions to try for a wish in `asked`: it first, then those that need less memory.

    `dtypes` are the formats in which the device multiplies matrices (as in the catalogue:
    "fp16", "bf16"); a narrower precision that needs another is left out. None means that
    they are not known, and leaves out nothing.
    """
    steps = PRECISION_STEPS[choice("asked", asked, PRECISION_STEPS)]
    return tuple(p for p in steps if p == asked or dtypes is None or PRODUCTS[p] in dtypes)


def plans(
    config: RunConfig,
    device_bytes: float,
    reserve_bytes: float = 0.0,
    *,
    precisions: Sequence[str] | None = None,
) -> list[Plan]:
    """Every sensible way to run `config`'s batch x accumulate samples, the cheapest first.

    Tried: tiled attention, the loss in slices of `LOSS_ROWS` tokens, a fused update, smaller
    micro-batches, recomputation and narrower formats (`precisions`, by default the `formats`
    that the device of `config` has by the catalogue, and all for "this" device: pass those of
    yours). Order: number formats kept before changed, then least recomputed work, then the
    largest micro-batch, then the fewest changes. A plan that another one beats in all of these
    is left out. Empty when nothing fits.
    """
    available = room(device_bytes, reserve_bytes)
    allowed = precisions if precisions is not None else _by_catalogue(config)
    samples = config.batch * config.accumulate
    micro_batches = [b for b in range(config.batch, 0, -1) if samples % b == 0]
    found = []
    for precision, attention, rows, recompute, optimizer in itertools.product(
            allowed, dict.fromkeys((config.attention, "flash")), _slices(config),
            dict.fromkeys((config.recompute, "none", "selective", "sqrt", "every-block")),
            _lighter(config.optimizer)):
        if recompute == "selective" and attention == "flash" and config.recompute != recompute:
            continue
        wish = config.replace(precision=precision, attention=attention, loss_rows=rows,
                              recompute=recompute, optimizer=optimizer)
        batch = _first_that_fits(wish, micro_batches, available)
        if batch is not None:
            found.append(_plan(config, wish.replace(batch=batch, accumulate=samples // batch),
                               available))
    found.sort(key=_cost)
    return [p for i, p in enumerate(found) if not any(_beats(q, p) for q in found[:i])]


def _by_catalogue(config: RunConfig) -> tuple[str, ...]:
    known = None if config.device == "this" else hardware.accelerator(config.device).dtypes
    return formats(config.precision, known)


def _first_that_fits(config: RunConfig, batches: Sequence[int], available: float) -> int | None:
    """The largest of `batches` (falling) whose step fits; their samples are the same."""
    samples = config.batch * config.accumulate

    def fits(batch: int) -> bool:
        one = config.replace(batch=batch, accumulate=samples // batch)
        return step_memory(one).peak <= available

    # Accumulating keeps gradients, so one micro-batch may fit where two halves do not: it is
    # tried on its own. Among the rest, all of which accumulate, peak memory falls with the batch.
    if fits(batches[0]):
        return batches[0]
    low, high = 1, len(batches)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(batches[middle]) else (middle + 1, high)
    return batches[low] if low < len(batches) else None


def _lighter(optimizer: str) -> tuple[str, ...]:
    """The same update rule, and its fused kernels where they save the workspace."""
    return (optimizer, "adamw-fused") if optimizer in ("adamw", "adamw-foreach") else (optimizer,)


def _slices(config: RunConfig) -> tuple[int, ...]:
    """The loss as asked for and, where it was all at once, in slices: the same work."""
    return (config.loss_rows,) if config.loss_rows else (0, LOSS_ROWS)


def _plan(wish: RunConfig, config: RunConfig, available: float) -> Plan:
    shape, batch, seq = config.shape, config.batch, config.sequence
    again = flops.recomputed_per_step(shape, batch, seq, config.recompute, config.attention)
    memory = step_memory(config)
    return Plan(config, memory, available - memory.peak, _changes(wish, config),
                again / flops.per_step(shape, batch, seq), wish.precision == config.precision)


def _changes(wish: RunConfig, config: RunConfig) -> tuple[str, ...]:
    words = []
    for name in ("attention", "loss_rows", "optimizer", "batch", "accumulate", "recompute",
                 "precision"):
        if getattr(wish, name) != getattr(config, name):
            words.append(f"--{name.replace('_', '-')} {getattr(config, name)}")
    return tuple(words)


def _cost(plan: Plan) -> tuple[bool, float, int, int]:
    return (not plan.same_numbers, plan.extra_flops, -plan.config.batch, len(plan.changes))


def _beats(one: Plan, other: Plan) -> bool:
    return all(a <= b for a, b in zip(_cost(one), _cost(other), strict=True))


def cheapest(config: RunConfig, device_bytes: float, reserve_bytes: float = 0.0, *,
             precisions: Sequence[str] | None = None) -> Plan | None:
    """The first of `plans`, or None when this device cannot hold a single sample."""
    found = plans(config, device_bytes, reserve_bytes, precisions=precisions)
    return found[0] if found else None


def workers_to_shard(config: RunConfig, device_bytes: float, reserve_bytes: float = 0.0,
                     most: int = 4096) -> int | None:
    """The fewest devices over which ZeRO-3 makes one sample fit, with every block re-run.

    Sharded: parameters, gradients and moments. Not sharded: activations, logits and
    copies. None when those alone are too much, or more than `most` would be needed.
    """
    least = step_memory(config.replace(batch=1, accumulate=1, recompute="every-block"))
    fixed = least.activations + least.logits + least.cast_copies + least.transient
    available = room(device_bytes, reserve_bytes)
    state = 2 * least.parameters + least.optimizer  # gradients are as wide as parameters
    for workers in range(1, count("most", most) + 1):
        if fixed + state / workers <= available:
            return workers
    return None


def _fit(config: RunConfig, available: float) -> Fit:
    memory = step_memory(config)
    return Fit(config, memory, available - memory.peak)


@dataclass(frozen=True)
class ScaleAdvice:
    """Where to run (table 22), why, and what to try on one device first."""

    where: str
    reasons: tuple[str, ...]
    first_try: tuple[str, ...]


def when_to_scale(
    *,
    state_bytes: float,
    device_bytes: float,
    devices_per_node: int,
    one_device_seconds: float,
    deadline_seconds: float,
    input_rate: float,
    demand_rate: float,
    tried: Sequence[str] = (),
) -> ScaleAdvice:
    """Table 22 from measured limits: the least complex place that meets all of them.

    `state_bytes` is what one copy needs in memory, `one_device_seconds` the whole run
    on one device; rates are samples/s that the input pipeline delivers and that one
    device consumes. `tried` names single-device steps already taken. Perfect scaling
    is assumed, so a node that only just suffices may not.
    """
    state, device = positive("state_bytes", state_bytes), positive("device_bytes", device_bytes)
    node = count("devices_per_node", devices_per_node)
    alone = positive("one_device_seconds", one_device_seconds)
    deadline = positive("deadline_seconds", deadline_seconds)
    starved = positive("input_rate", input_rate) < positive("demand_rate", demand_rate)
    needed = max(-(-state // device), -(-alone // deadline))
    reasons = []
    if state > device:
        reasons.append(f"Memory: the state needs {state / device:.3g} devices.")
    if alone > deadline:
        reasons.append(f"Time: the run takes {alone / deadline:.3g} deadlines on one device.")
    if starved:
        reasons.append(f"Input: it delivers {input_rate / demand_rate:.0%} of what one device "
                       "consumes; more devices would only wait.")
    remedies = {"mixed precision": state > device or alone > deadline,
                "gradient accumulation": state > device, "activation checkpointing": state > device,
                "a faster input pipeline": starved}
    first = tuple(name for name, helps in remedies.items() if helps and name not in tried)
    if starved and needed <= 1:
        where = "parallel input pipeline"
    elif needed <= 1:
        where = "one device"
    else:
        where = "one node" if needed <= node else "several nodes"
    return ScaleAdvice(where, tuple(reasons) or ("One device holds it and is in time.",), first)


def zero_state_bytes(parameters: float, workers: int) -> dict[str, float]:
    """State per worker in bytes for DDP and ZeRO-1, -2, -3, by the document's recipe."""
    return {kind: scaling.data_parallel(parameters, workers, kind).state.total
            for kind in scaling.SHARDINGS}
