"""Sliders over whole numbers that somebody would choose, and that stay exactly as chosen.

A logarithmic slider of ipywidgets moves a value onto its own grid as soon as a browser
shows it (768 would become 724 or 1,024), so shapes are offered as a list instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ipywidgets as widgets

from .controls import slider

GPT2_SIZES = (12, 25, 768, 1280, 1600, 2304, 3072, 4608, 4800, 5120, 6400, 7680, 9600, 50257)
"""Widths, multiples and crossings of the presets, beside powers of two."""
WIDER = "470px"
"""Width of a slider whose read-out is a name such as "A100 80GB SXM"."""


def around_powers(low: int, high: int) -> list[int]:
    """Powers of two, halfway steps between them, and GPT-2's own sizes, from low to high."""
    found = {n for n in GPT2_SIZES if low <= n <= high}
    power = 1
    while power <= high:
        found |= {n for n in (power, power * 3 // 2) if low <= n <= high}
        power *= 2
    return sorted(found)


def size_slider(label: str, key: str, sizes: Iterable[int], value: int) -> Any:
    """A slider over `sizes`, and over `value` should it not be one of them."""
    return slider("SelectionSlider", label, key, options=_options({*sizes, value}), value=value)


def put(control: Any, value: int) -> None:
    """Set a size slider to `value`, which is offered from then on."""
    offered = {size for _, size in control.options}
    if value not in offered:
        control.options = _options({*offered, value})
    control.value = value


def name_slider(label: str, key: str, names: Iterable[str], value: str) -> Any:
    """A slider over names, wide enough to show the longest."""
    control = slider("SelectionSlider", label, key, options=list(names), value=value)
    control.layout = widgets.Layout(width=WIDER, max_width="98%")
    return control


def _options(sizes: Iterable[int]) -> list[tuple[str, int]]:
    return [(f"{size:,}", size) for size in sorted(sizes)]
