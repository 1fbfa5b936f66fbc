"""Activation functions side by side: value, gradient, and the error of GPT-2's GELU.

    from ironlaw.widgets import activation_functions
    activation_functions.show(function="sigmoid", x=-4)

Move the pointer along x and read all five functions there. Taught in chapter 2
(section 2.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..errors import number
from ..predict import nonlinear
from ..units import percent, significant
from .canvas import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, Canvas, Still, styled
from .controls import Panel, Reading, toggles
from .number_slider import NumberSlider, decimals, steps

WIDTH, HEIGHT = 680, 440
REACH = 5.0
_GRID = np.linspace(-REACH, REACH, 401)
_STYLES: dict[str, tuple[str, Any]] = {
    "sigmoid": (PURPLE, "-"), "tanh": (GREEN, "-"), "ReLU": (MUTED, "-"),
    "GELU": (BLUE, "-"), "GELU, tanh form": (ORANGE, (0, (4, 2)))}
_LABELS = {"ironlaw-af-function": "Function to highlight", "ironlaw-af-x": "Pointer, x"}
_FLAT = 0.01
"""A gradient below this share of the function's largest one is called flat."""


@dataclass(frozen=True)
class State:
    """The function that is highlighted and the x that is read, within +-5."""

    function: str = "GELU"
    x: float = 1.0

    def __post_init__(self) -> None:
        nonlinear.function(self.function)
        number("x", self.x, low=-REACH, high=REACH)


@dataclass(frozen=True)
class Outcome:
    """Values and gradients at x by function, and where the two forms of GELU differ most."""

    values: dict[str, float]
    gradients: dict[str, float]
    largest_gradient: float
    error_here: float
    worst_x: float
    worst_error: float


def compute(state: State) -> Outcome:
    """Read all functions at the state's x, from `predict.nonlinear`."""
    functions = nonlinear.FUNCTIONS.values()
    worst_x, worst_error = _worst()
    return Outcome(
        values={f.name: float(f.value(state.x)) for f in functions},
        gradients={f.name: float(f.gradient(state.x)) for f in functions},
        largest_gradient=float(np.abs(_curves()[state.function][1]).max()),
        error_here=float(nonlinear.gelu_error(state.x)),
        worst_x=worst_x, worst_error=worst_error)


def describe(state: State, outcome: Outcome) -> str:
    """The outcome in a few sentences: what a screen reader announces."""
    name = state.function
    gradient = outcome.gradients[name]
    share = abs(gradient) / outcome.largest_gradient
    words = [f"At x = {_signed(state.x)} {name} is {_plain(outcome.values[name])} "
             f"with gradient {_plain(gradient)}, {percent(share, 2)} of its largest."]
    if gradient == 0:
        words.append("The gradient is exactly zero: nothing flows back through here.")
    elif share < _FLAT:
        words.append("That is flat: what flows back through here all but vanishes.")
    elif gradient < 0:
        words.append("The slope is negative here: GELU dips below zero before it settles.")
    words.append(
        f"GPT-2's tanh form of GELU is {_plain(outcome.error_here)} off here, and at most "
        f"{_plain(abs(outcome.worst_error))} anywhere, at x = ±{significant(outcome.worst_x)}.")
    return " ".join(words)


@cache
def _curves() -> dict[str, tuple[Any, Any]]:
    return {f.name: (f.value(_GRID), f.gradient(_GRID)) for f in nonlinear.FUNCTIONS.values()}


@cache
def _worst() -> tuple[float, float]:
    return nonlinear.largest_gelu_error(limit=REACH)


