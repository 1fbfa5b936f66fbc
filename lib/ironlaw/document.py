"""The document's numbers, each as a function and its inputs.

`document_figures.csv` holds what the document prints; `ROWS` says how this course
computes it. `ironlaw figures` lays the two side by side and fails on a difference.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from .errors import choice
from .predict import cost, iron_law, memory, scaling
from .units import GB


@dataclass(frozen=True)
class Row:
    """One number: `function(**arguments) / scale` is in the unit that the document uses.

    `constant` names keywords whose change leaves the value alone, with the reason.
    """

    id: str
    function: Callable[..., float]
    arguments: dict[str, Any]
    scale: float = 1.0
    constant: dict[str, str] = field(default_factory=dict)

    def value(self, **changes: Any) -> float:
        """The number, with some inputs changed if asked."""
        return float(self.function(**{**self.arguments, **changes})) / self.scale


@dataclass(frozen=True)
class Printed:
    """What the document says: where, what it counts, from what, and the figure."""

    id: str
    section: int
    where: str
    quantity: str
    inputs: str
    value: float
    unit: str
    printed: float | None
    shown: str


_B7, _B15 = 7e9, 1.5e9

ROWS: dict[str, Row] = {
    row.id: row
    for row in (
        Row("intro.ratio", cost.cost_ratio, {"dear": 100e6, "cheap": 50e3}),
        Row("gpt2.tokens", iron_law.tokens_for_budget,
            {"operations": 1.5e21, "forward_flops_per_token": 3e9, "backward_over_forward": 2.0}),
        Row("gpt2.O", iron_law.training_flops, {"parameters": _B15, "tokens": 1.5e21 / 9e9}),
        Row("gpt3.O", iron_law.training_flops, {"parameters": 174.6e9, "tokens": 300e9}),
        Row("palm.chips", scaling.total_chips, {"pods": 2, "chips_per_pod": 3072}),
        Row("intro.w32", memory.parameter_bytes,
            {"parameters": _B15, "bytes_per_parameter": 4}, GB),
        Row("intro.adam", memory.moment_bytes,
            {"parameters": _B15, "bytes_per_value": 4, "moments": 2}, GB),
        Row("tab2.w16", memory.parameter_bytes,
            {"parameters": _B15, "bytes_per_parameter": 2}, GB),
        Row("def11.weights", memory.parameter_bytes,
            {"parameters": _B7, "bytes_per_parameter": 2}, GB),
        Row("def11.grads", memory.parameter_bytes,
            {"parameters": _B7, "bytes_per_parameter": 2}, GB),
        Row("def11.master", memory.parameter_bytes,
            {"parameters": _B7, "bytes_per_parameter": 4}, GB),
        Row("def11.adam", memory.moment_bytes,
            {"parameters": _B7, "bytes_per_value": 4, "moments": 2}, GB),
        Row("def11.total", memory.training_state_bytes,
            {"parameters": _B7, "weight_bytes": 2, "gradient_bytes": 2, "master_bytes": 4,
             "moment_bytes_each": 4, "moments": 2}, GB),
        Row("def11.ratio", memory.training_over_inference,
            {"weight_bytes": 2, "gradient_bytes": 2, "master_bytes": 4,
             "moment_bytes_each": 4, "moments": 2}),
    )
}


@cache
def printed() -> dict[str, Printed]:
    """Every figure of the document by id."""
    text = resources.files(__package__).joinpath("document_figures.csv").read_text("utf-8")
    found = {}
    for line in csv.DictReader(text.splitlines()):
        found[line["id"]] = Printed(
            id=line["id"], section=int(line["section"]), where=line["where"],
            quantity=line["quantity"], inputs=line["inputs"], value=float(line["value"]),
            unit=line["unit"], printed=float(line["printed"]) if line["printed"] else None,
            shown=line["shown"],
        )
    return found


def value(id: str) -> float:
    """The figure called `id`, computed, in the document's unit."""
    return ROWS[choice("id", id, ROWS)].value()


def agrees(id: str) -> bool:
    """Whether the computed value is the reference value (to 1 part in 10^9)."""
    return math.isclose(value(id), printed()[id].value, rel_tol=1e-9)
