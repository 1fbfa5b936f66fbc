"""Progress of a run, for people: a bar in a terminal, a picture in a notebook, else lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from ..units import significant
from . import live

if TYPE_CHECKING:
    from .train import Progress


def reporter(stream: TextIO | None = None, every_seconds: float = 10.0
             ) -> Callable[[Progress], None]:
    """A function to hand to the trainer as `on_progress`. Writes to `stream` (stderr).

    In a terminal with `tqdm` installed it draws a bar, in a notebook (without a `stream`) the
    loss so far. Otherwise it prints a line for the first step and the last, and between them
    one every `every_seconds`: a log file stays readable.
    """
    if stream is None and live.in_notebook():
        return live.LossPlot(_speed_and_loss)
    target = sys.stderr if stream is None else stream
    if target.isatty():
        try:
            return _bar(target)
        except ImportError:
            pass
    return _lines(target, every_seconds)


def _bar(stream: TextIO) -> Callable[[Progress], None]:
    from tqdm import tqdm

    bars: list[tqdm] = []

    def show(progress: Progress) -> None:
        if not bars:
            bars.append(tqdm(total=progress.steps, initial=progress.step - 1, unit="step",
                             file=stream, dynamic_ncols=True))
        bar = bars[0]
        bar.set_postfix_str(_speed_and_loss(progress), refresh=False)
        bar.update(progress.step - bar.n)
        if progress.step == progress.steps:
            bar.close()

    return show


def _lines(stream: TextIO, every_seconds: float) -> Callable[[Progress], None]:
    said_at: list[float] = []

    def show(progress: Progress) -> None:
        now = time.monotonic()
        due = not said_at or now - said_at[-1] >= every_seconds
        if due or progress.step == progress.steps:
            said_at.append(now)
            print(f"step {progress.step:>{len(str(progress.steps))}}/{progress.steps}  "
                  f"{_speed_and_loss(progress)}", file=stream, flush=True)

    return show


def _speed_and_loss(progress: Progress) -> str:
    return (f"loss {progress.loss:.3f} (lately {progress.recent_loss:.3f}), "
            f"{significant(progress.tokens_per_second)} tokens/s, "
            f"learning rate {progress.learning_rate:.1e}")
