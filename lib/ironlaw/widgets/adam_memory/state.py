"""What fits, what stops it, and what each fix would buy and cost.

Pure functions over `accounting` and `ironlaw.predict`: no drawing, no controls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ... import hardware
from ...errors import choice, count, positive
from ...predict import memory, plan
from ...predict.peak import StepMemory
from ...units import gigabytes, percent, significant
from ..devices import THIS_DEVICE, memory_bytes
from .accounting import PARTS, Step, account, extra_flops, parameters_of, standing_bytes

PRESETS: dict[str, dict[str, Any]] = {
    "GPT-2 XL, FP32": {"model": "1.5B", "precision": "fp32", "batch": 1,
                       "attention": "materialised", "device": "V100 32GB SXM"},
    "GPT-2 XL, batch 4": {"model": "1.5B", "precision": "document", "batch": 4,
                          "attention": "materialised", "device": "V100 32GB SXM"},
    "GPT-2 XL, selective": {"model": "1.5B", "precision": "document", "batch": 4,
                            "attention": "materialised", "recompute": "selective",
                            "device": "V100 32GB SXM"},
    "7B, one sequence": {"model": "7B", "precision": "document", "batch": 1, "seq": 2048,
                         "attention": "materialised", "device": "A100 80GB SXM"},
}
"""The document's own budgets: 24 GB of state; 59.9; 34.7; 112 of state and 30.6 GB beside it."""


@dataclass(frozen=True)
class State:
    """A training step and the device it should fit: its name and its bytes."""

    step: Step
    device: str
    capacity: float

    def __post_init__(self) -> None:
        positive("capacity", self.capacity, unit="bytes")


def state_on(device: str = "T4", **step: Any) -> State:
    """The step with these terms (`accounting.Step`) on a catalogue entry or "this device"."""
    return State(Step(**step), device, memory_bytes(device))


def preset(name: str, **changes: Any) -> State:
    """One of `PRESETS`, with `changes` to its terms."""
    terms = {**PRESETS[choice("preset", name, PRESETS)], **changes}
    return state_on(terms.pop("device"), **terms)


@dataclass(frozen=True)
class Fix:
    """One way to need less: the step it leads to, or None with the reason.

    `saves` is in bytes and may be negative; `extra_flops` is a share of the step's model
    FLOP on top of what is spent now; `cost` says the price in words.
    """

    name: str
    step: Step | None
    memory: StepMemory | None
    saves: float
    extra_flops: float
    cost: str


@dataclass(frozen=True)
class Outcome:
    """What follows. Bytes; `first_over` is the part at which the memory runs out, or None.

    `largest` is the largest micro-batch that fits: 0 for none, None where the batch does
    not count. `curve` holds (batch, peak) pairs around it.
    """

    now: StepMemory
    standing: float
    free: float
    first_over: str | None
    largest: int | None
    extra_flops: float
    fixes: tuple[Fix, ...]
    curve: tuple[tuple[int, float], ...]

    @property
    def longest(self) -> str:
        """The largest part."""
        return max(PARTS, key=lambda part: float(getattr(self.now, part)))


def compute(state: State) -> Outcome:
    """Account for the step, the fixes and the batches around the largest that fits."""
    now = account(state.step)
    largest = largest_batch(state)
    return Outcome(
        now=now, standing=standing_bytes(state.step), free=state.capacity - now.peak,
        first_over=first_over(now, state.capacity), largest=largest,
        extra_flops=extra_flops(state.step), fixes=tuple(_fixes(state, now)),
        curve=tuple(_curve(state, largest)))


def first_over(found: StepMemory, capacity: float) -> str | None:
    """The part at which the stack of `PARTS` passes the capacity, or None if it does not."""
    total = 0.0
    for part in PARTS:
        total += getattr(found, part)
        if total > capacity:
            return part
    return None


def largest_batch(state: State) -> int | None:
    """The largest micro-batch that fits, 0 for none; None where activations are not counted."""
    step = state.step
    if step.printed is None:
        fit = plan.largest_batch(step.config(), state.capacity)
        return fit.config.batch if fit else 0
    if not step.printed.sized:
        return None
    one = account(replace(step, batch=1))
    rest = one.peak - one.activations
    if state.capacity <= rest:
        return 0
    return int(memory.samples_that_fit(state.capacity, rest, one.activations, 1) * (1 + 1e-12))


def _curve(state: State, largest: int | None) -> list[tuple[int, float]]:
    """Peaks at batches up to a round number beyond the largest and the present one."""
    if largest is None:
        return []
    end = batch_end(max(1.6 * largest, 1.2 * state.step.batch))
    batches = {round(1 + (end - 1) * i / 8) for i in range(9)} | {max(1, largest), largest + 1}
    return [(b, account(replace(state.step, batch=b)).peak) for b in sorted(batches)]


