"""Where a transformer's FLOP go as sequences grow: the layer-FLOP widget.

    from ironlaw.widgets import layer_flops
    layer_flops.show(model="gpt2-1558m")

Shares of the parts against the sequence length, with the length at which the two
S x S products overtake all the rest. Taught in chapter 2 (section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import transformer
from ..errors import choice, count
from ..predict import flops
from ..units import percent, si, significant
from .canvas import BLUE, GREEN, INK, ORANGE, PURPLE, Canvas, Still, styled
from .controls import Panel, Reading, toggles
from .drawing import HALO, log_axis, no_marks
from .sizes import around_powers, size_slider

WIDTH, HEIGHT = 680, 300
BLOCK, MODEL = "one block", "whole model"
SHORTEST, LONGEST = 2**5, 2**17
MOST_SEQUENCES = 512

_PARTS = ("head", "feed_forward", "projections", "attention")
_NAMES = {"head": "output head", "feed_forward": "feed-forward", "projections": "projections",
          "attention": "S × S products"}
_COLOURS = {"head": PURPLE, "feed_forward": BLUE, "projections": GREEN, "attention": ORANGE}
_LABELS = {"ironlaw-lf-model": "Model", "ironlaw-lf-scope": "Count", "ironlaw-lf-seq":
           "Sequence length S, tokens", "ironlaw-lf-batch": "Batch B, sequences"}


@dataclass(frozen=True)
class State:
    """What is counted: a preset, B sequences of S tokens, one block or the whole model."""

    model: str = "gpt2-1558m"
    seq: int = 1024
    batch: int = 32
    scope: str = BLOCK

    def __post_init__(self) -> None:
        transformer.model(self.model)
        count("seq", self.seq, low=1, high=LONGEST)
        count("batch", self.batch, high=MOST_SEQUENCES)
        choice("scope", self.scope, (BLOCK, MODEL))

    @property
    def shape(self) -> transformer.Shape:
        """The model's sizes."""
        return transformer.model(self.model)


@dataclass(frozen=True)
class Outcome:
    """Forward FLOP by part and in all; `step` is forward and backward; `crossing` in tokens."""

    parts: dict[str, float]
    total: float
    step: float
    crossing: float

    def share(self, part: str) -> float:
        """The part's share of the total."""
        return self.parts[part] / self.total


def compute(state: State) -> Outcome:
    """FLOP of the state's scope, from `predict.flops`."""
    shape, whole = state.shape, state.scope == MODEL
    one = flops.layer_forward(state.batch, state.seq, shape.width)
    layers = shape.layers if whole else 1
    parts = {
        "head": flops.head_forward(state.batch, state.seq, shape.width, shape.vocab)
        if whole else 0.0,
        "feed_forward": layers * one.feed_forward,
        "projections": layers * (one.qkv + one.projection),
        "attention": layers * (one.scores + one.weighted_values),
    }
    total = (flops.forward_per_step(shape, state.batch, state.seq) if whole else one.total)
    step = (flops.per_step(shape, state.batch, state.seq) if whole
            else flops.blocks_per_step(1, state.batch, state.seq, shape.width))
    crossing = flops.attention_overtakes(shape.width, layers, shape.vocab if whole else 0)
    return Outcome(parts, total, step, crossing)


def describe(state: State, outcome: Outcome) -> str:
    """The outcome in a few sentences: what a screen reader announces."""
    what = "One block" if state.scope == BLOCK else "The whole model"
    largest = max(outcome.parts, key=lambda part: outcome.parts[part])
    words = [
        f"{what} of {state.model}, forward on {state.batch:,} × {state.seq:,} tokens: "
        f"{si(outcome.total, 'FLOP')}; with the backward pass {si(outcome.step, 'FLOP')}.",
        f"The largest part is {_NAMES[largest]} with {percent(outcome.share(largest))}; "
        f"the S × S products take {percent(outcome.share('attention'))}."
        if largest != "attention" else
        f"The largest part is the S × S products with {percent(outcome.share('attention'))}.",
    ]
    if state.seq < outcome.crossing:
        words.append(f"They overtake everything else at S = {outcome.crossing:,.0f}, "
                     f"{significant(outcome.crossing / state.seq)} times this length.")
    else:
        words.append(f"They overtook everything else at S = {outcome.crossing:,.0f}.")
    if state.seq > state.shape.context:
        words.append(f"(The preset itself ends at {state.shape.context:,} tokens; beyond, this "
                     "counts a model of the same width with a longer context.)")
    return " ".join(words)


