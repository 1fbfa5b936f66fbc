"""Small parts that several widgets' pictures share, on top of `canvas`."""

from __future__ import annotations

import math
from typing import Any

HALO = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
"""A `bbox` that keeps a label readable where a line passes behind it."""


def log_axis(axis: Any) -> None:
    """A logarithmic axis whose ticks are ours alone: minor ones cost time and say little."""
    from matplotlib.ticker import NullLocator

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_minor_locator(NullLocator())


def no_marks(axes: Any, axis: str) -> None:
    """Bars named by their tick labels need neither tick marks nor grid lines on that axis."""
    axes.tick_params(axis=axis, length=0)
    axes.grid(False, axis=axis)


def round_up(value: float) -> float:
    """The least of 1, 1.5, 2, 3, 5, 7.5 times a power of ten that is not below `value`.

    Axis ends from this list change seldom while a slider moves, so that most redraws
    keep the cached background.
    """
    if value <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(value))
    return next(step * scale for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0)
                if step * scale >= value * (1 - 1e-12))
