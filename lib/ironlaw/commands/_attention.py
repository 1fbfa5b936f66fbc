"""Which attention a step uses where the learner does not choose: one rule for all commands."""

from __future__ import annotations

import argparse

from ..config import ATTENTIONS


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--attention`, None when it is not given."""
    parser.add_argument(
        "--attention", choices=ATTENTIONS, default=None,
        help="tiled (flash) or materialised S x S scores (default, in train and compare "
             "alike: materialised on a CPU, where plain matrix products are quicker, else flash)")


def quickest(device_type: str) -> str:
    """The attention that is usually quickest on a `cpu`, `cuda` or `mps` device."""
    return "materialised" if device_type == "cpu" else "flash"


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
