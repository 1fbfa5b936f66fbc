"""CSV as this project writes and reads it: nothing is lost, and no cell starts a formula."""

from __future__ import annotations

import csv
import functools
import io
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ironlaw.errors import InputError

BOM = "\ufeff"
_FORMULA = frozenset("=+-@\u2212")
# What a spreadsheet may drop or skip before it looks at the first character that counts.
_SKIPPED = frozenset("'\"`\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb")
# A reader that splits cells at another sign than the comma starts a new cell behind it.
_NEW_CELL = frozenset(";\t\r\n")
_LARGEST_CELL = 10_000_000


def guard(text: str) -> str:
    """`text` as a spreadsheet shows it and never runs it as a formula.

    An apostrophe goes before whatever could start one: = + - @, their wide and small forms,
    a tab or a line break, also behind quotes and white space, and also behind a semicolon,
    tab or line break inside the text, where some readers start a new cell.
    """
    # A file's name that is no text leaves signs that UTF-8 cannot hold.
    text = text.encode("utf-8", "replace").decode("utf-8")
    starts = _formula_starts(text)
    safe = "".join(f"'{char}" if place and starts[place] and char not in _NEW_CELL
                   and text[place - 1] in _NEW_CELL else char
                   for place, char in enumerate(text))
    return f"'{safe}" if text[:1] in tuple("\t\r\n") or starts[0] else safe


def _formula_starts(text: str) -> list[bool]:
    """For each place in `text`, and its end: whether a cell that began there would run.

    The whole rest counts, not the part up to the next line break: a reader that splits at
    semicolons alone keeps the line break, skips it, and runs what follows.
    """
    starts = [False]
    for char in reversed(text):  # from the end, so that each place takes one look
        own = _starts_formula(char)
        starts.append(starts[-1] if own is None else own)
    return starts[::-1]


@functools.lru_cache(4096)
def _starts_formula(char: str) -> bool | None:
    """Whether a cell that begins with `char` runs; None: it is passed over, the next decides."""
    if char.isspace() or char in _SKIPPED or unicodedata.category(char) in ("Cc", "Cf", "Zs"):
        return None
    plain = unicodedata.normalize("NFKC", char)[:1]
    return None if plain.isspace() or plain in _SKIPPED else plain in _FORMULA


def number(value: float, digits: int = 2) -> str:
    """A number as every reader takes it: a point, no thousands, no zeros at the end."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number for a table")
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def table(header: Sequence[str], rows: Iterable[Sequence[str | float | int | None]]) -> str:
    """CSV text by RFC 4180, in UTF-8 with a byte-order mark so that spreadsheets read it so.

    Text is guarded and always quoted; a float is written with up to 4 decimals; None is empty.
    """
    out = io.StringIO(newline="")
    write = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow
    write([guard(name) for name in header])
    for row in rows:
        write([_cell(value) for value in row])
    return BOM + out.getvalue()


def _cell(value: str | float | int | None) -> str:
    if value is None:
        return ""
    return guard(value) if isinstance(value, str) else number(float(value), 4)


@dataclass
class Sheet:
    """A CSV file that somebody else's program wrote, with all that makes it that file."""

    file: str
    rows: list[list[str]]
    delimiter: str
    newline: str
    bom: bool

    def text(self) -> str:
        """The file's text again: same delimiter, line ends and byte-order mark."""
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=self.delimiter, lineterminator=self.newline).writerows(self.rows)
        return (BOM if self.bom else "") + out.getvalue()


def read_sheet(argument: str, path: Path, what: str) -> Sheet:
    """The file at `path`, or `InputError` naming `argument`; `what` says what it should be."""
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise InputError(argument, str(path), f"a file with {what}",
                         f"It cannot be read: {problem.strerror or problem}.") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(argument, str(path), "CSV text in UTF-8",
                         "Download it again and hand it over as it is: a spreadsheet that saved "
                         "it has changed its encoding.") from None
    bom = text.startswith(BOM)
    text = text.removeprefix(BOM)
    delimiter = _delimiter(text)
    try:
        rows = _parsed(text, delimiter)
    except csv.Error as problem:
        raise InputError(argument, str(path), f"CSV text with {what}",
                         f"Its quotes do not match ({problem}). Download it again.") from None
    if not rows:
        raise InputError(argument, str(path), f"a file with {what}", "It is empty.")
    newline = "\r\n" if "\r\n" in text else "\n"
    return Sheet(str(path), rows, delimiter, newline, bom)


def _parsed(text: str, delimiter: str) -> list[list[str]]:
    before = csv.field_size_limit(_LARGEST_CELL)
    try:
        found = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        return [row for row in found if any(cell.strip() for cell in row)]
    finally:
        csv.field_size_limit(before)


def _delimiter(text: str) -> str:
    """The semicolon where it splits the heading into more cells than the comma does."""
    def cells(sign: str) -> int:
        return len(next(csv.reader(io.StringIO(text, newline=""), delimiter=sign), []))
    return ";" if cells(";") > cells(",") else ","
