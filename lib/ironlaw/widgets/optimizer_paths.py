"""Optimizers walking on a loss surface: the optimizer-paths widget.

    from ironlaw.widgets import optimizer_paths
    optimizer_paths.show(surface="bent valley", rate=0.02)

Nothing is drawn by hand: each path is `predict.descent.walk`, which repeats the steps
that `predict.optimizers` defines. Taught in chapter 2 (section 2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets
import numpy as np

from ..errors import InputError, choice, count, number
from ..predict import descent
from ..units import counted, percent, significant
from .canvas import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, Canvas, Still, styled
from .controls import Panel, Reading, shown, toggles
from .drawing import log_axis
from .number_slider import NumberSlider, decimals, steps

WIDTH, HEIGHT = 680, 320
MOST_STEPS = 200
LOWEST_RATE, HIGHEST_RATE = 1e-4, 3.0
_RATES = [*(float(f"{LOWEST_RATE * 10 ** (k / 40):.3g}") for k in range(180)), HIGHEST_RATE]
ARRIVED = 1e-3
"""A loss below this share of the start's counts as arrived."""
NAMES = {"sgd": "SGD", "momentum": "momentum", "rmsprop": "RMSprop", "adam": "Adam"}
_COLOURS = {"sgd": ORANGE, "momentum": PURPLE, "rmsprop": GREEN, "adam": BLUE}
_VIEWS = {"narrow bowl": ((-4.0, 4.0), (-1.8, 1.8)), "bent valley": ((-2.0, 2.0), (-0.8, 2.8))}
_LOSSES = (1e-8, 1e4)
_LABELS = {"ironlaw-op-surface": "Loss surface", "ironlaw-op-rate": "Learning rate",
           "ironlaw-op-x": "Start, x", "ironlaw-op-y": "Start, y", "ironlaw-op-steps": "Steps"}


@dataclass(frozen=True)
class State:
    """A surface, a start on it, one learning rate for all walkers, and who walks."""

    surface: str
    start: tuple[float, float]
    rate: float
    steps: int = 100
    walkers: tuple[str, ...] = descent.WALKERS

    def __post_init__(self) -> None:
        descent.surface(self.surface)
        for axis, value, (low, high) in zip("xy", self.start, _VIEWS[self.surface], strict=True):
            number(f"start {axis}", value, low=low, high=high)
        number("rate", self.rate, low=LOWEST_RATE, high=HIGHEST_RATE)
        count("steps", self.steps, high=MOST_STEPS)
        for walker in self.walkers:
            choice("walkers", walker, descent.WALKERS)
        if not self.walkers:
            raise InputError("walkers", self.walkers, "at least one optimizer",
                             "Tick one of the boxes.")


@dataclass(frozen=True)
class Walk:
    """One optimizer's path of shape (n, 2), the loss along it, and how it ended."""

    points: Any
    losses: Any
    verdict: str

    @property
    def share(self) -> float:
        """The last loss as a share of the first."""
        return float(self.losses[-1] / self.losses[0]) if self.losses[0] else 0.0

    @property
    def reversals(self) -> int:
        """Steps at more than a right angle to the one before: bouncing, counted."""
        moves = np.diff(self.points, axis=0)
        return int(((moves[1:] * moves[:-1]).sum(axis=1) < 0).sum())


@dataclass(frozen=True)
class Outcome:
    """The walks by optimizer."""

    walks: dict[str, Walk]

    def ended(self, verdict: str) -> list[str]:
        """The names of those that ended so."""
        return [NAMES[w] for w, walk in self.walks.items() if walk.verdict == verdict]


def compute(state: State) -> Outcome:
    """Let each walker take its steps."""
    on = descent.surface(state.surface)
    walks = {}
    for walker in state.walkers:
        points = descent.walk(walker, on, state.start, state.rate, state.steps)
        losses = on.loss(points[:, 0], points[:, 1])
        walks[walker] = Walk(points, losses, _verdict(points, losses, state.steps))
    return Outcome(walks)


def _verdict(points: Any, losses: Any, steps: int) -> str:
    if len(points) <= steps or losses[-1] > losses[0]:
        return "diverges"
    return "arrives" if losses[-1] <= ARRIVED * losses[0] else "under way"


