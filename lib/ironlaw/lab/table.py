"""A residual table: guess, prediction and measurement of the same quantity side by side."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field

from ..errors import InputError
from ..units import significant


@dataclass(frozen=True)
class Row:
    """One quantity; a value that is not known is None."""

    quantity: str
    unit: str
    guess: float | None
    predicted: float | None
    measured: float | None


@dataclass(repr=False)
class Residuals:
    """The table; `add` rows, then show it. Residuals are (measured - predicted) / predicted."""

    rows: list[Row] = field(default_factory=list)

    def add(self, quantity: str, unit: str, *, guess: float | None = None,
            predicted: float | None = None, measured: float | None = None) -> Residuals:
        """Add a row; returns the table, so that rows can be chained."""
        for name, value in (("guess", guess), ("predicted", predicted), ("measured", measured)):
            if value is not None and not _is_number(value):
                raise InputError(f"{quantity}: {name}", value, "a finite number or None")
        self.rows.append(Row(quantity, unit, guess, predicted, measured))
        return self

    def __str__(self) -> str:
        head = ["quantity", "guess", "predicted", "measured", "residual"]
        lines = [head, *([*cells] for cells in self._cells())]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]),
                       *(cell.rjust(width)
                         for cell, width in zip(line[1:], widths[1:], strict=True))])
            for line in lines)

    __repr__ = __str__  # where no HTML is shown, as in feedback, the table still reads

    def _repr_html_(self) -> str:
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
                       for cells in self._cells())
        return ("<table><thead><tr><th>quantity</th><th>guess</th><th>predicted</th>"
                f"<th>measured</th><th>residual</th></tr></thead><tbody>{body}</tbody></table>")

    def _cells(self) -> list[list[str]]:
        return [[f"{row.quantity} ({row.unit})" if row.unit else row.quantity, _shown(row.guess),
                 _shown(row.predicted), _shown(row.measured), _residual(row)] for row in self.rows]


def _is_number(value: object) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)
            and math.isfinite(value))


def _shown(value: float | None) -> str:
    return "–" if value is None else significant(value, 4)


def _residual(row: Row) -> str:
    if row.measured is None or not row.predicted:
        return "–"
    share = (row.measured - row.predicted) / row.predicted
    return f"{share:+.1%}" if abs(share) < 0.1 else f"{share:+.0%}"
