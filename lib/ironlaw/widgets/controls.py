"""The shell around a picture: labelled controls, typed numbers, a read-out that speaks.

Only parts that ipywidgets 7.7 and 8 both have (Colab ships 7.7.1), and only controls
that keep their keys in JupyterLab: a Dropdown, RadioButtons or Select would lose the
arrow keys to Lab's own commands. Numbers are typed into `Text` fields and read by
`parse`, because the numeric fields and the read-outs of number sliders silently clamp
what they are given; `number_slider` joins such a field to a slider.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from ..errors import InputError, IronlawError
from .canvas import THEME_CSS, Canvas, image_html

_LABEL_WIDTH = "125px"
SLIDER_WIDTH = "395px"
_FIELD_WIDTH = "285px"
_PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="

# ipywidgets gives a slider's handle no accessible name, and has no way to mark a
# region as live. An image that has loaded runs this once; the observer repeats it
# when a view is rebuilt. `aria-valuetext` speaks the read-out, not the slider's index.
_WIRING = """
(function wire(image, tries) {
  var root = image.closest('.ironlaw-panel');
  if (!root) {
    if (tries) setTimeout(function () { wire(image, tries - 1); }, 100);
    return;
  }
  var labels = JSON.parse(image.dataset.labels);
  function put(element, name, value) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
  function apply() {
    Object.keys(labels).forEach(function (key) {
      root.querySelectorAll('.' + key).forEach(function (box) {
        var spoken = box.querySelector('.widget-readout');
        var shown = box.querySelector('.widget-label');
        var name = labels[key] || (shown ? shown.textContent : key);
        box.querySelectorAll('.noUi-handle, .ui-slider-handle').forEach(function (handle) {
          put(handle, 'aria-label', name);
          if (spoken) put(handle, 'aria-valuetext', spoken.textContent);
        });
        var input = box.classList.contains('widget-text') && box.querySelector('input');
        if (input && !(shown && shown.textContent.trim())) {
          put(input, 'aria-label', name + ', typed');
        }
        if (box.classList.contains('widget-toggle-buttons')) {
          put(box, 'role', 'group');
          put(box, 'aria-label', name);
          box.querySelectorAll('button').forEach(function (button) {
            put(button, 'aria-pressed', String(button.classList.contains('mod-active')));
          });
        }
      });
    });
    root.querySelectorAll('.ironlaw-live .widget-html-content').forEach(function (region) {
      put(region, 'role', 'status');
      put(region, 'aria-live', 'polite');
    });
  }
  apply();
  new MutationObserver(apply).observe(root, {
    childList: true, subtree: true, characterData: true,
    attributes: true, attributeFilter: ['class']
  });
})(this, 100)
"""


_STYLE = (
    "<style>.ironlaw-tiles{display:flex;flex-wrap:wrap;gap:2px 26px;margin:2px 0}"
    ".ironlaw-tiles span{display:block;font-size:12px}"
    ".ironlaw-tiles b{font-size:16px;font-weight:600}"
    ".ironlaw-panel .widget-toggle-buttons{display:flex}"
    ".ironlaw-panel .widget-toggle-buttons>.widget-label{text-align:right;margin-right:8px}"
    ".ironlaw-panel .widget-toggle-buttons>div{display:flex;flex-wrap:wrap}"
    ".ironlaw-words{line-height:1.4;max-width:680px}"
    ".ironlaw-problem{border-left:4px solid #d55e00;padding-left:8px}"
    ".ironlaw-panel .widget-html-content{line-height:1.4}</style>"
)


@dataclass(frozen=True)
class Reading:
    """What a redraw says: the picture's alt text, a sentence or two, and figures to show big.

    `tiles` are (label, value) pairs.
    """

    alt: str
    words: str
    tiles: tuple[tuple[str, str], ...] = ()


class Panel:
    """A picture, a read-out and controls, kept in step.

    `respond` reads the controls, updates `canvas` and returns a `Reading`. When it
    raises an `IronlawError`, its words stand in the read-out and the last good picture
    stays. `watched` are the controls whose `value` redraws; those with a CSS class in
    `names` get that accessible name; an empty name stands for the control's visible
    label, which may change. `root` is the widget to display.
    """

    def __init__(
        self,
        canvas: Canvas,
        respond: Callable[[], Reading],
        rows: Sequence[widgets.Widget],
        watched: Iterable[widgets.Widget],
        names: dict[str, str],
    ) -> None:
        self.canvas = canvas
        self._respond = respond
        self._paused = False
        self.picture = widgets.HTML()
        self.words = widgets.HTML()
        self.words.add_class("ironlaw-live")
        self.root = widgets.VBox(
            [widgets.HTML(THEME_CSS + _STYLE + wiring(names)), self.picture,
             self.words, *rows])
        self.root.add_class("ironlaw-panel")
        for control in watched:
            control.observe(self.refresh, names="value")
        self.refresh()

    def refresh(self, _change: Any = None) -> None:
        """Read the controls and show what follows, or what is wrong with them."""
        if self._paused:
            return
        self._paused = True  # what `respond` writes back into the controls asks for no redraw
        try:
            reading = self._respond()
        except IronlawError as problem:
            self.words.value = (
                f'<div class="ironlaw-words ironlaw-problem">{html.escape(str(problem))} '
                "The picture still shows the last good input.</div>")
            return
        finally:
            self._paused = False
        # The picture goes last: being large, it carries the small message along.
        self.words.value = f'<div class="ironlaw-words">{html.escape(reading.words)}</div>'
        image = image_html(self.canvas.png(), reading.alt, self.canvas.width)
        self.picture.value = image + _tiles(reading.tiles)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Change several controls and redraw once, at the end."""
        was, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = was
        self.refresh()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.root)


