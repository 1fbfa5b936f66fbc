"""A slider for coarse moves and a field for exact numbers, which always agree.

The number sliders of ipywidgets let one type into their read-out, and then change what
was typed: 307 becomes 304, 2 becomes the maximum, "45%" too. Here the field is the
truth. What is typed stays as typed: the slider takes it in as a position of its own, or,
when it is no number that is allowed, stands still while the read-out says what is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets

from ..errors import InputError
from .controls import SLIDER_WIDTH, parse, shown, slider

_FIELD_WIDTH = "76px"


class NumberSlider:
    """Any number from the lowest to the highest of `grid`, slid or typed.

    The slider stops at the numbers of `grid`; the field takes any between its ends, or
    with `whole` any whole one. `argument` names it in errors, `say` writes it in the
    field, `next_step` follows in an error. `root` is the row to display, `value` the
    number. It is observed like a control of ipywidgets (`observe(handler, names="value")`).
    """

    def __init__(
        self, label: str, key: str, grid: Iterable[float], value: float, *, argument: str,
        say: Callable[[float], str] = shown, whole: bool = False, next_step: str = "",
    ) -> None:
        self.argument, self._next_step = argument, next_step
        self._say, self._whole = say, whole
        self._grid = tuple(sorted(set(grid)))
        start = self._checked(value, value)
        self.slider = slider("SelectionSlider", label, key, options=self._options(start),
                             value=start, readout=False)
        self.slider.layout = widgets.Layout(flex="1 1 auto", width="auto", min_width="0")
        self.field = widgets.Text(value=self._written(start), continuous_update=False,
                                  layout=widgets.Layout(width=_FIELD_WIDTH, flex="0 0 auto"))
        self.field.add_class(key)
        self.root = widgets.HBox([self.slider, self.field], layout=widgets.Layout(
            width=SLIDER_WIDTH, max_width="98%"))
        self._following = False
        self.slider.observe(self._moved, names="value")
        self.field.observe(self._follow, names="value")

    @property
    def value(self) -> Any:
        """The number in the field (an int if `whole`); `InputError` when it is not allowed."""
        text = self.field.value
        try:
            number = parse(self.argument, text)
        except InputError:
            number = None
        return self._checked(number, text)

    @value.setter
    def value(self, value: float) -> None:
        self.field.value = self._written(self._checked(value, value))

    def observe(self, handler: Callable[[Any], None], names: str = "value") -> None:
        """Call `handler` after every change, typed or slid, allowed or not."""
        self.field.observe(handler, names=names)

    def regrid(self, grid: Iterable[float], value: float) -> None:
        """Another range and grid, and a number in it."""
        self._grid = tuple(sorted(set(grid)))
        self._place(self._checked(value, value))
        self.value = value

    def _checked(self, number: float | None, given: Any) -> float:
        low, high = self._grid[0], self._grid[-1]
        if number is not None and low <= number <= high:
            if not self._whole:
                return float(number)
            if number == int(number):
                return int(number)
        kind = "a whole number" if self._whole else "a number"
        raise InputError(self.argument, given, f"{kind} from {self._ends(low)} to "
                         f"{self._ends(high)}", self._next_step or "Type one, or move the slider.")

    def _ends(self, end: float) -> str:
        return f"{end:,}" if self._whole else self._say(end)

    def _options(self, value: float) -> list[tuple[str, float]]:
        return [(self._written(v), v) for v in sorted({*self._grid, value})]

    def _written(self, value: float) -> str:
        """`value` as `say` writes it, unless that would change it."""
        text = self._say(value)
        return text if parse(self.argument, text) == value else repr(value)

    def _moved(self, change: dict[str, Any]) -> None:
        if not self._following:
            self.field.value = self._written(change["new"])

    def _follow(self, _change: Any) -> None:
        try:
            value = self.value
        except InputError:
            return  # the redraw that follows says so; the slider stays where it was
        if value != self.slider.value:
            self._place(value)

    def _place(self, value: float) -> None:
        """Put the slider at `value`, offered for as long as nothing else is typed."""
        self._following = True
        try:
            # One message: between new options and a new index a browser would answer
            # with an index of its own.
            with self.slider.hold_sync():
                self.slider.options = self._options(value)
                self.slider.value = value
        finally:
            self._following = False


def decimals(digits: int) -> Callable[[float], str]:
    """A `say` with so many decimals, such as 0.40."""
    return lambda value: f"{value:.{digits}f}"


def steps(low: float, high: float, step: float) -> list[float]:
    """Numbers from low to high, `step` apart, each the float that its decimals spell."""
    return [round(low + k * step, 9) for k in range(round((high - low) / step) + 1)]
