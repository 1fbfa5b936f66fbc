"""The iron-law widget: T = O / (R_peak · η), and what a run costs.

    from ironlaw.widgets import iron_law
    iron_law.show(preset="GPT-3", accelerators=1024)

`state` holds what is set and what follows from it, `picture` draws it, `shell` has the
controls. Taught in chapter 1; the other widgets follow this pattern.
"""

from __future__ import annotations

from typing import Any

from .state import Outcome, State, compute, describe, preset

__all__ = ["Outcome", "State", "compute", "describe", "panel", "preset", "show", "still"]


def show(preset: str = "GPT-2 XL", **settings: Any) -> None:
    """Display the widget, set to a workload; `settings` are those of `panel`."""
    from IPython.display import display

    display(panel(preset, **settings).root)


def panel(preset: str = "GPT-2 XL", **settings: Any) -> Any:
    """The widget without displaying it; `.root` is the ipywidgets box.

    `settings`: `accelerator` (catalogue name or "this device"), `dtype`, `utilisation`
    (0.01-1), `accelerators`, `deadline_days`, `price` (USD per accelerator-hour),
    `watts`, `pue`, `kg_per_kwh`, `spare` (0-0.9). Raises `InputError` for others.
    """
    from .shell import IronLawPanel

    return IronLawPanel(preset, **settings)


def still(preset: str = "GPT-2 XL", accelerator: str = "H100 SXM", **changes: Any) -> Any:
    """The widget's picture as a figure that needs no kernel; arguments as `state.preset`."""
    from ..canvas import Still
    from . import state
    from .picture import alt_text, make, update

    now = state.preset(preset, accelerator, **changes)
    outcome = compute(now)
    canvas = make()
    update(canvas, now, outcome)
    return Still(canvas, alt_text(now, outcome), describe(now, outcome))
