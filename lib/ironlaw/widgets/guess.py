"""Guess first: a number committed before the answer is shown, and kept.

    from ironlaw.widgets import guess
    guess.show("ch1.gpt2xl_days", "How many days would one A100 need for GPT-2 XL?",
               unit="days", answer=lambda: ...)

Committing takes two presses: the first says what was understood, so that a slip of the
finger can still be mended; the second shows the answer, and from then on the guess stays
(`workspace.guess`), also over a restart of the kernel: running the cell again shows it
beside the outcome. Enter in the field does what the button does. Taught in: every chapter.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from .. import workspace
from ..errors import InputError, IronlawError, number
from ..units import significant
from .controls import parse, wiring

_NAMES = {"ironlaw-guess": "Your guess"}
_COMMIT, _SHOW = "Commit", "Show the answer"


def show(
    id: str, question: str, *, unit: str = "", answer: float | Callable[[], float],
    explain: str = "", then: Callable[[], Any] | None = None, positive: bool = True,
) -> None:
    """Ask for a number; show `answer` (in `unit`) only after one was committed.

    `id` names the guess in the learner's state. `explain` is a sentence for after the
    comparison; `then` is called once the guess is committed and what it returns is
    displayed below (a widget to move, for instance). A guess of zero or less is refused
    unless `positive` is False. Raises `InputError` for an empty id or question.
    """
    from IPython.display import display

    display(Guess(id, question, unit=unit, answer=answer, explain=explain, then=then,
                  positive=positive).root)


class Guess:
    """The shell: question, field, button, and the comparison. `root` is displayed."""

    def __init__(
        self, id: str, question: str, *, unit: str = "", answer: float | Callable[[], float],
        explain: str = "", then: Callable[[], Any] | None = None, positive: bool = True,
    ) -> None:
        for name, text in (("id", id), ("question", question)):
            if not isinstance(text, str) or not text.strip():
                raise InputError(name, text, "a text that is not empty")
        self.id, self.unit = id, unit
        self._answer, self._explain, self._then = answer, explain, then
        self._positive = positive
        self._understood: float | None = None  # what the first press read, until it is edited
        self.field = widgets.Text(
            description="Your guess", placeholder=unit or "a number",
            layout=widgets.Layout(width="260px"), style={"description_width": "80px"})
        self.field.add_class("ironlaw-guess")
        self.commit = widgets.Button(description=_COMMIT, layout=widgets.Layout(width="140px"),
                                     tooltip="Commit this guess; the first one stays")
        self.words = widgets.HTML()
        self.words.add_class("ironlaw-live")
        self.entry = widgets.HBox([self.field, widgets.Label(unit), self.commit],
                                  layout=widgets.Layout(flex_flow="row wrap"))
        self.more = widgets.VBox([])
        prompt = _box(question).replace("<div", '<div class="ironlaw-question"', 1)
        self.root = widgets.VBox([widgets.HTML(prompt + wiring(_NAMES)), self.entry, self.words,
                                  self.more])
        self.root.add_class("ironlaw-panel")
        self.commit.add_class("ironlaw-commit")
        self.commit.on_click(self._press)
        self.field.observe(self._edit, names="value")
        # A Text sends this on Enter in ipywidgets 7 and 8 alike; its own `on_submit` is
        # deprecated in 8.
        self.field.on_msg(self._enter)
        earlier = workspace.get("guesses").get(id)
        if earlier is not None:
            self._reveal(float(earlier["value"]))

    def _enter(self, _field: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("event") == "submit":
            self._press()

    def _edit(self, _change: Any) -> None:
        """Another number asks to be read again.

        It also makes Enter safe: a browser sends it at once, but holds the last keystrokes
        back while the kernel is busy. The guess that is kept is one that was shown.
        """
        if self._understood is not None:
            self._understood = None
            self.commit.description = _COMMIT
            self.words.value = ""

    def _press(self, _source: Any = None) -> None:
        """Commit, or, when the same number was understood before, show the answer."""
        if self.entry.layout.display == "none":  # an Enter too many
            return
        try:
            value = self._read()
            if value != self._understood:
                self._understood = value
                self.commit.description = _SHOW
                exactly = f"{value:,.10g} {self.unit}".strip()
                self.words.value = _box(
                    f"Your guess is {exactly}. A slip? Then correct it now: once you have seen "
                    "the answer it stays. Else press the button, or Enter, again.")
                return
            workspace.guess(self.id, value, self.unit)
        except (IronlawError, OSError) as problem:
            self.words.value = _box(str(problem))
            return
        self._reveal(float(workspace.get("guesses")[self.id]["value"]))

    def _read(self) -> float:
        value = parse("guess", self.field.value, self.unit)
        if value is None:
            raise InputError("guess", self.field.value, "a number",
                             "A rough one will do: the point is to have said it.")
        return number("guess", value, above=0.0, unit=self.unit,
                      next_step="The answer is more than zero: say how much you expect."
                      ) if self._positive else value

    def _reveal(self, value: float) -> None:
        self.entry.layout.display = "none"
        outcome = self._answer() if callable(self._answer) else self._answer
        words = compare(value, number("answer", outcome), self.unit)
        self.words.value = _box(f"{words} {self._explain}".strip())
        if self._then is not None:
            shown = self._then()
            self.more.children = (getattr(shown, "root", shown),)


def compare(guess: float, answer: float, unit: str = "") -> str:
    """Guess against outcome in a sentence: the ratio where both are positive."""
    start = f"You guessed {_quantity(guess, unit)}; it is {_quantity(answer, unit)}."
    if guess <= 0 or answer <= 0:
        return f"{start} You were {_quantity(abs(guess - answer), unit)} off."
    ratio = guess / answer
    factor = max(ratio, 1 / ratio)
    if math.isclose(ratio, 1.0, rel_tol=0.005):
        return f"{start} That is it."
    side = "high" if ratio > 1 else "low"
    if factor < 1.1:
        return f"{start} Close: {significant(100 * (factor - 1), 2)} % too {side}."
    if factor < 2:
        return f"{start} Too {side} by a factor of {significant(factor)}: the right size."
    if factor < 10:
        return f"{start} Too {side} by a factor of {significant(factor)}."
    orders = significant(math.log10(factor), 2)
    return f"{start} Too {side} by a factor of {significant(factor)}: {orders} orders of magnitude."


def _quantity(value: float, unit: str) -> str:
    return f"{significant(value)} {unit}".strip()


def _box(words: str) -> str:
    return f'<div style="max-width:680px;line-height:1.4">{html.escape(words)}</div>'
