"""Turns an item into what a notebook cell holds: a prompt, a place for the answer, a form check.

Pure text in, text out. The form check says how an answer will be read and never whether it
is right, so it may stand in the open in a graded notebook.
"""

from __future__ import annotations

from dataclasses import dataclass

from .kinds import Choice, FillIn, Item, Order, TrueFalse, Written
from .text import to_markdown


@dataclass(frozen=True)
class Form:
    """One item as cells: Markdown, code to fill in (empty for a written answer), points."""

    id: str
    prompt: str
    stub: str
    form_check: str
    points: int


def form(item: Item) -> Form:
    """Everything that a generated notebook needs for `item`."""
    return Form(item.id, prompt_markdown(item), answer_stub(item), form_check(item), item.points)


def variable(item: Item, what: str = "answer") -> str:
    """The name that holds the answer: `answer_1_4`; `reason_1_4` for its reason."""
    return f"{what}_{item.id.replace('.', '_')}"


def prompt_markdown(item: Item) -> str:
    """The question as Markdown, with its points and time, and without any hint of the key."""
    lead = "**True or false?** " if isinstance(item, TrueFalse) else ""
    lines = [f"### {item.id} · {to_markdown(item.topic)}",
             f"*{_points(item.points)} · about {item.minutes} min*",
             lead + to_markdown(item.stem)]
    match item:
        case Choice():
            lines.append("\n".join(f"- **{o.letter}.** {to_markdown(o.text)}"
                                   for o in item.options))
        case Order():
            lines.append("\n".join(f"- **({r.number})** {to_markdown(r.text)}"
                                   for r in item.rows))
        case Written():
            # The rubric's lines are the answer's outline: the prompt gives their number only.
            lines.append(f"A person marks this answer: {len(item.rubric)} ideas, "
                         f"{_points(item.points)} in all.")
    return "\n\n".join(lines) + "\n"


def answer_stub(item: Item) -> str:
    """The starter code: one empty variable and a comment on how to fill it."""
    name = variable(item)
    match item:
        case Choice():
            letters = ", ".join(o.letter for o in item.options)
            return f'{name} = ""  # between the quotes, one letter: {letters}\n'
        case TrueFalse():
            return (f"{name} = None  # in place of None, True or False\n"
                    f'{variable(item, "reason")} = ""  # one or two sentences\n')
        case Order():
            return (f"{name} = []  # between the brackets, the {len(item.rows)} row numbers, "
                    "earliest first, with commas\n")
        case FillIn():
            return f'{name} = ""  # between the quotes, the missing word\n'
    return ""


def form_check(item: Item) -> str:
    """Code that prints how the answer will be read; empty for a written answer."""
    if isinstance(item, Written):
        return ""
    return ("from ironlaw import selfcheck\n\n"
            f'selfcheck.read_back("{item.id}", {variable(item)})\n')


def _points(number: int) -> str:
    return f"{number} point" if number == 1 else f"{number} points"
