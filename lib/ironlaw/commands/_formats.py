"""Which number formats a plan may use: those in which the device multiplies matrices."""

from __future__ import annotations

from .. import hardware, workspace
from ..config import RunConfig
from ..errors import InputError
from ..predict import plan

_HALVES = ("fp16", "bf16")


def known(device: str) -> tuple[str, ...] | None:
    """The formats of a device of the catalogue, or those that "this" one was calibrated in.

    None when "this" device is not calibrated: then nothing is known.
    """
    if device != "this":
        return hardware.accelerator(device).dtypes
    profile = workspace.profile()
    return tuple(profile.matmul) if profile else None


def usable(config: RunConfig, *, here: bool = True) -> tuple[str, ...]:
    """The precisions that a plan for `config` may try on its device, the asked one first.

    `here` false says that "this" stands for a size of memory and not for the device at
    hand. Where nothing is known nothing is left out. Raises `InputError` when a device of
    the catalogue has one 16-bit format and the asked precision needs the other.
    """
    asked, wanted = config.precision, plan.PRODUCTS[config.precision]
    if config.device == "this":
        return plan.formats(asked, known("this") if here else None)
    entry = hardware.accelerator(config.device)
    halves = [d for d in _HALVES if d in entry.dtypes]
    if asked != "document" and halves and wanted in _HALVES and wanted not in halves:
        fitting = [p for p, d in plan.PRODUCTS.items()
                   if p != "document" and d in ("fp32", *halves)]
        raise InputError("precision", asked,
                         f"one that the {entry.name} has: {' or '.join(fitting)}",
                         entry.figure(wanted).reason)
    return plan.formats(asked, entry.dtypes)
