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
from .checks import Verdict
from .kinds import Choice, FillIn, Item, Order, TrueFalse, Written
from .text import to_html, to_plain

if TYPE_CHECKING:
    import ipywidgets as w

CHOSEN, OPEN = "●", "○"


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


class Card:
    """What all cards share: heading, stem, controls, Check, feedback, explanation, retry.

    `root` is the widget. A subclass gives `controls()`, the present `answer()`, and `put()`,
    which sets the controls from a stored answer.
    """

    check_label = "Check"

    def __init__(self, item: Any) -> None:
        import ipywidgets

        self.w = ipywidgets
        self.item = item
        self.feedback = ipywidgets.HTML()
        self.more = ipywidgets.HTML()
        self.check_button = self.button(self.check_label, self.on_check, f"Check {item.id}")
        self.check_button.button_style = "primary"
        self.reveal_button = self.button("Show the answer", self.on_reveal,
                                         f"Show the answer to {item.id} and why")
        self.retry_button = self.button("Try again", self.on_retry, f"Clear {item.id}")
        self.root = ipywidgets.VBox([
            ipywidgets.HTML(page.STYLE + page.heading(item) + page.stem(item)),
            *self.controls(),
            ipywidgets.HBox([self.check_button, self.reveal_button, self.retry_button],
                            layout=ipywidgets.Layout(flex_flow="row wrap")),
            self.feedback, self.more])
        self.root.add_class("ironlaw-card")
        self.reopen()

    def controls(self) -> list[w.Widget]:
        """The widgets between stem and buttons."""
        raise NotImplementedError

    def answer(self) -> Any:
        """The answer as the controls stand, in the form that `checks.check` takes."""
        raise NotImplementedError

    def put(self, answer: Any) -> None:
        """Set the controls to a stored answer, or to blank for None."""
        raise NotImplementedError

    def button(self, label: str, press: Callable[[], None], tip: str) -> w.Button:
        """A button that runs `press`."""
        made = self.w.Button(description=label, tooltip=tip,
                             layout=self.w.Layout(width="auto", min_width="7em"))
        made.on_click(lambda _: press())
        return made

    def reopen(self) -> None:
        """Show the earlier answer and its verdict, or a fresh card."""
        stored = record.entry(self.item)
        self.show_reveal(bool(stored.get("state")))
        if not stored.get("state"):
            return
        self.put(stored.get("answer"))
        self.tell(checks.check(self.item, stored.get("answer")), again=True)
        if stored.get("revealed"):
            self.more.value = page.note(page.explanation(self.item))

    def on_check(self) -> None:
        answer = self.answer()
        verdict = checks.check(self.item, answer)
        self.more.value = ""
        if verdict.state not in ("blank", "unreadable"):
            self.saved(lambda: record.keep(self.item, answer, verdict))
            self.show_reveal(True)
        self.tell(verdict)

    def on_reveal(self) -> None:
        self.saved(lambda: record.amend(self.item, revealed=True))
        self.more.value = page.note(page.explanation(self.item), alert=True)

    def on_retry(self) -> None:
        self.put(None)
        self.feedback.value = self.more.value = ""

    def tell(self, verdict: Verdict, again: bool = False) -> None:
        """Put the verdict into words. `again` marks one that was given earlier."""
        look = {"right": "right", "wrong": "wrong", "partly right": "wrong"}.get(verdict.state, "")
        lead = "Your earlier answer. " if again else ""
        body = f"<p>{lead}<strong>{to_html(verdict.message)}</strong></p>"
        if verdict.feedback:
            body += f"<p>{to_html(verdict.feedback)}</p>"
        self.feedback.value = page.note(body, look, alert=not again)
        if verdict.correct:
            self.more.value = page.note(page.explanation(self.item, known=True))
            self.show_reveal(False)

    def show_reveal(self, yes: bool) -> None:
        """The answer may be looked at once there has been a try."""
        self.reveal_button.disabled = not yes

    def saved(self, save: Callable[[], Any]) -> None:
        """Run `save`; a folder that cannot be written costs a sentence, not the answer."""
        try:
            save()
        except OSError as problem:
            self.more.value = page.note(
                f"<p>This answer could not be kept ({to_html(str(problem))}). Set IRONLAW_HOME "
                "to a folder that you may write to.</p>", "wrong", alert=True)


class PickCard(Card):
    """One of several labelled options; each option's button carries its state."""

    names: list[str]

    def pick_buttons(self, names: list[str], tips: list[str]) -> list[w.Button]:
        self.names = names
        self.chosen: str | None = None
        self.picks = [
            self.button(f"{OPEN} {name}", functools.partial(self.pick, name), tip)
            for name, tip in zip(names, tips, strict=True)]
        return self.picks

    def pick(self, name: str | None) -> None:
        self.chosen = name
        for known, button in zip(self.names, self.picks, strict=True):
            button.description = f"{CHOSEN if known == name else OPEN} {known}"

    def answer(self) -> Any:
        return self.chosen

    def put(self, answer: Any) -> None:
        self.pick(answer if answer in self.names else None)


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

    def controls(self) -> list[w.Widget]:
        self.field = text_field(self.w, "Your answer", "In your own words.", 7)
        self.field.observe(lambda change: self.saved(
            lambda: record.amend(self.item, draft=change["new"])), "value")
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
        stored = record.entry(self.item)
        self.put(stored.get("draft", stored.get("answer")))
        self.reveal_button.layout.display = "none"
        if not stored.get("state"):
            return
        marks = stored.get("marks")
        ticks = marks if isinstance(marks, list) and len(marks) == len(self.boxes) else []
        self.tell(checks.check(self.item, self.field.value), again=True)
        for box, yes in zip(self.boxes, ticks, strict=False):
            box.value = bool(yes)

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

    def on_mark(self) -> None:
        ticked = [bool(b.value) for b in self.boxes]
        self.saved(lambda: record.mark(self.item, ticked))
        earned = sum(r.points for r, yes in zip(self.item.rubric, ticked, strict=True) if yes)
        self.total.value = page.note(
            f"<p>{earned} of {self.item.points} points.</p>",
            "right" if earned == self.item.points else "", alert=True)

    def show_rubric(self, yes: bool) -> None:
        self.rubric.layout.display = "" if yes else "none"

    def answer(self) -> str:
        return str(self.field.value)

    def put(self, answer: Any) -> None:
        self.field.value = answer if isinstance(answer, str) else ""


def beside(widgets: Any, control: Any, body: str) -> Any:
    """A control with text that wraps beside it."""
    text = widgets.HTML(body, layout=widgets.Layout(flex="1 1 0%", min_width="0", width="auto"))
    return widgets.HBox([control, text], layout=widgets.Layout(align_items="flex-start"))


def text_field(widgets: Any, name: str, placeholder: str, rows: int) -> Any:
    """A named text area over the card's width; its value is sent when it loses focus."""
    return widgets.Textarea(description=name, placeholder=placeholder, rows=rows,
                            continuous_update=False, style={"description_width": "initial"},
                            layout=widgets.Layout(width="auto"))