def typed(label: str, key: str, value: str = "", placeholder: str = "",
          width: str = _FIELD_WIDTH) -> widgets.Text:
    """A field for a number; it takes effect on Enter or when the focus leaves it."""
    field = widgets.Text(value=value, description=label, placeholder=placeholder,
                         continuous_update=False, style={"description_width": _LABEL_WIDTH},
                         layout=widgets.Layout(width=width, max_width="100%"))
    field.add_class(key)
    return field


def slider(kind: str, label: str, key: str, **settings: Any) -> Any:
    """An ipywidgets slider of class `kind` ("FloatSlider", "SelectionSlider" ...)."""
    control = getattr(widgets, kind)(
        description=label, style={"description_width": _LABEL_WIDTH},
        layout=widgets.Layout(width=SLIDER_WIDTH, max_width="98%"), **settings)
    control.add_class(key)
    return control


def toggles(label: str, key: str, options: Sequence[str], value: str,
            button_width: str = "auto") -> widgets.ToggleButtons:
    """A row of buttons of which one is pressed."""
    control = widgets.ToggleButtons(
        options=list(options), value=value, description=label,
        style={"description_width": _LABEL_WIDTH, "button_width": button_width})
    control.add_class(key)
    return control


def columns(*groups: Sequence[widgets.Widget]) -> widgets.HBox:
    """Groups of controls side by side, or one below the other where the page is narrow."""
    boxes = [widgets.VBox(list(group), layout=widgets.Layout(max_width="100%"))
             for group in groups]
    return widgets.HBox(boxes, layout=widgets.Layout(flex_flow="row wrap"))


def parse(argument: str, text: str, unit: str = "") -> float | None:
    """The number that somebody typed, or None for an empty field.

    Takes 1500, 1,500, 1_500, 1 500 and 1.5e21; raises `InputError` otherwise, with a
    word about decimal commas.
    """
    plain = text.strip().replace("\N{MINUS SIGN}", "-")
    if not plain:
        return None
    if re.fullmatch(r"[+-]?\d{1,3}(?:[ ,_\u00a0\u202f]\d{3})+(?:\.\d+)?", plain):
        plain = re.sub(r"[ ,_\u00a0\u202f]", "", plain)
    try:
        value = float(plain)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(argument, text, f"a number{' in ' + unit if unit else ''}",
                         "Write it like 1500, 0.43 or 1.5e21, with a point for decimals.")
    return value


def shown(value: float | None) -> str:
    """A number as a field shows it, so that `parse` gives it back; "" for None."""
    if value is None:
        return ""
    return f"{value:.6g}" if value != int(value) or abs(value) >= 1e15 else str(int(value))


def _tiles(pairs: Sequence[tuple[str, str]]) -> str:
    cells = (f"<div><span>{html.escape(label)}</span><b>{html.escape(value)}</b></div>"
             for label, value in pairs)
    return f'<div class="ironlaw-tiles">{"".join(cells)}</div>'


def wiring(names: dict[str, str]) -> str:
    """HTML that gives controls with a CSS class in `names` that accessible name."""
    return (f'<img src="{_PIXEL}" alt="" style="display:none" '
            f'data-labels="{html.escape(json.dumps(names), quote=True)}" '
            f'onload="{html.escape(_WIRING.strip(), quote=True)}">')