def make() -> Canvas:
    """The picture without data: shares against S on the left, FLOP at this S on the right."""
    canvas = Canvas(WIDTH, HEIGHT)
    with styled():
        axes = canvas.axes((0.085, 0.165, 0.475, 0.74))
        log_axis(axes.xaxis)
        axes.set_xlim(SHORTEST, LONGEST)
        axes.set_ylim(0, 100)
        ticks = [2**k for k in range(5, 18, 2)]
        axes.set_xticks(ticks, [_short(t) for t in ticks])
        axes.set_yticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)])
        axes.set_xlabel("sequence length S, tokens")
        axes.set_title("Share of the FLOP")
        axes.grid(False)
        axes.axhline(50, color="white", lw=1.2, ls=(0, (4, 3)), zorder=4)
        bars = canvas.axes((0.715, 0.165, 0.265, 0.74))
        bars.set_xlim(0, 1.0)
        bars.set_ylim(-0.6, 3.6)
        bars.invert_yaxis()
        order = _PARTS[::-1]
        bars.set_yticks(range(4), [_NAMES[p] for p in order])
        no_marks(bars, "y")
        bars.set_xticks([])
        bars.spines["bottom"].set_visible(False)
        bars.set_title("Forward FLOP at this S", x=-0.35)
        made = bars.barh(range(4), [1] * 4, height=0.6, color=[_COLOURS[p] for p in order],
                         zorder=3)
        texts = [bars.text(0, row, "", va="center", zorder=5, fontsize=8.5) for row in range(4)]
        canvas.artists.update(
            axes=axes, bars=made, texts=texts, bands=None,
            here=axes.axvline(SHORTEST, color=INK, lw=2, zorder=5),
            here_text=axes.text(0, 4, "", va="bottom", weight="bold", zorder=6, bbox=HALO),
            crossing=axes.plot([], [], marker="D", ms=6.5, color="white", mec=INK, mew=1.5,
                               ls="", zorder=6, clip_on=False)[0],
            crossing_text=axes.text(0, 56, "", va="bottom", zorder=6, bbox=HALO))
    art = canvas.artists
    canvas.movable(art["here"], art["here_text"], *made, *texts)
    return canvas


def update(canvas: Canvas, state: State, outcome: Outcome) -> None:
    """Move everything to `state`; only another model or scope draws the bands again."""
    art = canvas.artists
    if art["bands"] is None or art["bands"][0] != (state.model, state.scope):
        _draw_bands(canvas, state, outcome)
    art["here"].set_xdata([state.seq, state.seq])
    left = state.seq < 2**12  # the label stays inside the axes at both ends
    art["here_text"].set_position((state.seq * (1.15 if left else 1 / 1.15), 4))
    art["here_text"].set_horizontalalignment("left" if left else "right")
    art["here_text"].set_text(f"S = {state.seq:,}")
    far = max(outcome.parts.values())
    for row, part in enumerate(_PARTS[::-1]):
        share = outcome.parts[part] / far
        art["bars"][row].set_width(0.55 * share)
        art["texts"][row].set_position((0.55 * share + 0.02, row))
        art["texts"][row].set_text(f"{si(outcome.parts[part], 'FLOP')}\n"
                                   f"{percent(outcome.share(part))}"
                                   if outcome.parts[part] else "not counted")