def make() -> Canvas:
    """The picture without a pointer: values, gradients and the GELU error."""
    canvas = Canvas(WIDTH, HEIGHT)
    art = canvas.artists
    with styled():
        panels = [canvas.axes((0.07, 0.455, 0.41, 0.475)), canvas.axes((0.56, 0.455, 0.41, 0.475)),
                  canvas.axes((0.085, 0.105, 0.885, 0.235))]
        for axes, title, low, high in zip(
                panels, ("Value f(x)", "Gradient f′(x)", "GELU: tanh form minus exact form"),
                (-1.2, -0.2, -2.6), (3.2, 1.3, 5.9), strict=True):
            axes.set_xlim(-REACH, REACH)
            axes.set_ylim(low, high)
            axes.set_title(title)
            axes.axhline(0, color=MUTED, lw=0.9, zorder=1.5)
            axes.set_xticks(range(-5, 6))
        panels[2].set_xlabel("x")
        panels[2].set_yticks([-2, 0, 2, 4], ["−0.0002", "0", "0.0002", "0.0004"])
        panels[2].tick_params(axis="y", labelsize=7)
        panels[2].plot(_GRID, 1e4 * nonlinear.gelu_error(_GRID), color=ORANGE, zorder=3)
        worst_x, worst = _worst()
        for side in (-1, 1):
            panels[2].plot([side * worst_x], [1e4 * worst], "D", color="white", mec=ORANGE,
                           mew=1.5, ms=5, zorder=4)
        panels[2].text(0, 1e4 * worst, f"largest: {_plain(worst)} at ±{significant(worst_x)}",
                       ha="center", va="center", fontsize=8)
        art["lines"] = {
            name: [axes.plot(_GRID, curve, color=colour, ls=dash, label=name)[0]
                   for axes, curve in zip(panels, _curves()[name], strict=False)]
            for name, (colour, dash) in _STYLES.items()}
        panels[0].legend(loc="upper left", handlelength=2.4, fontsize=8, labelspacing=0.35)
        # A stem up to the curve: a full line would cross the legend.
        art["pointers"] = [axes.plot([], [], color=INK, lw=1.2, zorder=6)[0] for axes in panels]
        art["dots"] = [axes.plot([], [], "o", ms=8, mec="white", mew=1.2, zorder=7)[0]
                       for axes in panels]
    canvas.movable(*(line for pair in art["lines"].values() for line in pair),
                   *art["pointers"], *art["dots"])
    return canvas


def update(canvas: Canvas, state: State, outcome: Outcome) -> None:
    """Move the pointer and thicken the highlighted function; nothing else changes."""
    art = canvas.artists
    for name, pair in art["lines"].items():
        chosen = name == state.function
        for line in pair:
            line.set_linewidth(3.2 if chosen else 1.3)
            line.set_zorder(5 if chosen else 3)
    heights = (outcome.values[state.function], outcome.gradients[state.function],
               1e4 * outcome.error_here)
    for pointer, dot, height in zip(art["pointers"], art["dots"], heights, strict=True):
        pointer.set_data([state.x, state.x], [pointer.axes.get_ylim()[0], height])
        dot.set_data([state.x], [height])
        dot.set_color(ORANGE if dot is art["dots"][2] else _STYLES[state.function][0])
        dot.set_markeredgecolor("white")


def alt_text(state: State, outcome: Outcome) -> str:
    """What the picture shows, for those who do not see it."""
    return (
        "Three graphs over x from −5 to 5. Values: sigmoid from 0 to 1, tanh from −1 to 1, ReLU "
        "zero then rising, GELU close to ReLU with a shallow dip below zero. Gradients: sigmoid "
        "and tanh are bumps that vanish on both sides, ReLU jumps from 0 to 1, GELU swings from "
        "just below 0 to just above 1. Error of GELU's tanh form: two humps of "
        f"{_plain(abs(outcome.worst_error))} at ±{significant(outcome.worst_x)}, each with a dip "
        f"on its inner side. The pointer is at x = {_signed(state.x)} on {state.function}.")


class ActivationPanel(Panel):
    """Function and pointer; every change redraws."""

    def __init__(self, state: State) -> None:
        self.function = toggles("Highlight", "ironlaw-af-function", list(nonlinear.FUNCTIONS),
                                state.function)
        self.x = NumberSlider("Pointer x", "ironlaw-af-x", steps(-REACH, REACH, 0.05), state.x,
                              argument="x", say=decimals(2))
        super().__init__(make(), self._answer, [self.function, self.x.root],
                         [self.function, self.x], _LABELS)

    def read(self) -> State:
        """The state that the controls spell."""
        return State(self.function.value, self.x.value)

    def _answer(self) -> Reading:
        now = self.read()
        outcome = compute(now)
        update(self.canvas, now, outcome)
        return Reading(alt_text(now, outcome), describe(now, outcome), tuple(
            (f"{name}, f(x)", _plain(value)) for name, value in outcome.values.items()))


def panel(function: str = "GELU", x: float = 1.0) -> ActivationPanel:
    """The widget without displaying it; `.root` is the ipywidgets box."""
    return ActivationPanel(State(function, x))


def show(function: str = "GELU", x: float = 1.0) -> None:
    """Display the widget."""
    from IPython.display import display

    display(panel(function, x).root)


def still(function: str = "GELU", x: float = 1.0) -> Still:
    """The widget's picture as a figure that needs no kernel."""
    now = State(function, x)
    outcome = compute(now)
    canvas = make()
    update(canvas, now, outcome)
    return Still(canvas, alt_text(now, outcome), describe(now, outcome))


def _signed(x: float) -> str:
    text = f"{x:.2f}"
    return (text if float(text) == x else f"{x:.6g}").replace("-", "−")


def _plain(value: float) -> str:
    """A small number without an exponent where four decimals or five still show it."""
    if value == 0:
        return "0"
    text = f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}" if abs(value) < 1e-4 \
        else f"{value:.5f}"
    return text.replace("-", "−")
