"""The controls of the iron-law widget."""

from __future__ import annotations

import html
import math
from typing import Any

import ipywidgets as widgets

from ... import transformer
from ...errors import InputError, UnavailableError, choice, count, number, positive
from ...predict.iron_law import training_flops
from ...units import DAY, counted, dollars, duration, si
from ..controls import Panel, Reading, columns, parse, shown, slider, toggles, typed
from ..number_slider import NumberSlider, decimals, steps
from . import picture, state
from .state import Device, State

OWN_MODEL, OWN_O = "own model", "own O"
NOT_KNOWN = "not known: type yours"
_NAMES = {
    "ironlaw-workload": "Workload",
    "ironlaw-accelerator": "Accelerator",
    "ironlaw-dtype": "Number format of the peak",
    "ironlaw-count": "Number of accelerators",
    "ironlaw-eta": "Utilisation, eta",
    "ironlaw-spare": "Share of the tokens you could leave out",
}


class IronLawPanel(Panel):
    """Workload, hardware, deadline and prices; every change redraws."""

    def __init__(
        self, workload: str = "GPT-2 XL", *, accelerator: str = "H100 SXM",
        dtype: str | None = None, utilisation: float = 0.40, accelerators: int = 8,
        deadline_days: float = 3.0, price: float | None = None, watts: float | None = None,
        pue: float = state.DOCUMENT_PUE, kg_per_kwh: float = state.DOCUMENT_KG_PER_KWH,
        spare: float = 0.0,
    ) -> None:
        run = transformer.workload(workload)
        chip = state.device(accelerator)
        count("accelerators", accelerators, high=state.MOST_ACCELERATORS)
        # What was typed for one accelerator comes back when it is chosen again.
        self._typed: dict[tuple[str, str], str] = {}
        self.workload = toggles(
            "Workload", "ironlaw-workload",
            [*transformer.WORKLOADS, OWN_MODEL, OWN_O], run.name)
        self.parameters = typed("P, in billions", "ironlaw-p", shown(run.parameters / 1e9),
                                width="215px")
        self.tokens = typed("D, in billions", "ironlaw-d", shown(run.tokens / 1e9),
                            width="215px")
        self.operations = typed("O, in FLOP", "ironlaw-o",
                                shown(training_flops(run.parameters, run.tokens)), width="240px")
        self.source = widgets.HTML()
        self.accelerator = slider("SelectionSlider", "Accelerator", "ironlaw-accelerator",
                                  options=state.device_names(),
                                  value=accelerator if accelerator == state.THIS_DEVICE
                                  else chip.name)
        formats = list(chip.peaks)
        self.dtype = toggles("Peak of", "ironlaw-dtype", formats,
                             choice("dtype", dtype or chip.usual_dtype, formats))
        self.count = NumberSlider(
            "Accelerators", "ironlaw-count",
            {round(2 ** (k / 4)) for k in range(4 * 16 + 1)}, accelerators,
            argument="accelerators", whole=True)
        self.eta = NumberSlider(
            "Utilisation η", "ironlaw-eta", steps(0.01, 1.0, 0.01),
            number("utilisation", utilisation, low=0.01, high=1), argument="utilisation η",
            say=decimals(2), next_step="η is a fraction: write 0.45 for 45 %.")
        self.spare = NumberSlider(
            "Tokens to spare, %", "ironlaw-spare", range(0, 95, 5),
            round(100 * number("spare", spare, low=0, high=0.9), 9), argument="tokens to spare, %")
        self.deadline = typed("Deadline, days", "ironlaw-deadline",
                              shown(positive("deadline_days", deadline_days)))
        self.price = typed("Price, $ per hour", "ironlaw-price",
                           shown(chip.price if price is None else price), NOT_KNOWN)
        self.watts = typed("Power, watts", "ironlaw-watts",
                           shown(chip.watts if watts is None else watts), NOT_KNOWN)
        self.pue = typed("PUE", "ironlaw-pue", shown(pue))
        self.grid = typed("Grid, kg CO2/kWh", "ironlaw-grid", shown(kg_per_kwh), NOT_KNOWN)
        self.notes = widgets.HTML()
        super().__init__(
            picture.make(), self._answer,
            [self.workload,
             columns([self.parameters], [self.tokens], [self.operations]),
             self.source,
             columns([self.accelerator, self.dtype, self.count.root, self.eta.root,
                      self.spare.root],
                     [self.deadline, self.price, self.watts, self.pue, self.grid]),
             self.notes],
            [self.parameters, self.tokens, self.operations, self.dtype, self.count, self.eta,
             self.spare, self.deadline, self.price, self.watts, self.pue, self.grid],
            _NAMES)
        self._enable_fields()
        self.workload.observe(self._change_workload, names="value")
        self.accelerator.observe(self._change_device, names="value")

    def _enable_fields(self) -> None:
        own_model, own_operations = (self.workload.value == o for o in (OWN_MODEL, OWN_O))
        self.parameters.disabled = self.tokens.disabled = not own_model
        self.operations.disabled = not own_operations
        run = transformer.WORKLOADS.get(self.workload.value)
        words = run.source if run else ("O = 6 P D." if own_model else "Any O that you like.")
        self.source.value = _small(words)

    def _change_workload(self, change: dict[str, Any]) -> None:
        """A known run fills the fields; a run of one's own starts from what stands there."""
        run = transformer.WORKLOADS.get(change["new"])
        with self.together():
            self._enable_fields()
            if run is not None:
                self.parameters.value = shown(run.parameters / 1e9)
                self.tokens.value = shown(run.tokens / 1e9)

    def _change_device(self, change: dict[str, Any]) -> None:
        """Offer the new accelerator's formats, its price and its power."""
        for name, field in (("price", self.price), ("watts", self.watts)):
            self._typed[change["old"], name] = field.value
        with self.together():
            try:
                chip = state.device(change["new"])
            except UnavailableError:  # the redraw that follows says so, and how to mend it
                self.price.value = self.watts.value = ""
                return
            if list(self.dtype.options) != list(chip.peaks):
                self.dtype.options = list(chip.peaks)
            self.dtype.value = chip.usual_dtype
            for name, field, listed in (("price", self.price, chip.price),
                                        ("watts", self.watts, chip.watts)):
                field.value = self._typed.get((change["new"], name), shown(listed))

    def read(self) -> State:
        """The state that the controls spell, or an error in the learner's own words."""
        chip = state.device(self.accelerator.value)
        return State(
            workload=self.workload.value, operations=self._operations(), device=chip.name,
            dtype=self.dtype.value, peak=chip.peak(self.dtype.value),
            utilisation=self.eta.value, accelerators=self.count.value,
            deadline=DAY * _needed("deadline", self.deadline, "days", above=0, high=1e7),
            price=_optional("price", self.price, "USD per accelerator-hour", high=1e6),
            watts=_optional("power", self.watts, "watts", above=0, high=1e6),
            pue=_needed("PUE", self.pue, "", low=1, high=10),
            kg_per_kwh=_optional("grid intensity", self.grid, "kg CO2 per kWh", high=100),
            spare=self.spare.value / 100)

    def _operations(self) -> float:
        if self.workload.value == OWN_O:
            return _needed("O", self.operations, "FLOP", low=1, high=1e36)
        run = transformer.WORKLOADS.get(self.workload.value)
        if run is not None:
            return training_flops(run.parameters, run.tokens)
        parameters = _needed("P", self.parameters, "billions", above=0, high=1e9)
        tokens = _needed("D", self.tokens, "billions of tokens", above=0, high=1e9)
        return training_flops(1e9 * parameters, 1e9 * tokens)

    def _answer(self) -> Reading:
        now = self.read()
        outcome = state.compute(now)
        picture.update(self.canvas, now, outcome)
        if self.workload.value != OWN_O:
            self.operations.value = shown(now.operations)
        self.notes.value = _folded("Where these figures come from, and what is assumed",
                                   _provenance(state.device(self.accelerator.value), now))
        return Reading(picture.alt_text(now, outcome), state.describe(now, outcome),
                       _tiles(now, outcome))


