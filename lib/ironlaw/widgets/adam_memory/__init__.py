"""The Adam-memory widget: where the bytes of a training step go, and what would make it fit.

    from ironlaw.widgets import adam_memory
    adam_memory.show("GPT-2 XL, batch 4")

`accounting` adds up the bytes, `state` says what fits and what each fix buys, `picture`
draws it, `shell` has the controls. Taught in chapter 2 (section 2.5).
"""

from __future__ import annotations

from typing import Any

from .accounting import DOCUMENT_MODELS, OWN, account
from .state import PRESETS, Outcome, State, compute, describe, largest_batch, preset, state_on

__all__ = ["DOCUMENT_MODELS", "OWN", "PRESETS", "Outcome", "State", "account", "compute",
           "describe", "largest_batch", "largest_batch_on_t4", "panel", "preset", "show",
           "state_on", "still"]


def largest_batch_on_t4() -> int:
    """The largest micro-batch of gpt2-124m on a 16 GB T4: autocast FP16, tiled attention, AdamW."""
    found = largest_batch(state_on("T4", model="gpt2-124m", precision="amp-fp16"))
    return found or 0


def show(name: str | None = None, **settings: Any) -> None:
    """Display the widget, set to one of `PRESETS` or by `settings` of `state_on`."""
    from IPython.display import display

    display(panel(name, **settings).root)


def panel(name: str | None = None, **settings: Any) -> Any:
    """The widget without displaying it; `.root` is the ipywidgets box."""
    from .shell import AdamMemoryPanel

    return AdamMemoryPanel(_state(name, settings))


def still(name: str | None = None, **settings: Any) -> Any:
    """The widget's picture as a figure that needs no kernel; arguments as `show`."""
    from ..canvas import Still
    from .picture import alt_text, make, update

    now = _state(name, settings)
    outcome = compute(now)
    canvas = make()
    update(canvas, now, outcome)
    return Still(canvas, alt_text(now, outcome), describe(now, outcome))


def _state(name: str | None, settings: dict[str, Any]) -> State:
    return preset(name, **settings) if name else state_on(settings.pop("device", "T4"), **settings)
