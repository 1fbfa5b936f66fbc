"""Refuse a step that cannot fit before any of it is built.

A CPU without memory left does not raise an error: the system ends the program without a
word. So the predicted peak is held against the memory that is free, and what is refused
comes with the plan that fits.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..config import RunConfig
from ..errors import InputError, UnavailableError
from ..predict import peak, plan
from ..transformer import MODELS
from ..units import gigabytes, memory
from . import _formats

if TYPE_CHECKING:
    from ..measure.device import Device

MARGINS = {"cpu": 0.2}
MARGIN = 0.1
"""Share of the free memory that plans leave free, and within which there is a warning.

The prediction counts tensors alone, so a step needs at least that much: only what is
above all of the free memory is refused, and nothing that fits. Fragments and the
libraries' own memory come on top, for which the margin is: on CPUs, steps of GPT-2 124M
took 13 to 18 % more than their tensors.
"""

# Only accelerators run the multi-tensor kernels whose workspace `step_memory` counts for
# these rules. The rule that stands in has as much state and no workspace.
_ON_A_CPU = {"adam": "adamw-fused", "adamw": "adamw-fused", "rmsprop": "momentum"}


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--force` to a command that runs real steps."""
    parser.add_argument("--force", action="store_true",
                        help="go on although the step is predicted not to fit in memory")


def check(
    config: RunConfig,
    device_type: str,
    free_bytes: float | None,
    *,
    force: bool = False,
    resumed: bool = False,
    catalogue_name: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Raise `UnavailableError` when a step of `config` needs more than `free_bytes`.

    Memory that is unknown (None) refuses nothing. With `force` the refusal becomes a
    line to `say`. A `resumed` run cannot change its settings, so it gets no plan.
    `catalogue_name` is the device's entry, whose number formats a plan then keeps to.
    """
    if free_bytes is None or config.precision == "document":
        return
    needed = peak.step_memory(_as_here(config, device_type)).peak
    margin = MARGINS.get(device_type, MARGIN)
    if needed <= (1 - margin) * free_bytes:
        return
    where = "this machine" if device_type == "cpu" else "the device"
    words = (f"{config.model} with {config.batch} x {config.sequence} tokens in "
             f"{config.precision}, {config.attention} attention, needs about "
             f"{memory(needed)} at its fullest moment, and {where} has "
             f"{memory(free_bytes)} free.")
    if force or needed <= free_bytes:
        say(f"Memory is {'tight' if needed <= free_bytes else 'short'}: {words}")
        return
    advice = ("A resumed run keeps its settings: free some memory, or start a new run."
              if resumed else _advice(config.replace(device=catalogue_name or "this"), free_bytes,
                              margin * free_bytes))
    raise UnavailableError("Memory for this step", words, f"{advice} Or try with --force.")


def _as_here(config: RunConfig, device_type: str) -> RunConfig:
    if device_type != "cpu":
        return config
    return config.replace(optimizer=_ON_A_CPU.get(config.optimizer, config.optimizer))


@contextlib.contextmanager
def memory_errors(config: RunConfig, here: Device, free_bytes: float | None, *,
                  resumed: bool = False) -> Iterator[None]:
    """Run steps of `config` inside: out of memory, in any form, ends with a plan that fits.

    `free_bytes` is what was free on `here` before, and is told where the device itself does
    not say what there was.
    """
    from ..gpt2 import out_of_memory

    try:
        with out_of_memory.memory_errors(config, here.torch_device):
            yield
    except out_of_memory.OutOfMemoryError as problem:
        there = problem.there if problem.there is not None else free_bytes
        raise problem.advised(after_running_out(
            config, here.type, there, resumed=resumed, catalogue_name=here.catalogue_name),
            there) from problem


def after_running_out(config: RunConfig, device_type: str, there: float | None, *,
                      resumed: bool = False, catalogue_name: str | None = None) -> str:
    """Advice for a step that ran out of memory although it was predicted to fit.

    Its own prediction was too low here by fragments and by what libraries take, so the
    plan has to need a fifth less than it, whatever was free.
    """
    if resumed:
        return "A resumed run keeps its settings: free some memory, or start a new run."
    room = 0.8 * peak.step_memory(_as_here(config, device_type)).peak
    if there is not None:
        room = min(room, (1 - MARGINS.get(device_type, MARGIN)) * there)
    return _advice(config.replace(device=catalogue_name or "this"), room, 0.0)


def _advice(config: RunConfig, free_bytes: float, reserve_bytes: float) -> str:
    """The cheapest plan for the same samples, else the largest preset that has one."""
    found = _plan(config, free_bytes, reserve_bytes)
    if found is not None:
        return f"This fits: {_words(found)}."
    smaller = sorted((m for m in MODELS if MODELS[m].parameters < config.shape.parameters),
                     key=lambda m: MODELS[m].parameters, reverse=True)
    for name in smaller:
        seq = config.seq and min(config.seq, MODELS[name].context)
        own = config.replace(model=name, seq=seq, layers=None, width=None, heads=None, vocab=None)
        found = _plan(own, free_bytes, reserve_bytes)
        if found is not None:
            return ("No setting makes this model fit here. The largest preset that does: "
                    f"--model {name}{' ' * bool(found.changes)}{_words(found)}.")
    return "Not even the smallest preset fits: close other programs first."


def _plan(config: RunConfig, free_bytes: float, reserve_bytes: float) -> plan.Plan | None:
    precisions = plan.formats(config.precision, _formats.known(config.device))
    try:
        return plan.cheapest(config, free_bytes, reserve_bytes, precisions=precisions)
    except InputError:  # nothing is free at all
        return None


def _words(found: plan.Plan) -> str:
    size = f"about {gigabytes(found.memory.peak, 4)}"
    note = "" if found.same_numbers else "; another number format, so check the loss"
    return f"{' '.join(found.changes)} ({size}{note})".strip()
