"""What every card shares: its frame, its buttons, its verdict, and how it keeps an answer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import checks, page, record
from .checks import Verdict
from .text import to_html

if TYPE_CHECKING:
    import ipywidgets as w

CHOSEN, OPEN = "●", "○"


class Card:
    """What all cards share: heading, stem, controls, Check, feedback, explanation, retry.

    `root` is the widget. A subclass gives `controls()`, the present `answer()`, and `put()`,
    which sets the controls from a stored answer.
    """

    check_label = "Check"
    retry_label = "Try again"

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
        self.retry_button = self.button(self.retry_label, self.on_retry, f"Answer {item.id} afresh")
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


def beside(widgets: Any, control: Any, body: str) -> Any:
    """A control with text that wraps beside it."""
    text = widgets.HTML(body, layout=widgets.Layout(flex="1 1 0%", min_width="0", width="auto"))
    return widgets.HBox([control, text], layout=widgets.Layout(align_items="flex-start"))


def text_field(widgets: Any, name: str, placeholder: str, rows: int) -> Any:
    """A named text area over the card's width; its value is sent when it loses focus."""
    return widgets.Textarea(description=name, placeholder=placeholder, rows=rows,
                            continuous_update=False, style={"description_width": "initial"},
                            layout=widgets.Layout(width="auto"))