def _draw_bands(canvas: Canvas, state: State, outcome: Outcome) -> None:
    art = canvas.artists
    axes = art["axes"]
    if art["bands"] is not None:
        for band in art["bands"][1]:
            band.remove()
    lengths = np.unique(np.geomspace(SHORTEST, LONGEST, 97).round().astype(int))
    shares = np.array([[compute(State(state.model, int(s), 1, state.scope)).share(part)
                        for part in _PARTS] for s in lengths])
    edges = 100 * np.cumsum(shares, axis=1)
    bands = []
    low = np.zeros(len(lengths))
    for column, part in enumerate(_PARTS):
        bands.append(axes.fill_between(lengths, low, edges[:, column], color=_COLOURS[part],
                                       lw=0, zorder=2))
        low = edges[:, column]
    art["crossing"].set_data([outcome.crossing], [50])
    art["crossing_text"].set_position((outcome.crossing * 1.3, 56))
    art["crossing_text"].set_text(f"S × S overtakes\nat {outcome.crossing:,.0f}")
    art["bands"] = ((state.model, state.scope), bands)
    canvas.stale()


def alt_text(state: State, outcome: Outcome) -> str:
    """What the picture shows, for those who do not see it."""
    parts = ", ".join(f"{_NAMES[p]} {percent(outcome.share(p))}" for p in _PARTS
                      if outcome.parts[p])
    return (f"Stacked shares of a {state.model} forward pass ({state.scope}) against sequence "
            f"length, logarithmic. Attention's S × S products grow from almost nothing to most "
            f"of the work and pass one half at {outcome.crossing:,.0f} tokens. At "
            f"S = {state.seq:,}: {parts}.")


class LayerFlopsPanel(Panel):
    """Model, scope, S and B; every change redraws."""

    def __init__(self, state: State) -> None:
        self.model = toggles("Model", "ironlaw-lf-model", list(transformer.MODELS), state.model)
        self.scope = toggles("Count", "ironlaw-lf-scope", [BLOCK, MODEL], state.scope)
        self.seq = size_slider("Sequence S", "ironlaw-lf-seq", around_powers(SHORTEST, LONGEST),
                               state.seq)
        self.batch = size_slider("Batch B", "ironlaw-lf-batch",
                                 [2**k for k in range(10)], state.batch)
        controls = [self.model, self.scope, self.seq, self.batch]
        super().__init__(make(), self._answer, controls, controls, _LABELS)

    def read(self) -> State:
        """The state that the controls spell."""
        return State(self.model.value, self.seq.value, self.batch.value, self.scope.value)

    def _answer(self) -> Reading:
        now = self.read()
        outcome = compute(now)
        update(self.canvas, now, outcome)
        return Reading(alt_text(now, outcome), describe(now, outcome), (
            ("forward", si(outcome.total, "FLOP")),
            ("forward and backward", si(outcome.step, "FLOP")),
            ("S × S products", percent(outcome.share("attention"))),
            ("they overtake at", f"{outcome.crossing:,.0f} tokens")))


def panel(model: str = "gpt2-1558m", *, seq: int = 1024, batch: int = 32,
          scope: str = BLOCK) -> LayerFlopsPanel:
    """The widget without displaying it; `.root` is the ipywidgets box."""
    return LayerFlopsPanel(State(model, seq, batch, scope))


def show(model: str = "gpt2-1558m", **settings: Any) -> None:
    """Display the widget; `settings` are `seq`, `batch` and `scope`."""
    from IPython.display import display

    display(panel(model, **settings).root)


def still(model: str = "gpt2-1558m", *, seq: int = 1024, batch: int = 32,
          scope: str = BLOCK) -> Still:
    """The widget's picture as a figure that needs no kernel."""
    now = State(model, seq, batch, scope)
    outcome = compute(now)
    canvas = make()
    update(canvas, now, outcome)
    return Still(canvas, alt_text(now, outcome), describe(now, outcome))


def _short(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)