def batch_end(batch: float) -> int:
    """The least of 4, 6, 8, 12, 16, 24 ... that is not below `batch`."""
    end = 4
    while end < batch:
        end = end * 3 // 2 if (end & (end - 1)) == 0 else end * 4 // 3
    return end


def _fixes(state: State, now: StepMemory) -> list[Fix]:
    step = state.step
    spent = extra_flops(step)

    def to(name: str, cost: str, **changes: Any) -> Fix:
        changed = replace(step, **changes)
        found, extra = account(changed), extra_flops(changed) - spent
        return Fix(name, changed, found, now.peak - found.peak, extra,
                   cost or f"{percent(extra, 2)} more FLOP")

    def no(name: str, why: str) -> Fix:
        return Fix(name, None, None, 0.0, 0.0, why)

    if step.printed is not None and not step.printed.sized:
        return [no(name, "activations are not counted here")
                for name in ("accumulate", "recompute", "flash", "precision")]
    return [_accumulate(step, to, no), _recompute(step, to, no), _flash(step, to, no),
            _precision(state, to, no)]


def _accumulate(step: Step, to: Any, no: Any) -> Fix:
    if step.batch == 1:
        return no("accumulate", "the micro-batch is one sequence already")
    factor = next(p for p in range(2, step.batch + 1) if step.batch % p == 0)
    passes = step.accumulate * factor
    return to("accumulate", f"no more FLOP; {passes} smaller passes per step instead of "
              f"{step.accumulate}", batch=step.batch // factor, accumulate=passes)


def _recompute(step: Step, to: Any, no: Any) -> Fix:
    if step.recompute == "every-block":
        return no("recompute", "every block is recomputed already")
    return to("recompute", "", recompute="every-block")


def _flash(step: Step, to: Any, no: Any) -> Fix:
    if step.attention == "flash":
        return no("flash", "attention is tiled already")
    return to("flash", "no more model FLOP; the kernel redoes Q Kᵀ on the way back",
              attention="flash")


def _precision(state: State, to: Any, no: Any) -> Fix:
    step = state.step
    if step.printed is not None:
        if step.precision == "document":
            return no("precision", "the recipe is mixed already")
        return to("precision", "no more FLOP; the state stays as large", precision="document")
    if step.precision == "fp32":
        half = "amp-bf16" if has_bf16(state.device) else "amp-fp16"
        return to("precision", f"no more FLOP; {half} rounds more coarsely: check the loss",
                  precision=half)
    if step.precision == "pure-bf16":
        return no("precision", "everything is in 16 bit already")
    if not has_bf16(state.device):
        return no("precision", f"{state.device} has no BF16 arithmetic")
    return to("precision", "no more FLOP; small updates round away in BF16 weights: check the loss",
              precision="pure-bf16")


def has_bf16(device: str) -> bool:
    """Whether the catalogue lists BF16 arithmetic for the device; this device is not judged."""
    return device == THIS_DEVICE or "bf16" in hardware.accelerator(device).dtypes


def describe(state: State, outcome: Outcome) -> str:
    """The whole outcome in a few plain sentences: what a screen reader announces."""
    step, now = state.step, outcome.now
    per = outcome.standing / parameters_of(step)
    words = [
        f"{step.model}, {step.optimizer}, {step.precision}, {count('batch', step.batch):,} × "
        f"{step.seq:,} tokens{f', {step.accumulate} times per step' * (step.accumulate > 1)}: "
        f"{gigabytes(now.peak)} at the fullest moment ({now.moment})."]
    if outcome.first_over is None:
        words.append(f"It fits {state.device} ({gigabytes(state.capacity)}) with "
                     f"{gigabytes(outcome.free)} to spare.")
    else:
        words.append(f"It does not fit {state.device} ({gigabytes(state.capacity)}): "
                     f"{gigabytes(-outcome.free)} too much. Stacked from the weights on, the first "
                     f"thing that no longer fits is the {PARTS[outcome.first_over]}.")
    words.append(f"The largest part is the {PARTS[outcome.longest]} with "
                 f"{gigabytes(getattr(now, outcome.longest))}. State between steps: "
                 f"{gigabytes(outcome.standing)}, {significant(per)} bytes per parameter.")
    if outcome.largest is None:
        words.append("Only its parameters are known, so activations are not counted.")
    elif outcome.largest == 0:
        words.append("Not even one sequence fits.")
    else:
        words.append(f"The largest micro-batch that fits is {outcome.largest:,}.")
    if outcome.extra_flops:
        words.append(f"Recomputation adds {percent(outcome.extra_flops, 2)} FLOP.")
    if step.attention == "flash" and step.recompute == "selective":
        words.append("With tiled attention there is no S × S tensor to recompute selectively.")
    if "bf16" in step.precision and not has_bf16(state.device):
        words.append(f"{state.device} has no BF16 arithmetic: it would emulate it, slowly.")
    return " ".join(words)
