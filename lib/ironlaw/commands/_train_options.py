"""Flags of `ironlaw train` beyond the step and the schedule, and what is said about them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..gpt2.settings import TrainSettings
from ..results import TrainingResult

if TYPE_CHECKING:
    from ..measure.device import Device


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags; each is None when it was not given, so that a resumed run keeps its own."""
    add = parser.add_argument
    add("--warmup", type=int, metavar="STEPS",
        help="steps in which the learning rate rises to its peak (default: a tenth of all, at "
             "most 100)")
    add("--weight-decay", type=float, metavar="FRACTION",
        help="how much weights shrink per step, times the learning rate; vectors never do "
             "(default: 0.1)")
    add("--clip", type=float, metavar="NORM",
        help="the largest norm that the whole gradient may have, 0 for no limit (default: 1)")
    add("--rewinds", type=int, metavar="N",
        help="after a spike of the loss, go back to a checkpoint and leave out the text around "
             "it, at most N times (default: 0, never)")
    add("--skip-batches", type=int, metavar="N",
        help="steps' worth of text to leave out after a spike, beside what was read since the "
             "checkpoint (default: 5)")
    add("--init", metavar="NAME",
        help="start from trained weights: gpt2, gpt2-medium, gpt2-large or gpt2-xl (fetched once "
             "by the library transformers), a folder made by save_pretrained, or a .safetensors "
             "file (default: random numbers)")
    add("--pad-vocab", action="store_true", default=None,
        help="round the embedding up to a multiple of 64 rows, which GPUs multiply faster; the "
             "loss stays the same")
    add("--compile", action="store_true", default=None,
        help="run the step through torch.compile: a slow first step, quicker ones after it")


def add_loader_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--loader-workers`, which belongs to the machine and not to the run."""
    parser.add_argument(
        "--loader-workers", type=int, metavar="N", default=0,
        help="processes that cut batches ahead (default: 0: the training process does it, which "
             "is enough for a corpus that is tokenised already; `ironlaw.measure.pipeline` "
             "measures each stage)")


def quicker(args: argparse.Namespace, settings: TrainSettings, here: Device, *,
            resumed: bool) -> str:
    """What would make a run in the default precision quicker on this GPU; "" if nothing would.

    Whoever named a precision has chosen it, and a resumed run keeps its own.
    """
    if resumed or args.precision is not None or here.type != "cuda":
        return ""
    from ..measure.device import obstacle

    if obstacle(here.torch_device, "bf16"):
        return ""
    flags = ["--precision amp-bf16", *(["--compile"] if not settings.compile else []),
             *(["--pad-vocab"] if not settings.pad_vocab else [])]
    return (f"Matrix products run in exact FP32, the default, and {here.name} is many times "
            f"quicker in BF16. To train at its speed add: {' '.join(flags)}")


def told(result: TrainingResult) -> list[str]:
    """Lines of the summary about what these flags brought about."""
    lines = []
    if "rewinds" in result.notes:
        lines.append(f"Rewinds       {result.notes['rewinds']}")
    if "compile" in result.notes:
        lines.append(f"Not compiled  {result.notes['compile']}")
    return lines