def describe(state: State, outcome: Outcome) -> str:
    """The outcome in a few sentences: what a screen reader announces."""
    words = [f"Learning rate {shown(state.rate)}, {counted(state.steps, 'step')} in the "
             f"{state.surface}."]
    for walker, walk in outcome.walks.items():
        name = NAMES[walker][0].upper() + NAMES[walker][1:]
        if walk.verdict == "diverges":
            times = significant(walk.share) if walk.share < 1e6 else "over a million"
            how = (f"it flew off after {counted(len(walk.points) - 1, 'step')}" if len(walk.points)
                   <= state.steps else f"its loss is {times} times the first")
            words.append(f"{name} diverges: {how}.")
        elif walk.verdict == "arrives":
            first = int(np.argmax(walk.losses <= ARRIVED * walk.losses[0]))
            words.append(f"{name} arrives (a thousandth of the first loss at step {first}).")
        else:
            words.append(f"{name} is under way with {percent(walk.share, 2)} of the first loss.")
    words.append("Steps that turn back on the one before: " + ", ".join(
        f"{NAMES[walker]} {walk.reversals}" for walker, walk in outcome.walks.items()) + ".")
    if "SGD" in outcome.ended("diverges") and "Adam" not in outcome.ended("diverges") \
            and "adam" in outcome.walks:
        words.append("Here SGD diverges and Adam does not: Adam divides by the gradient's "
                     "own size, so a steep wall makes its steps no longer. While gradients agree, "
                     "a step moves each parameter by about η; where they keep changing sign, by "
                     "far less.")
    return " ".join(words)


def make() -> Canvas:
    """The picture without paths: the surface on the left, loss per step on the right."""
    canvas = Canvas(WIDTH, HEIGHT)
    art = canvas.artists
    with styled():
        plane = canvas.axes((0.08, 0.145, 0.50, 0.77))
        plane.grid(False)
        plane.set_xlabel("parameter x")
        plane.set_ylabel("parameter y", labelpad=1)
        fall = canvas.axes((0.69, 0.145, 0.29, 0.77))
        log_axis(fall.yaxis)
        fall.set_ylim(*_LOSSES)
        fall.set_yticks([10.0**k for k in (-8, -4, 0, 4)], ["1e−8", "1e−4", "1", "1e4"])
        fall.set_xlim(0, MOST_STEPS)
        fall.set_xlabel("step")
        fall.set_title("Loss")
        art.update(plane=plane, contours=None, minimum=plane.plot(
            [], [], "*", ms=11, color="white", mec=INK, mew=1.2, zorder=8)[0])
        art["paths"] = {w: plane.plot([], [], color=c, lw=1.5, marker="o", ms=2.6, zorder=4,
                                      label=NAMES[w])[0] for w, c in _COLOURS.items()}
        art["ends"] = {w: plane.plot([], [], "o", color=c, ms=8, mec="white", mew=1.2,
                                     zorder=6)[0] for w, c in _COLOURS.items()}
        art["losses"] = {w: fall.plot([], [], color=c, lw=1.8, zorder=4, label=NAMES[w])[0]
                         for w, c in _COLOURS.items()}
        art["start"] = plane.plot([], [], "s", color="white", mec=INK, mew=1.6, ms=8,
                                  zorder=7)[0]
        fall.legend(loc="upper right", fontsize=8, handlelength=1.4, labelspacing=0.3,
                    bbox_to_anchor=(1.06, 1.03))
    canvas.movable(*art["paths"].values(), *art["ends"].values(), *art["losses"].values(),
                   art["start"], art["minimum"])
    return canvas


def update(canvas: Canvas, state: State, outcome: Outcome) -> None:
    """Lay the paths of `outcome`; only another surface draws the contours again."""
    art = canvas.artists
    if art["contours"] is None or art["contours"][0] != state.surface:
        _draw_surface(canvas, descent.surface(state.surface))
    (left, right), (low, high) = _VIEWS[state.surface]
    art["start"].set_data([state.start[0]], [state.start[1]])
    for walker in descent.WALKERS:
        walk = outcome.walks.get(walker)
        art["paths"][walker].set_visible(walk is not None)
        art["losses"][walker].set_visible(walk is not None)
        art["ends"][walker].set_visible(walk is not None)
        if walk is None:
            continue
        x, y = walk.points[:, 0], walk.points[:, 1]
        outside = (x < left) | (x > right) | (y < low) | (y > high)
        # A path is drawn until it has left the view: bouncing to and fro beyond, a
        # diverging one would fill the picture with its crossings.
        drawn = int(np.argmax(outside)) + 1 if outside.any() else len(x)
        art["paths"][walker].set_data(x[:drawn], y[:drawn])
        art["ends"][walker].set_data([] if outside.any() else [x[-1]],
                                     [] if outside.any() else [y[-1]])
        art["losses"][walker].set_data(range(len(x)), np.maximum(walk.losses, _LOSSES[0] / 1e4))


