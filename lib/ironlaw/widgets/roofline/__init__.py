"""The roofline widget: which ceiling an operation meets, and what would lift it.

    from ironlaw.widgets import roofline
    roofline.show(device="A100 80GB SXM", dtype="bf16", operation="GEMM")

`state` holds what is set and what follows from it, `picture` draws it, `shell` has the
controls. Taught in chapter 2 (section 2.6); lab 3 adds the points of your own device.
"""

from __future__ import annotations

from typing import Any

from .state import OPERATIONS, Outcome, State, compute, describe, preset

__all__ = ["OPERATIONS", "Outcome", "State", "compute", "describe", "panel", "preset", "show",
           "still"]


def show(device: str | None = None, dtype: str | None = None,
         operation: str = "GEMM") -> None:
    """Display the widget: on the device of lab 3's points where there are some, else an A100."""
    from IPython.display import display

    display(panel(device, dtype, operation).root)


def panel(device: str | None = None, dtype: str | None = None,
          operation: str = "GEMM") -> Any:
    """The widget without displaying it; `.root` is the ipywidgets box."""
    from .shell import RooflinePanel

    return RooflinePanel(preset(device, dtype, operation))


def still(device: str | None = None, dtype: str | None = None, operation: str = "GEMM",
          **changes: Any) -> Any:
    """The widget's picture as a figure that needs no kernel; arguments as `state.preset`."""
    from ..canvas import Still
    from .picture import alt_text, make, update

    now = preset(device, dtype, operation, **changes)
    outcome = compute(now)
    canvas = make()
    update(canvas, now, outcome)
    return Still(canvas, alt_text(now, outcome), describe(now, outcome))
