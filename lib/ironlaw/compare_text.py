"""A `Comparison` for the eye: a plain table for terminals, an HTML one for notebooks."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from .units import gigabytes, memory, percent, si, significant

if TYPE_CHECKING:
    from .compare import Comparison, Row

_DIGITS = 4


def plain(comparison: Comparison) -> str:
    """The table as text, then the residuals in words."""
    table = _cells(comparison)
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    lines = []
    for line in table:
        first, *rest = (cell.ljust(w) if i == 0 else cell.rjust(w)
                        for i, (cell, w) in enumerate(zip(line, widths, strict=True)))
        lines.append("  ".join((first, *rest)).rstrip())
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join([_title(comparison), "", *lines, "", *_words(comparison)])


def html(comparison: Comparison) -> str:
    """The same as an HTML fragment: a captioned table and a list."""
    head, *body = _cells(comparison)
    parts = ["<table>", f"<caption>{escape(_title(comparison))}</caption>", "<thead><tr>"]
    parts += [f'<th scope="col">{escape(cell)}</th>' for cell in head]
    parts.append("</tr></thead><tbody>")
    for first, *rest in body:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        parts.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    parts.append("</tbody></table><ul>")
    parts += [f"<li>{escape(sentence.strip())}</li>" for sentence in _words(comparison)]
    return "".join([*parts, "</ul>"])


def _title(comparison: Comparison) -> str:
    config = comparison.config
    rows = config.get("loss_rows")
    sliced = f", loss in slices of {rows:,} tokens" if rows else ""
    return (f"{config['model']}, {config['batch']} sequences x {config['accumulate']}, "
            f"{config['precision']}, {config['attention']} attention{sliced}, on "
            f"{comparison.device}")


def _cells(comparison: Comparison) -> list[list[str]]:
    guessed = any(row.guess is not None for row in comparison.rows)
    head = ["quantity", *(["guess"] if guessed else []), "predicted", "measured", "residual"]
    table = [head]
    for row in comparison.rows:
        guess = [_shown(row.guess, row)] if guessed else []
        table.append([row.quantity, *guess, _shown(row.predicted, row), _shown(row.measured, row),
                      _signed(row.residual)])
    return table


def _shown(value: float | None, row: Row) -> str:
    if value is None:
        return "-"
    if row.key == "mfu":
        return percent(value)
    if row.unit == "B":
        return gigabytes(value, _DIGITS)
    if row.unit in ("s", "FLOP"):
        return si(value, row.unit, _DIGITS)
    return f"{significant(value, _DIGITS)} {row.unit}".strip()


def _share(amount: float, row: Row) -> str:
    """A part of the difference between a row's two values, to the last place shown of them.

    The table shows four digits of each. What lies below those is rounding noise, down to
    the 1e-16 of floating point, and is nothing to explain.
    """
    greater = max(abs(row.predicted or 0.0), abs(row.measured or 0.0))
    if not amount or not greater:
        return si(amount, row.unit)
    last = math.floor(math.log10(greater)) - _DIGITS + 1
    places = round(amount / 10.0**last)
    return si(places * 10.0**last, row.unit, min(len(str(abs(places))), _DIGITS))


def _signed(share: float | None) -> str:
    if share is None:
        return "-"
    if abs(share) < 5e-5:
        return "0 %"
    return f"{100 * share:+,.1f} %"


def _words(comparison: Comparison) -> list[str]:
    lines = [f"Peak: {comparison.peak_source}." if comparison.peak_source else
             f"No peak: {comparison.reasons.get('mfu', '')}"]
    lines += [comparison.notes[name] for name in ("busy", "threads") if name in comparison.notes]
    for row in comparison.rows:
        if row.guess_residual is not None:
            lines.append(f"{_capital(row.quantity)}: your guess was {_off(row.guess_residual)}.")
        if row.residual is None:
            if row.reason and row.key in ("floor_seconds", "step_seconds", "memory_bytes"):
                lines.append(f"{_capital(row.quantity)}: {row.reason}")
            continue
        lines += _explained(row)
    return lines


def _explained(row: Row) -> list[str]:
    """What a row's difference is, and what it consists of."""
    if row.residual is None or row.measured is None or row.predicted is None:
        return []
    gap = row.measured - row.predicted
    if row.key == "step_seconds":
        head = (f"{_capital(row.quantity)}, by {row.how}: the prediction was "
                f"{_off(row.residual)}. {row.why}")
    elif row.key == "memory_bytes":
        head = (f"{_capital(row.quantity)}, by {row.how}: {memory(row.predicted)} predicted, "
                f"{memory(row.measured)} measured. {row.why}")
    elif row.parts:
        head = (f"{_capital(row.quantity)}, by {row.how}: {_share(gap, row)} to explain. "
                f"{row.why}")
    else:
        return []
    shown = row.parts
    if row.key == "memory_bytes":  # a kind that was right needs no line
        shown = [p for p in row.parts if _share(p.amount, row) != _share(0.0, row)]
    return [head, *(f"    {_share(p.amount, row):>10}  {p.name} ({p.why})" for p in shown)]


def _off(residual: float) -> str:
    """How far a forecast was off, seen from the forecast: measured 10 % above it is too low."""
    if abs(residual) < 5e-4:
        return "right to a twentieth of a percent"
    side = "too low" if residual > 0 else "too high"
    return f"{side}: the measurement is {abs(100 * residual):,.1f} % " + (
        "above it" if residual > 0 else "below it")


def _capital(text: str) -> str:
    return text if text[:3].isupper() else text[0].upper() + text[1:]
