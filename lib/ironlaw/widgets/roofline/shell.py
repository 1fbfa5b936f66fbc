"""The controls of the roofline widget."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from ...errors import UnavailableError
from ...units import percent, si, significant
from ..controls import Panel, Reading, toggles
from ..devices import THIS_DEVICE, machine_names
from ..sizes import around_powers, name_slider, put, size_slider
from . import picture, state
from .state import MATERIALISED, OPERATIONS, TILED, State

_NAMES = {"ironlaw-rl-device": "Accelerator", "ironlaw-rl-dtype": "Number format",
          "ironlaw-rl-operation": "Operation to read out",
          **{f"ironlaw-rl-size{i}": "" for i in range(4)}}


class RooflinePanel(Panel):
    """Accelerator, format, operation and its sizes; every change redraws."""

    def __init__(self, start: State) -> None:
        self._sizes = dict(start.sizes)
        self._kept = list(start.kept)
        self._measured = start.measured
        offered, name = machine_names(), start.machine.name
        of_catalogue = name in offered and start.machine == state.known_machine(name)
        self.device = name_slider("Accelerator", "ironlaw-rl-device", offered,
                                  name if of_catalogue else THIS_DEVICE)
        self.dtype = toggles("Format", "ironlaw-rl-dtype", list(start.machine.peaks), start.dtype)
        self.operation = toggles("Operation", "ironlaw-rl-operation", list(OPERATIONS),
                                 start.operation)
        self.sizes = [size_slider("", f"ironlaw-rl-size{i}", around_powers(1, state.LARGEST), 1)
                      for i in range(4)]
        self.keep = widgets.Button(description="Keep this point", tooltip="Leave this point in the "
                                   "picture while the sizes move on")
        self.own = widgets.Button(description="This device", tooltip="Draw the roof of the device "
                                  "in front of you, in the format of lab 3's points")
        self.clear = widgets.Button(description="Clear kept points",
                                    tooltip="Take the kept points away")
        self._load_sizes()
        super().__init__(
            picture.make(), self._answer,
            [self.device, self.dtype, self.operation, *self.sizes,
             widgets.HBox([self.own, self.keep, self.clear])],
            [self.dtype, *self.sizes], _NAMES)
        self.device.observe(self._change_device, names="value")
        self.operation.observe(self._change_operation, names="value")
        self.own.on_click(self._show_own)
        self.keep.on_click(self._keep)
        self.clear.on_click(self._clear)

    def _load_sizes(self) -> None:
        """Show the sliders that the operation has, under its names, at its values."""
        operation = OPERATIONS[self.operation.value]
        for index, control in enumerate(self.sizes):
            used = index < len(operation.sizes)
            control.layout.display = None if used else "none"
            if used:
                label = operation.sizes[index][0]
                control.description = label[0].upper() + label[1:]
                put(control, self._sizes[operation.name][index])

    def _change_device(self, change: dict[str, Any]) -> None:
        """Offer the new accelerator's formats; keep the present one where it has it."""
        with self.together():
            try:
                known = state.known_machine(change["new"], self._measured)
            except UnavailableError:
                return  # the redraw that follows says so, and how to mend it
            wanted = self.dtype.value
            self.dtype.options = list(known.peaks)
            self.dtype.value = wanted if wanted in known.peaks else known.usual_dtype

    def _change_operation(self, _change: dict[str, Any]) -> None:
        with self.together():
            self._load_sizes()

    def _show_own(self, _button: Any) -> None:
        with self.together():
            self.device.value = THIS_DEVICE
            roof = state.own_roof(self._measured)
            if roof is not None:
                self.dtype.value = roof.usual_dtype

    def _keep(self, _button: Any) -> None:
        point = (self.operation.value, self._sizes[self.operation.value])
        others = [p for p in self._kept if p != point]
        self._kept = [*others[1 - picture.MOST_KEPT:], point]
        self.refresh()

    def _clear(self, _button: Any) -> None:
        self._kept = []
        self.refresh()

    def read(self) -> State:
        """The state that the controls spell, or an error in the learner's own words."""
        name = self.operation.value
        used = len(OPERATIONS[name].sizes)
        self._sizes[name] = tuple(s.value for s in self.sizes[:used])
        for one, other in ((MATERIALISED, TILED), (TILED, MATERIALISED)):
            if name == one:  # both draw the same attention, so that the arrow compares like
                self._sizes[other] = self._sizes[one][:3] + self._sizes[other][3:]
        known = state.known_machine(self.device.value, self._measured)
        return State(machine=known, dtype=self.dtype.value, operation=name,
                     sizes=dict(self._sizes), kept=tuple(self._kept), measured=self._measured)

    def _answer(self) -> Reading:
        now = self.read()
        outcome = state.compute(now)
        picture.update(self.canvas, now, outcome)
        here = outcome.chosen
        return Reading(picture.alt_text(now, outcome), state.describe(now, outcome), (
            ("intensity", f"{significant(here.intensity)} FLOP/B"),
            ("ridge", f"{significant(outcome.ridge)} FLOP/B"),
            ("attainable", si(here.attainable, "FLOP/s")),
            ("of the peak", percent(here.attainable / now.peak)),
            ("bound by", here.bound)))
