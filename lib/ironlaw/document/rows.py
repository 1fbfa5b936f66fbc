"""What a row is: a number as a function and its inputs, some of them other rows.

`From("nap11.step")` as an input means "that row's value": the rows form a graph, and
a change of one input reaches every number that rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import choice


@dataclass(frozen=True)
class From:
    """The value of another row, in SI units (before that row's `scale`)."""

    id: str


@dataclass(frozen=True)
class Row:
    """One number: `function(**inputs) / scale` is in the unit that the document uses.

    `arguments` are numbers, names, tuples, or `From` another row. `constant` names
    keywords whose change leaves the value alone, with the reason.
    """

    id: str
    function: Callable[..., float]
    arguments: dict[str, Any]
    scale: float = 1.0
    constant: dict[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, Any]:
        """The arguments with every `From` replaced by that row's value."""
        return {name: _resolved(value) for name, value in self.arguments.items()}

    @property
    def rests_on(self) -> tuple[str, ...]:
        """Ids of the rows that this one takes directly."""
        parts = [p for v in self.arguments.values() for p in (v if isinstance(v, tuple) else (v,))]
        return tuple(p.id for p in parts if isinstance(p, From))

    def si(self, **changes: Any) -> float:
        """The number in SI units, with some inputs changed if asked."""
        return float(self.function(**{**self.inputs, **changes}))

    def value(self, **changes: Any) -> float:
        """The number in the document's unit, with some inputs changed if asked."""
        return self.si(**changes) / self.scale


_KNOWN: dict[str, Row] = {}


def register(rows: Mapping[str, Row]) -> None:
    """Make rows available to `From`; called once per table when the package loads."""
    _KNOWN.update(rows)


def by_id(*rows: Row) -> dict[str, Row]:
    """Rows by their id, in order; a repeated id is a mistake in the table."""
    table = {row.id: row for row in rows}
    if len(table) != len(rows):
        ids = [row.id for row in rows]
        raise ValueError(f"repeated ids: {sorted({i for i in ids if ids.count(i) > 1})}")
    return table


def _resolved(value: Any) -> Any:
    if isinstance(value, From):
        return _KNOWN[choice("id", value.id, _KNOWN)].si()
    if isinstance(value, tuple):
        return tuple(_resolved(part) for part in value)
    return value
