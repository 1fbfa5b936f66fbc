"""Tables that people and platforms give, as rows by the names of their columns."""

from __future__ import annotations

from pathlib import Path

from ..exports.cells import read_sheet


def read(path: Path, argument: str) -> list[dict[str, str]]:
    """The rows of the CSV file at `path`; names of columns in small letters, no cell missing."""
    rows = read_sheet(argument, path, "a line of column names").rows
    head = [" ".join(cell.split()).casefold() for cell in rows[0]]
    return [dict(zip(head, [cell.strip() for cell in row] + [""] * len(head), strict=False))
            for row in rows[1:]]
