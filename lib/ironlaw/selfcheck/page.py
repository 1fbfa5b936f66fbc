"""A question as HTML and as plain text: what a card shows, and what a page without a kernel can.

Colours come from the surrounding page (inherited, or half-transparent grey), so that a card
reads the same in light, dark and high-contrast themes; nothing is told by colour alone.
"""

from __future__ import annotations

from .kinds import Choice, FillIn, Item, Order, TrueFalse, Written
from .text import to_html, to_plain

LEVELS = {1: "warm-up", 2: "solid", 3: "demanding"}

STYLE = """<style>
.ironlaw-card { border: 1px solid rgba(128,128,128,.45); border-radius: 6px;
  padding: 12px 16px; margin: 4px 0 14px; max-width: 52em; }
.ironlaw-card .widget-html, .ironlaw-card .widget-html-content { height: auto; }
.ironlaw-card p, .ironlaw-card li { line-height: 1.5; margin: .3em 0; }
.ironlaw-card sub, .ironlaw-card sup { line-height: 0; }
.ironlaw-card .widget-hbox > .widget-html { padding-left: 6px; }
.ironlaw-card .widget-textarea { flex-direction: column; height: auto; }
.ironlaw-card .widget-textarea > textarea { width: 100%; box-sizing: border-box;
  flex: 0 0 auto; align-self: stretch; }
.ironlaw-card .widget-textarea > label, .ironlaw-card .widget-text > label {
  width: auto; text-align: left; opacity: .8; }
.ironlaw-card .widget-checkbox, .ironlaw-card .widget-checkbox label {
  width: auto; max-width: none; height: auto; white-space: normal; line-height: 1.5; }
.ironlaw-card .ironlaw-meta { opacity: .8; font-size: 92%; }
.ironlaw-card .ironlaw-note { border-left: 4px solid rgba(128,128,128,.7);
  background: rgba(128,128,128,.09); padding: 6px 12px; margin: 4px 0; }
.ironlaw-card .ironlaw-right { border-left-color: #2e9e5b; }
.ironlaw-card .ironlaw-wrong { border-left-color: #d1603d; }
.ironlaw-card button:focus-visible, .ironlaw-card textarea:focus-visible,
.ironlaw-card input:focus-visible { outline: 2px solid currentColor; outline-offset: 1px; }
</style>"""


def heading(item: Item) -> str:
    """Id, topic, and what the question asks of the reader."""
    minutes = f"about {item.minutes} min"
    points = f"{item.points} point{'s' if item.points > 1 else ''}"
    return (f"<p><strong>{item.id} · {to_html(item.topic)}</strong></p>"
            f"<p class='ironlaw-meta'>{item.kind} · {LEVELS[item.difficulty]} · {minutes} · "
            f"{points}</p>")


def stem(item: Item) -> str:
    """The question itself."""
    lead = "<em>True or false?</em> " if isinstance(item, TrueFalse) else ""
    return f"<p>{lead}{to_html(item.stem)}</p>"


def choices(item: Item) -> str:
    """Options or rows as a list, for a page that cannot be clicked."""
    match item:
        case Choice():
            rows = [f"<li><strong>{o.letter}.</strong> {to_html(o.text)}</li>"
                    for o in item.options]
        case Order():
            rows = [f"<li><strong>({r.number})</strong> {to_html(r.text)}</li>"
                    for r in item.rows]
        case _:
            return ""
    return f"<ul style='list-style:none;padding-left:.5em'>{''.join(rows)}</ul>"


def static(item: Item) -> str:
    """The whole question to read, without its key."""
    how = ("<p class='ironlaw-meta'>To answer here, run this notebook with a kernel and "
           "ipywidgets.</p>")
    return (f"{STYLE}<div class='ironlaw-card'>{heading(item)}{stem(item)}{choices(item)}"
            f"{how}</div>")


def plain(item: Item) -> str:
    """The whole question as text, with the way to have an answer checked."""
    lead = "True or false? " if isinstance(item, TrueFalse) else ""
    lines = [f"{item.id} · {to_plain(item.topic)} ({item.kind})", "", lead + to_plain(item.stem)]
    match item:
        case Choice():
            lines += ["", *(f"  {o.letter}. {to_plain(o.text)}" for o in item.options)]
        case Order():
            lines += ["", *(f"  ({r.number}) {to_plain(r.text)}" for r in item.rows)]
    lines += ["", f'To have an answer checked: selfcheck.check("{item.id}", your_answer)']
    return "\n".join(lines)


def note(body: str, look: str = "", alert: bool = False) -> str:
    """A framed remark. `look` is right or wrong; `alert` has a screen reader say it at once."""
    # A status region that arrives together with its text is often not announced; an alert is.
    role = " role='alert' aria-live='assertive'" if alert else ""
    kind = f" ironlaw-{look}" if look else ""
    return f"<div class='ironlaw-note{kind}'{role}>{body}</div>"


def explanation(item: Item, known: bool = False) -> str:
    """The key and why it holds; for an order, row by row.

    `known`: the feedback above has just given the key and its reason, so they are left out.
    """
    parts = []
    match item:
        case Choice() | TrueFalse() if known:
            pass
        case Choice():
            parts.append(f"<p><strong>{item.key}</strong>: "
                         f"{to_html(item.option(item.key).why)}</p>")
        case TrueFalse():
            parts.append(f"<p><strong>{item.key}</strong>. {to_html(item.reason)}</p>")
        case Order():
            numbers = "-".join(map(str, item.key))
            rows = "".join(f"<li>({n}) {to_html(item.row(n).why)}</li>" for n in item.key)
            parts.append(f"<p>The order is <strong>{numbers}</strong>:</p><ol>{rows}</ol>")
        case FillIn():
            others = [to_html(w) for w in item.accepted[1:4]]
            also = f" (also accepted: {', '.join(others)})" if others else ""
            parts.append(f"<p>The missing word: <strong>{to_html(item.key)}</strong>{also}.</p>")
        case Written():
            parts.append(f"<p><strong>A model answer.</strong> {to_html(item.model_answer)}</p>")
    parts.append(f"<p>{to_html(item.explanation)}</p>")
    parts.append(f"<p class='ironlaw-meta'>Objective: {to_html(item.objective)}</p>")
    return "".join(parts)