def _needed(
    argument: str, field: widgets.Text, unit: str, *, high: float, low: float = -math.inf,
    above: float | None = None,
) -> float:
    value = parse(argument, field.value, unit)
    if value is None:
        raise InputError(argument, field.value, f"a number{' in ' + unit if unit else ''}",
                         "Type one; the field is empty.")
    return number(argument, value, low=low, high=high, above=above, unit=unit)


def _optional(
    argument: str, field: widgets.Text, unit: str, *, high: float, above: float | None = None
) -> float | None:
    value = parse(argument, field.value, unit)
    return None if value is None else number(
        argument, value, low=0.0, high=high, above=above, unit=unit)


def _tiles(now: State, outcome: state.Outcome) -> tuple[tuple[str, str], ...]:
    return (
        ("time", duration(outcome.seconds)),
        (f"needed within {state.plain_duration(now.deadline)}",
         counted(outcome.needed, "accelerator")),
        ("cost", "not known" if outcome.cost is None else dollars(outcome.cost)),
        ("energy", "not known" if outcome.joules is None else state.energy(outcome.joules)),
        ("carbon, CO2",
         "not known" if outcome.carbon_kg is None else state.mass(outcome.carbon_kg)),
    )


def _provenance(chip: Device, now: State) -> str:
    lines = [f"R_peak: {si(now.peak, 'FLOP/s')} in {now.dtype.upper()} ({chip.peak_note}).",
             f"Price: {chip.price_note}.", f"Power: {chip.watts_note}."]
    lines.append("PUE and grid start at the document's own figures (table 19).")
    lines.append("Cost is accelerator-hours times the price; energy counts the accelerators and "
                 "PUE, not the hosts. η is taken to hold at any number of accelerators, which "
                 "a real network contests.")
    lines.append("O, R_peak and η each enter the law once, so the same factor on any of them "
                 "saves the same time: half the O, twice the R_peak and twice the η each halve "
                 "it. The bars show how far each could still go.")
    lines.append("Limits of the levers: O by the share of tokens you could leave out; R_peak by "
                 "the fastest dense BF16 or FP16 peak in the catalogue; η by "
                 f"{state.BEST_UTILISATION:g}, {state.BEST_UTILISATION_SOURCE}.")
    return " ".join(lines)


def _folded(title: str, words: str) -> str:
    """Words behind a triangle; Lab must leave it the keys that open it."""
    return (f'<details data-lm-suppress-shortcuts="true"><summary>{html.escape(title)}</summary>'
            f"{_small(words)}</details>")


def _small(words: str) -> str:
    return (f'<div style="font-size:12px;line-height:1.35;max-width:{picture.WIDTH}px">'
            f"{html.escape(words)}</div>")
