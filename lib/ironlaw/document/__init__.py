"""The document's numbers, each as a function and its inputs.

`document_figures.csv` holds what the document prints, `audit_figures.csv` the right
values where it does not hold; `ROWS` and `AUDIT` say how this course computes them.
`ironlaw figures` lays the two side by side and fails on a difference. One module per
section of the document holds its rows.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

from ..errors import choice
from . import section1, section2, section3, section4, section5, section6, section7
from .rows import From, Row, register

__all__ = [
    "AUDIT",
    "ROWS",
    "From",
    "Printed",
    "Row",
    "agrees",
    "audited",
    "printed",
    "rounds_as_printed",
    "row",
    "value",
]

ROWS: dict[str, Row] = {**section1.ROWS, **section2.ROWS, **section3.ROWS, **section4.ROWS,
                        **section5.ROWS, **section6.ROWS, **section7.ROWS}
"""Every number of the document by id."""

AUDIT: dict[str, Row] = {**section1.AUDIT, **section2.AUDIT, **section3.AUDIT, **section4.AUDIT,
                         **section5.AUDIT, **section6.AUDIT}
"""The right value, or the telling one, where the document's does not hold."""

register(ROWS)
register(AUDIT)


@dataclass(frozen=True)
class Printed:
    """What the document says: where, what it counts, from what, and the figure.

    `value` is the reference to full precision, `printed` the document's rounded number
    (None where it prints none), `shown` its own wording.
    """

    id: str
    section: int
    where: str
    quantity: str
    inputs: str
    value: float
    unit: str
    printed: float | None
    shown: str


@cache
def printed() -> dict[str, Printed]:
    """Every figure of the document by id."""
    found = {}
    for line in _lines("document_figures.csv"):
        found[line["id"]] = Printed(
            id=line["id"], section=int(line["section"]), where=line["where"],
            quantity=line["quantity"], inputs=line["inputs"], value=float(line["value"]),
            unit=line["unit"], printed=float(line["printed"]) if line["printed"] else None,
            shown=line["shown"],
        )
    return found


@cache
def audited() -> dict[str, Printed]:
    """Every audit figure by id; `section` is the one that the audited place belongs to."""
    section = {id: number for number, table in enumerate(
        (section1.AUDIT, section2.AUDIT, section3.AUDIT, section4.AUDIT, section5.AUDIT,
         section6.AUDIT), start=1) for id in table}
    return {line["id"]: Printed(
        id=line["id"], section=section.get(line["id"], 0), where=line["where"],
        quantity=line["quantity"], inputs=line["inputs"], value=float(line["value"]),
        unit=line["unit"], printed=None, shown="",
    ) for line in _lines("audit_figures.csv")}


def _lines(name: str) -> list[dict[str, str]]:
    text = resources.files("ironlaw").joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def row(id: str) -> Row:
    """The row called `id`, from the document or the audit."""
    known = {**ROWS, **AUDIT}
    return known[choice("id", id, known)]


def value(id: str) -> float:
    """The figure called `id`, computed, in the document's unit."""
    return row(id).value()


def agrees(id: str) -> bool:
    """Whether the computed value is the reference value (to 1 part in 10^9)."""
    reference = {**printed(), **audited()}[id].value
    return math.isclose(value(id), reference, rel_tol=1e-9)


def rounds_as_printed(id: str) -> bool:
    """Whether the computed value rounds to the number that the document prints.

    Within half a unit of the last digit that is not a trailing zero; true where the
    document prints no number.
    """
    shown = printed()[id].printed if id in printed() else None
    if shown is None:
        return True
    exponent = Decimal(repr(shown)).normalize().as_tuple().exponent
    unit = 10.0 ** int(exponent)
    return abs(value(id) - shown) <= unit / 2 * (1 + 1e-9)
