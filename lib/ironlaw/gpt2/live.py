"""The loss as it falls, in a notebook: one picture that is drawn anew a few times a second.

It needs IPython and matplotlib and no widgets: a display handle replaces the picture where
it stands, which every notebook front end can do. Each picture has its last line in words,
for readers and front ends that show none.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .train import Progress

EVERY_SECONDS = 0.5
RECENT = 20
"""Steps that the smooth line averages, as `Progress.recent_loss` does."""


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook (JupyterLab, Colab, ...)."""
    import sys

    if "IPython" not in sys.modules:  # nobody else has loaded it: then this is no kernel
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


class LossPlot:
    """A function of `Progress`, to hand to the trainer as `on_progress`.

    Draws at most every `every_seconds`, and always the first and the last step. `words` makes
    the line that stands with the picture. `clock` is for tests.
    """

    def __init__(self, words: Callable[[Progress], str], every_seconds: float = EVERY_SECONDS,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.words, self.every, self.clock = words, every_seconds, clock
        self.steps: list[int] = []
        self.losses: list[float] = []
        self._handle: Any = None
        self._drawn_at = 0.0

    def __call__(self, progress: Progress) -> None:
        while self.steps and self.steps[-1] >= progress.step:  # the run has gone back
            self.steps.pop()
            self.losses.pop()
        self.steps.append(progress.step)
        self.losses.append(progress.loss)
        now = self.clock()
        last = progress.step == progress.steps
        if self._handle is not None and not last and now - self._drawn_at < self.every:
            return
        self._drawn_at = now
        line = (f"step {progress.step}/{progress.steps}  {self.words(progress)}")
        self._show({"image/png": self.picture(progress.steps, line), "text/plain": line})

    def smooth(self) -> list[float]:
        """The mean over the last `RECENT` losses, at each step."""
        return [statistics.fmean(self.losses[max(0, i + 1 - RECENT):i + 1])
                for i in range(len(self.losses))]

    def picture(self, steps: int, line: str) -> bytes:
        """The picture as PNG. Made without pyplot: no figure of the reader's is touched."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 2.8), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(self.steps, self.losses, color="0.7", linewidth=1, label="each step")
        axes.plot(self.steps, self.smooth(), color="C0", linewidth=2,
                  label=f"mean of the last {RECENT}")
        axes.set(xlim=(0, max(1, steps)), xlabel="step", ylabel="loss (nats per token)")
        axes.set_title(line, fontsize=9)
        axes.legend(loc="upper right", frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=100)
        return stream.getvalue()

    def _show(self, bundle: dict[str, Any]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