def _draw_surface(canvas: Canvas, surface: descent.Surface) -> None:
    art = canvas.artists
    plane = art["plane"]
    if art["contours"] is not None:
        art["contours"][1].remove()
    (left, right), (low, high) = _VIEWS[surface.name]
    x, y = np.meshgrid(np.linspace(left, right, 241), np.linspace(low, high, 241))
    loss = surface.loss(x, y)
    levels = np.geomspace(0.1, float(loss.max()), 11)
    with styled():
        drawn = plane.contour(x, y, loss, levels=levels, colors=MUTED, linewidths=0.7, alpha=0.55,
                              zorder=2)
        plane.set_title(f"Paths in the {surface.name} (□ start, ☆ minimum)")
    art["contours"] = (surface.name, drawn)
    art["minimum"].set_data([surface.minimum[0]], [surface.minimum[1]])
    plane.set_xlim(left, right)
    plane.set_ylim(low, high)
    canvas.stale()


def alt_text(state: State, outcome: Outcome) -> str:
    """What the picture shows, for those who do not see it."""
    ends = "; ".join(f"{NAMES[w]} {walk.verdict}" for w, walk in outcome.walks.items())
    return (f"Left: contour lines of the {state.surface} with the path of each optimizer from "
            f"({significant(state.start[0])}, {significant(state.start[1])}). Right: the loss "
            f"per step, logarithmic. {ends}.")


class OptimizerPathsPanel(Panel):
    """Surface, start, learning rate and steps; every change walks again."""

    def __init__(self, state: State) -> None:
        self.surface = toggles("Surface", "ironlaw-op-surface", list(descent.SURFACES),
                               state.surface)
        self.rate = NumberSlider("Learning rate η", "ironlaw-op-rate", _RATES, state.rate,
                                 argument="learning rate")
        self.steps = NumberSlider("Steps", "ironlaw-op-steps", [1, *range(5, MOST_STEPS + 1, 5)],
                                  state.steps, argument="steps", whole=True)
        self.x, self.y = (
            NumberSlider(f"Start, {axis}", f"ironlaw-op-{axis}", steps(*view, 0.1), value,
                         argument=f"start {axis}", say=decimals(1))
            for axis, view, value in zip("xy", _VIEWS[state.surface], state.start, strict=True))
        self.walkers = {w: widgets.Checkbox(value=w in state.walkers, description=name,
                                            indent=False, layout=widgets.Layout(width="120px"))
                        for w, name in NAMES.items()}
        numbers = [self.rate, self.steps, self.x, self.y]
        super().__init__(
            make(), self._answer,
            [self.surface, *(n.root for n in numbers), widgets.HBox(list(self.walkers.values()))],
            [*numbers, *self.walkers.values()], _LABELS)
        self.surface.observe(self._change_surface, names="value")

    def _change_surface(self, change: dict[str, Any]) -> None:
        """Another surface brings its own view, start and a learning rate worth seeing."""
        surface = descent.surface(change["new"])
        with self.together():
            for control, view, value in zip((self.x, self.y), _VIEWS[surface.name],
                                            surface.start, strict=True):
                control.regrid(steps(*view, 0.1), value)
            self.rate.value = surface.rate

    def read(self) -> State:
        """The state that the controls spell."""
        return State(self.surface.value, (self.x.value, self.y.value), self.rate.value,
                     self.steps.value, tuple(w for w, box in self.walkers.items() if box.value))

    def _answer(self) -> Reading:
        now = self.read()
        outcome = compute(now)
        update(self.canvas, now, outcome)
        return Reading(alt_text(now, outcome), describe(now, outcome))


def preset(surface: str = "narrow bowl", *, rate: float | None = None,
           start: tuple[float, float] | None = None, steps: int = 100) -> State:
    """A state on `surface`, with its own start and learning rate unless given."""
    known = descent.surface(surface)
    return State(surface, start or known.start, known.rate if rate is None else rate, steps)


def panel(surface: str = "narrow bowl", **settings: Any) -> OptimizerPathsPanel:
    """The widget without displaying it; `settings` as in `preset`."""
    return OptimizerPathsPanel(preset(surface, **settings))


def show(surface: str = "narrow bowl", **settings: Any) -> None:
    """Display the widget; `settings` are `rate`, `start` and `steps`."""
    from IPython.display import display

    display(panel(surface, **settings).root)


def still(surface: str = "narrow bowl", **settings: Any) -> Still:
    """The widget's picture as a figure that needs no kernel."""
    now = preset(surface, **settings)
    outcome = compute(now)
    canvas = make()
    update(canvas, now, outcome)
    return Still(canvas, alt_text(now, outcome), describe(now, outcome))
