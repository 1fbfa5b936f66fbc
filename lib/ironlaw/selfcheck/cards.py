"""Cards: a question in the notebook that answers back.

Everything is a button, a checkbox or a text field: the controls that keep their keys in
JupyterLab, in ipywidgets 7.7 and 8. What is chosen stands in the button's own label, so
that a screen reader hears it and no colour is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import checks, page, record
from .card import CHOSEN, OPEN, Card, PickCard, beside, text_field
from .checks import Verdict
from .kinds import Choice, FillIn, Item, Order, TrueFalse, Written
from .text import to_html, to_plain

if TYPE_CHECKING:
    import ipywidgets as w


def show(items: list[Item]) -> None:
    """Display the items one after another, as cards where that is possible."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        notebook = False
    else:
        notebook = get_ipython() is not None
    for item in items:
        if notebook:
            display(bundle(item), raw=True)
        else:
            print(page.plain(item), end="\n\n")


def bundle(item: Item) -> dict[str, Any]:
    """The card as a display bundle: live widget, HTML to read, plain text."""
    data: dict[str, Any] = {"text/plain": page.plain(item), "text/html": page.static(item)}
    try:
        root = card(item).root
    except ImportError:
        return data
    data["application/vnd.jupyter.widget-view+json"] = {
        "version_major": 2, "version_minor": 0, "model_id": root.model_id}
    return data


def card(item: Item) -> Card:
    """The card that fits the item's kind."""
    kinds: dict[type, Callable[..., Card]] = {
        Choice: ChoiceCard, TrueFalse: TrueFalseCard, Order: OrderCard, FillIn: FillInCard,
        Written: WrittenCard}
    return kinds[type(item)](item)


class ChoiceCard(PickCard):
    """Letters beside their texts: a long option wraps and stays readable."""

    item: Choice

    def controls(self) -> list[w.Widget]:
        options = self.item.options
        picks = self.pick_buttons([o.letter for o in options],
                                  [f"{o.letter}: {to_plain(o.text)}" for o in options])
        for button in picks:
            button.layout.min_width = button.layout.width = "4em"
            button.layout.flex = "0 0 auto"
        return [beside(self.w, button, f"<p>{to_html(o.text)}</p>")
                for button, o in zip(picks, options, strict=True)]


class TrueFalseCard(PickCard):
    """True or false, and a reason that is compared with a model once it is checked."""

    item: TrueFalse

    def controls(self) -> list[w.Widget]:
        picks = self.pick_buttons(["True", "False"], ["The statement holds",
                                                      "The statement does not hold"])
        self.reason = text_field(self.w, "Your reason, to be compared with ours",
                                 "Why? One or two sentences.", 3)
        self.reason.observe(lambda change: self.saved(
            lambda: record.amend(self.item, reason=change["new"])), "value")
        stored = record.entry(self.item).get("reason")
        if isinstance(stored, str):
            self.reason.value = stored
        return [self.w.HBox(picks), self.reason]

    def answer(self) -> bool | None:
        return None if self.chosen is None else self.chosen == "True"

    def put(self, answer: Any) -> None:
        self.pick(str(answer) if isinstance(answer, bool) else None)


class FillInCard(Card):
    """A word to fill into the gap."""

    item: FillIn

    def controls(self) -> list[w.Widget]:
        self.field = self.w.Text(description="The missing word",
                                 style={"description_width": "initial"},
                                 layout=self.w.Layout(width="28em", max_width="100%"))
        return [self.field]

    def answer(self) -> str:
        return str(self.field.value)

    def put(self, answer: Any) -> None:
        self.field.value = answer if isinstance(answer, str) else ""


