"""CSV tables as people and platforms export them."""

from __future__ import annotations

import csv
from pathlib import Path

from ironlaw.errors import InputError

_MOST = 20_000_000


def read(path: Path, argument: str) -> list[dict[str, str]]:
    """The rows of a table; header names in small letters, no cell None.

    Commas, semicolons or tabs; UTF-8 or UTF-16 with or without a byte-order mark.
    """
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise InputError(argument, str(path), "a CSV file that can be read",
                         f"{problem.strerror}.") from None
    if len(data) > _MOST:
        raise InputError(argument, str(path), f"smaller than {_MOST / 1e6:.0f} MB")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(argument, str(path), "a CSV file in UTF-8",
                         "Save it again as “CSV UTF-8”.") from None
    lines = text.splitlines(keepends=True)
    first = next((line for line in lines if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if any(map(str.strip, row))]
    except csv.Error as problem:
        raise InputError(argument, str(path), "a CSV file", f"{problem}.") from None
    if not rows:
        raise InputError(argument, str(path), "a table with a line of column names", "It is empty.")
    head = [" ".join(cell.split()).casefold() for cell in rows[0]]
    return [dict(zip(head, [cell.strip() for cell in row] + [""] * len(head), strict=False))
            for row in rows[1:]]
