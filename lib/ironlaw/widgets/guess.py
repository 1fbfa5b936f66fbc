"""Guess first: a number committed before the answer is shown, and kept.

    from ironlaw.widgets import guess
    guess.show("ch1.gpt2xl_days", "How many days would one A100 need for GPT-2 XL?",
               unit="days", answer=lambda: ...)

The first guess stays (`workspace.guess`), also over a restart of the kernel: running
the cell again shows it beside the outcome. Taught in: every chapter.
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


def show(
    id: str, question: str, *, unit: str = "", answer: float | Callable[[], float],
    explain: str = "", then: Callable[[], Any] | None = None,
) -> None:
    """Ask for a number; show `answer` (in `unit`) only after one was committed.

    `id` names the guess in the learner's state. `explain` is a sentence for after the
    comparison; `then` is called once the guess is committed and what it returns is
    displayed below (a widget to move, for instance). Raises `InputError` for an empty
    id or question.
    """
    from IPython.display import display

    display(Guess(id, question, unit=unit, answer=answer, explain=explain, then=then).root)


class Guess:
    """The shell: question, field, button, and the comparison. `root` is displayed."""

    def __init__(
        self, id: str, question: str, *, unit: str = "", answer: float | Callable[[], float],
        explain: str = "", then: Callable[[], Any] | None = None,
    ) -> None:
        for name, text in (("id", id), ("question", question)):
            if not isinstance(text, str) or not text.strip():
                raise InputError(name, text, "a text that is not empty")
        self.id, self.unit = id, unit
        self._answer, self._explain, self._then = answer, explain, then
        self.field = widgets.Text(
            description="Your guess", placeholder=unit or "a number",
            layout=widgets.Layout(width="260px"), style={"description_width": "80px"})
        self.field.add_class("ironlaw-guess")
        self.commit = widgets.Button(description="Commit", layout=widgets.Layout(width="90px"),
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
        self.commit.on_click(self._commit)
        earlier = workspace.get("guesses").get(id)
        if earlier is not None:
            self._reveal(float(earlier["value"]))

    def _commit(self, _source: Any = None) -> None:
        try:
            value = parse("guess", self.field.value, self.unit)
            if value is None:
                raise InputError("guess", self.field.value, "a number",
                                 "A rough one will do: the point is to have said it.")
            workspace.guess(self.id, value, self.unit)
        except (IronlawError, OSError) as problem:
            self.words.value = _box(str(problem))
            return
        self._reveal(float(workspace.get("guesses")[self.id]["value"]))

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
    def quantity(value: float) -> str:
        return f"{significant(value)} {unit}".strip()

    start = f"You guessed {quantity(guess)}; it is {quantity(answer)}."
    if guess <= 0 or answer <= 0:
        return f"{start} You were {quantity(abs(guess - answer))} off."
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


def _box(words: str) -> str:
    return f'<div style="max-width:680px;line-height:1.4">{html.escape(words)}</div>'
