"""How a step is computed where the learner does not choose: one rule for all commands.

Attention and loss have two ways each that compute the same. Which one is quick, and which
one a step of the device would use, depends on the device alone:

    on a CPU             materialised attention, the loss in slices of `CPU_ROWS` tokens
    on an accelerator    flash attention, the loss of all tokens at once

`predict` and `measure` without a device to run on take the device that `--device` names:
one of the catalogue is an accelerator, "this" is what was calibrated here. Where nothing
was, they speak of an accelerator.
"""

from __future__ import annotations

import argparse
from dataclasses import fields

from .. import workspace
from ..config import ATTENTION_FORMS, RunConfig

CPU_ROWS = 512
"""Tokens per slice of the loss on a CPU: a buffer that caches hold for the most part, and
products large enough to be quick. 256 to 2,048 were equally fast on the two cores tried."""
_OWN = ("attention", "loss_rows")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--attention` and `--loss-rows`, each None when it is not given."""
    parser.add_argument(
        "--attention", choices=ATTENTION_FORMS, default=None,
        help="fused tiles (flash), materialised S x S scores, or the tiles spelled out to be "
             "read (tiled, slow). Default, the same in every command: materialised for a step "
             "on a CPU, where plain matrix products are quicker, else flash")
    parser.add_argument(
        "--loss-rows", type=int, metavar="ROWS", default=None,
        help="tokens whose logits are held at once; each slice gives its part of loss and "
             "gradient, and nothing is computed twice. 0: all at once. Default: "
             f"{CPU_ROWS} for a step on a CPU, else 0")


def other_flags() -> list[str]:
    """The fields of `RunConfig` that `add_flags` leaves to `RunConfig.add_flags`."""
    return [item.name for item in fields(RunConfig) if item.name not in _OWN]


def fill(args: argparse.Namespace, device_type: str) -> None:
    """Put the quickest forms for `device_type` where `args` has none."""
    if args.attention is None:
        args.attention = quickest(device_type)
    if args.loss_rows is None:
        args.loss_rows = quickest_rows(device_type)


def device_type(name: str) -> str:
    """"cpu", "cuda" or "mps" for `--device NAME`: what was calibrated, for "this" device."""
    profile = workspace.profile() if name == "this" else None
    return "cuda" if profile is None else profile.device_type


def quickest(device_type: str) -> str:
    """The attention that is usually quickest on a `cpu`, `cuda` or `mps` device."""
    return "materialised" if device_type == "cpu" else "flash"


def quickest_rows(device_type: str) -> int:
    """`loss_rows` as a step on that kind of device has it where nothing is said."""
    return CPU_ROWS if device_type == "cpu" else 0


def loss_described(loss_rows: int) -> str:
    """How the loss is taken, in words."""
    return f"loss in slices of {loss_rows} tokens" if loss_rows else "loss over all tokens at once"


def described(attention: str, device_type: str, *, asked: bool, resumed: bool = False) -> str:
    """`attention` and why it is the one, for the line with which a command begins."""
    if asked:
        return f"{attention} attention, as asked"
    if resumed:
        return f"{attention} attention, as in the run that is resumed"
    why = ("the default on a CPU: plain matrix products are quicker there than tiles"
           if device_type == "cpu" else
           "the default on an accelerator: tiles keep the S x S scores out of memory")
    return f"{attention} attention ({why})"