class OrderCard(Card):
    """Rows to move: choose one, then move it up or down; focus stays on the button pressed."""

    item: Order

    def controls(self) -> list[w.Widget]:
        self.order = [r.number for r in self.item.rows]
        self.held: int | None = None
        self.picks: list[Any] = []
        self.texts: list[Any] = []
        rows = []
        for place in range(len(self.order)):
            pick = self.button("", functools.partial(self.hold, place), "Choose this row")
            pick.layout.min_width = pick.layout.width = "5em"
            pick.layout.flex = "0 0 auto"
            row = beside(self.w, pick, "")
            self.picks.append(pick)
            self.texts.append(row.children[1])
            rows.append(row)
        self.where = self.w.HTML()
        moves = [self.button("▲ Move up", functools.partial(self.move, -1),
                             "Move the chosen row one place up"),
                 self.button("▼ Move down", functools.partial(self.move, 1),
                             "Move the chosen row one place down")]
        self.draw()
        self.say("Choose a row by its number, then move it up or down.", alert=False)
        return [*rows, self.w.HBox(moves), self.where]

    def hold(self, place: int) -> None:
        self.held = self.order[place]
        self.draw()
        self.say(f"Row {self.held} is chosen, in place {place + 1} of {len(self.order)}.")

    def move(self, step: int) -> None:
        if self.held is None:
            self.say("Choose a row first: press the button with its number.")
            return
        place = self.order.index(self.held)
        target = place + step
        if not 0 <= target < len(self.order):
            end = "first" if step < 0 else "last"
            self.say(f"Row {self.held} is already {end}.")
            return
        self.order[place], self.order[target] = self.order[target], self.order[place]
        self.draw()
        self.say(f"Row {self.held} is now in place {target + 1} of {len(self.order)}.")

    def draw(self) -> None:
        for number, pick, text in zip(self.order, self.picks, self.texts, strict=True):
            held = number == self.held
            pick.description = f"{CHOSEN if held else OPEN} ({number})"
            body = to_html(self.item.row(number).text)
            text.value = f"<p>{f'<strong>{body}</strong>' if held else body}</p>"

    def say(self, words: str, alert: bool = True) -> None:
        role = " role='alert' aria-live='assertive'" if alert else ""
        self.where.value = f"<p class='ironlaw-meta'{role}>{words}</p>"

    def answer(self) -> list[int]:
        return list(self.order)

    def put(self, answer: Any) -> None:
        numbers = [r.number for r in self.item.rows]
        fits = isinstance(answer, list) and sorted(answer, key=str) == numbers
        self.order = list(answer) if fits else numbers
        self.held = None
        self.draw()


class WrittenCard(Card):
    """A text, then a model answer and a rubric by which the learner marks it."""

    item: Written
    check_label = "Compare with a model"
    retry_label = "Back to writing"

    def controls(self) -> list[w.Widget]:
        self.restoring = False
        self.field = text_field(self.w, "Your answer", "In your own words.", 7)
        self.field.observe(lambda change: self.on_draft(change["new"]), "value")
        self.boxes = []
        for line in self.item.rubric:
            worth = "1 point" if line.points == 1 else f"{line.points} points"
            box = self.w.Checkbox(value=False, indent=False, layout=self.w.Layout(width="auto"),
                                  description=f"{worth}: {to_plain(line.text)}")
            box.observe(lambda _: self.on_mark(), "value")
            self.boxes.append(box)
        self.total = self.w.HTML()
        self.rubric = self.w.VBox([
            self.w.HTML("<p><strong>Mark it yourself.</strong> Tick what your answer says.</p>"),
            *self.boxes, self.total])
        self.show_rubric(False)
        return [self.field]

    def reopen(self) -> None:
        self.root.children = (*self.root.children, self.rubric)
        self.reveal_button.layout.display = "none"
        stored = record.entry(self.item)
        marks = stored.get("marks")
        ticks = marks if isinstance(marks, list) and len(marks) == len(self.boxes) else []
        self.restoring = True  # a half-restored set of ticks must not be saved
        self.put(stored.get("draft", stored.get("answer")))
        for box, yes in zip(self.boxes, ticks, strict=False):
            box.value = bool(yes)
        self.restoring = False
        if stored.get("state"):
            self.tell(checks.check(self.item, self.field.value), again=True)
            self.show_total(alert=False)

    def on_check(self) -> None:
        """Submit the text; ticks that are there already still count."""
        super().on_check()
        if self.rubric.layout.display == "" and any(b.value for b in self.boxes):
            self.on_mark()

    def tell(self, verdict: Verdict, again: bool = False) -> None:
        if verdict.state != "to be marked":
            super().tell(verdict, again)
        else:
            lead = "Your earlier answer stands above." if again else "Your answer is kept."
            self.feedback.value = page.note(
                f"<p>{lead} Compare it with the model answer, then mark it yourself below.</p>",
                alert=not again)
            self.more.value = page.note(page.explanation(self.item))
            self.show_rubric(True)

    def on_retry(self) -> None:
        """Go back to writing: the text stays, the model answer goes."""
        self.feedback.value = self.more.value = ""
        self.show_rubric(False)

    def on_draft(self, text: str) -> None:
        if not self.restoring:
            self.saved(lambda: record.amend(self.item, draft=text))

    def on_mark(self) -> None:
        if self.restoring:
            return
        ticked = [bool(b.value) for b in self.boxes]
        self.saved(lambda: record.mark(self.item, ticked))
        self.show_total()

    def show_total(self, alert: bool = True) -> None:
        earned = sum(r.points for r, box in zip(self.item.rubric, self.boxes, strict=True)
                     if box.value)
        self.total.value = page.note(
            f"<p>{earned} of {self.item.points} points.</p>",
            "right" if earned == self.item.points else "", alert=alert)

    def show_rubric(self, yes: bool) -> None:
        self.rubric.layout.display = "" if yes else "none"

    def answer(self) -> str:
        return str(self.field.value)

    def put(self, answer: Any) -> None:
        self.field.value = answer if isinstance(answer, str) else ""
