"""The controls of the Adam-memory widget."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets as widgets

from ... import transformer
from ...config import ATTENTIONS, PRECISIONS, RECOMPUTES
from ...errors import InputError
from ...units import gigabytes, percent
from ..controls import Panel, Reading, columns, parse, shown, toggles, typed
from ..devices import memory_names
from ..sizes import name_slider, put, size_slider
from . import picture, state
from .accounting import DOCUMENT_MODELS, OWN, PARTS
from .state import PRESETS, Fix, State

OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam", "adamw", "adamw-fused", "adafactor",
              "adam-8bit", "galore")
_BATCHES = [*range(1, 65), 72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512]
_LENGTHS = [2**k for k in range(4, 18)]
_FIELDS = {"layers": "Layers", "width": "Width d", "heads": "Heads", "vocab": "Vocabulary",
           "context": "Context"}
_LABELS = {"accumulate": "Split the micro-batch, accumulate", "recompute": "Recompute every block",
           "flash": "Tile attention (flash)", "precision": "Narrower numbers"}
_NAMES = {"ironlaw-am-model": "Model", "ironlaw-am-optimizer": "Optimizer",
          "ironlaw-am-precision": "Recipe of number formats", "ironlaw-am-batch": "Micro-batch",
          "ironlaw-am-seq": "Sequence length S, tokens", "ironlaw-am-attention": "Attention",
          "ironlaw-am-recompute": "Recomputation", "ironlaw-am-accumulate":
          "Micro-batches per step", "ironlaw-am-device": "Device"}


class AdamMemoryPanel(Panel):
    """Model, recipe, batch and device; presets, fixes, and every change redraws."""

    def __init__(self, start: State) -> None:
        step = start.step
        self._outcome: state.Outcome | None = None
        self.model = toggles("Model", "ironlaw-am-model",
                             [*transformer.MODELS, *DOCUMENT_MODELS, OWN], step.model)
        own = step.shape or transformer.model("gpt2-124m")
        self.shape = {name: typed(label, f"ironlaw-am-{name}", shown(getattr(own, name)),
                                  width="215px") for name, label in _FIELDS.items()}
        self.optimizer = toggles("Optimizer", "ironlaw-am-optimizer", OPTIMIZERS, step.optimizer)
        self.precision = toggles("Recipe", "ironlaw-am-precision", PRECISIONS, step.precision)
        self.attention = toggles("Attention", "ironlaw-am-attention", ATTENTIONS, step.attention)
        self.recompute = toggles("Recompute", "ironlaw-am-recompute", RECOMPUTES, step.recompute)
        self.batch = size_slider("Micro-batch B", "ironlaw-am-batch", _BATCHES, step.batch)
        self.seq = size_slider("Sequence S", "ironlaw-am-seq", _LENGTHS, step.seq)
        self.accumulate = size_slider("Accumulate", "ironlaw-am-accumulate", _BATCHES,
                                      step.accumulate)
        self.device = name_slider("Device", "ironlaw-am-device", memory_names(), start.device)
        self.presets = [self._button(name, name, "The document's budget: " + name)
                        for name in PRESETS]
        self.fixes = {name: self._button(label, name, "Apply this fix to the step")
                      for name, label in _LABELS.items()}
        for name, button in zip(PRESETS, self.presets, strict=True):
            button.on_click(lambda _b, chosen=name: self.load(state.preset(chosen)))
        for name, button in self.fixes.items():
            button.on_click(lambda _b, chosen=name: self._apply(chosen))
        self.table = widgets.HTML()
        controls = [self.optimizer, self.precision, self.attention, self.recompute,
                    self.batch, self.seq, self.accumulate, self.device]
        wrap = widgets.Layout(flex_flow="row wrap", max_width="100%")
        self.own = columns(*([field] for field in self.shape.values()))
        self.own.layout.display = None if step.model == OWN else "none"
        super().__init__(
            picture.make(), self._answer,
            [widgets.HBox(list(self.fixes.values()), layout=wrap), self.table,
             widgets.HBox([widgets.HTML("The document's budgets:"), *self.presets], layout=wrap),
             self.model, self.own, *controls],
            [*controls, *self.shape.values()], _NAMES)
        self.model.observe(self._change_model, names="value")

    def _button(self, text: str, key: str, tip: str) -> widgets.Button:
        button = widgets.Button(description=text, tooltip=tip,
                                layout=widgets.Layout(width="auto", min_width="60px"))
        button.add_class("ironlaw-am-" + key.lower().replace(" ", "-").replace(",", ""))
        return button

    def _change_model(self, change: dict[str, Any]) -> None:
        """Another model: its context, and the document's recipe where only that counts it."""
        with self.together():
            self.own.layout.display = None if change["new"] == OWN else "none"
            printed = DOCUMENT_MODELS.get(change["new"])
            if printed is not None and self.precision.value not in ("document", "fp32"):
                self.precision.value, self.attention.value = "document", "materialised"
            if printed is not None and self.optimizer.value in OPTIMIZERS[-3:]:
                self.optimizer.value = "adamw"
            context = printed.context if printed else (
                transformer.MODELS[change["new"]].context if change["new"] != OWN else None)
            if context is not None:
                put(self.seq, context)

    def load(self, new: State) -> None:
        """Set all controls to `new`."""
        step = new.step
        with self.together():
            self.model.value = step.model
            for name in ("optimizer", "precision", "attention", "recompute"):
                getattr(self, name).value = getattr(step, name)
            for name in ("batch", "seq", "accumulate"):
                put(getattr(self, name), getattr(step, name))
            self.device.value = new.device

    def _apply(self, name: str) -> None:
        fix = next((f for f in self._outcome.fixes if f.name == name), None) \
            if self._outcome else None
        if fix is not None and fix.step is not None:
            self.load(State(fix.step, self.device.value, self.read().capacity))

    def read(self) -> State:
        """The state that the controls spell, or an error in the learner's own words."""
        return state.state_on(
            self.device.value, model=self.model.value, shape=self._own_shape(),
            batch=self.batch.value, seq=self.seq.value,
            accumulate=self.accumulate.value, precision=self.precision.value,
            optimizer=self.optimizer.value, attention=self.attention.value,
            recompute=self.recompute.value)

    def _own_shape(self) -> transformer.Shape | None:
        if self.model.value != OWN:
            return None
        sizes = {}
        for name, label in _FIELDS.items():
            value = parse(label, self.shape[name].value)
            if value is None or value != int(value):
                raise InputError(label, self.shape[name].value, "a whole number",
                                 "Type one, such as the preset's.")
            sizes[name] = int(value)
        return transformer.Shape(OWN, **sizes)

    def _answer(self) -> Reading:
        now = self.read()
        outcome = state.compute(now)
        self._outcome = outcome
        picture.update(self.canvas, now, outcome)
        for fix in outcome.fixes:
            self.fixes[fix.name].disabled = fix.step is None
        table = _table(outcome.fixes)
        if self.table.value != table:
            self.table.value = table
        here = outcome.now
        return Reading(picture.alt_text(now, outcome), state.describe(now, outcome), (
            ("fullest moment", gigabytes(here.peak)),
            ("state between steps", gigabytes(outcome.standing)),
            ("activations", gigabytes(here.activations)),
            ("logits", _logits(now, outcome)),
            ("fits" if outcome.free >= 0 else "stops at",
             f"{gigabytes(outcome.free)} free" if outcome.first_over is None
             else PARTS[outcome.first_over]),
            ("largest micro-batch", "unknown" if outcome.largest is None
             else f"{outcome.largest:,}" if outcome.largest else "none")))


def _logits(now: State, outcome: state.Outcome) -> str:
    """The tile for logits: counted for every shape, though gone by the optimizer's step."""
    if now.step.printed is not None:
        return "not counted"
    here = outcome.now.logits
    return gigabytes(here) if here else "0 B at this moment"


def _table(fixes: tuple[Fix, ...]) -> str:
    rows = []
    for fix in fixes:
        saves = "" if fix.memory is None else gigabytes(fix.saves) if fix.saves >= 0 \
            else f"−{gigabytes(-fix.saves)}"
        more = f"{percent(fix.extra_flops, 2)} more FLOP" if fix.extra_flops > 0 else ""
        cost = fix.cost if fix.cost.startswith(more) or not more else f"{fix.cost}; {more}"
        cells = (_LABELS[fix.name], saves or "no change", cost)
        rows.append("<tr>" + "".join(f'<td style="padding:0 14px 0 0;text-align:left">'
                                     f"{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f'<th scope="col" style="padding:0 14px 0 0;text-align:left">{name}</th>'
                   for name in ("Fix", "It buys", "It costs"))
    return (f'<table style="font-size:12px;line-height:1.35;max-width:{picture.WIDTH}px">'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")
