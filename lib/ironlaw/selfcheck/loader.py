"""Reads the bank and refuses anything that is not exactly as the schema says.

A question with a missing reason, a key outside its options or a misspelt field must
fail when the bank loads, with file, item and field named; never in front of a class.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import InputError
from .kinds import (
    KINDS,
    LETTERS,
    Choice,
    Figure,
    FillIn,
    Item,
    Mistake,
    Option,
    Order,
    Row,
    RubricLine,
    Swap,
    TrueFalse,
    Wording,
    Written,
)

SOURCES = ("document", "variant")
_COMMON = {"id", "kind", "topic", "stem", "explanation", "objective", "difficulty", "minutes",
           "points", "source", "figures"}
_LATEX = re.compile(r"\\[a-zA-Z(\[]|\$")


@cache
def load() -> dict[str, Item]:
    """Every item of the bank by id, in order of sections."""
    folder = resources.files(__package__).joinpath("bank")
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml"))
    found: dict[str, Item] = {}
    for name in names:
        for item in parse(folder.joinpath(name).read_text("utf-8"), name):
            found[item.id] = item
    return found


def read(file: str | Path) -> list[Item]:
    """The items of one bank file on disk, checked; `InputError` says what is wrong."""
    source = Path(file)
    return parse(source.read_text("utf-8"), source.name)


def parse(text: str, name: str) -> list[Item]:
    """The items of one bank file called `name` (02.toml holds section 2), checked."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(name, str(problem), "valid TOML", "Mend the line named here.") from None
    _only(data, {"section", "item"}, name)
    section = _take(data, "section", int, name)
    if name != f"{section:02d}.toml":
        raise InputError(f"{name}: section", section, "the number in the file's name")
    items = [_item(raw, section, f"{name} item {place}")
             for place, raw in enumerate(_tables(data, "item", name), start=1)]
    for place, item in enumerate(items, start=1):
        if item.id != f"{section}.{place}":
            raise InputError(f"{name} item {place}: id", item.id, f"'{section}.{place}'",
                             "Items are numbered in order, without gaps or repeats.")
    return items


def _item(raw: dict[str, Any], section: int, where: str) -> Item:
    kind = _take(raw, "kind", str, where)
    if kind not in KINDS:
        raise InputError(f"{where}: kind", kind, "one of " + ", ".join(KINDS))
    common: dict[str, Any] = {
        "section": section, "kind": kind,
        **{n: _text(raw, n, where)
           for n in ("id", "topic", "stem", "explanation", "objective")},
        **{n: _whole(raw, n, high, where)
           for n, high in (("difficulty", 3), ("minutes", 20), ("points", 10))},
        "source": _take(raw, "source", str, where, "document"),
        "figures": tuple(_figure(f, where) for f in _tables(raw, "figures", where, least=0)),
    }
    if common["source"] not in SOURCES:
        raise InputError(f"{where}: source", common["source"], "one of " + ", ".join(SOURCES))
    item = _BUILD[kind](raw, common, where)
    said = "\n".join(item.texts())
    if found := _LATEX.search(said):
        raise InputError(f"{where}: text", found.group(), "plain Unicode, without LaTeX",
                         "Write R_peak, η_hw or 10²³: cards show no formulas.")
    for figure in item.figures:
        if figure.shown not in said:
            raise InputError(f"{where}: figure {figure.name}: shown", figure.shown,
                             "found word for word in the item's text")
    return item


def _choice(raw: dict[str, Any], common: dict[str, Any], where: str) -> Item:
    _only(raw, _COMMON | {"options", "key"}, where)
    tables = _tables(raw, "options", where, least=2)
    letters = LETTERS[:len(tables)]
    key = _take(raw, "key", str, where)
    if len(key) != 1 or key not in letters:
        raise InputError(f"{where}: key", key, f"one letter from {letters[0]} to {letters[-1]}")
    options = []
    for letter, table in zip(letters, tables, strict=True):
        here = f"{where} option {letter}"
        text = _text(table, "text", here)
        if letter == key:
            _only(table, {"text", "why"}, here)
            options.append(Option(letter, text, why=_text(table, "why", here)))
        else:
            _only(table, {"text", "betrays", "mends"}, here)
            options.append(Option(letter, text, mistake=_mistake(table, here)))
    return Choice(**common, options=tuple(options), key=key)


def _true_false(raw: dict[str, Any], common: dict[str, Any], where: str) -> Item:
    _only(raw, _COMMON | {"key", "betrays", "mends", "reason", "reason_terms"}, where)
    return TrueFalse(**common, key=_take(raw, "key", bool, where), mistake=_mistake(raw, where),
                     reason=_text(raw, "reason", where),
                     reason_terms=_words(raw, "reason_terms", where))


def _order(raw: dict[str, Any], common: dict[str, Any], where: str) -> Item:
    _only(raw, _COMMON | {"key", "rows", "swaps"}, where)
    rows = tuple(
        Row(n, _text(t, "text", f"{where} row {n}"), _text(t, "why", f"{where} row {n}"))
        for n, t in enumerate(_tables(raw, "rows", where, least=3), start=1))
    numbers = [r.number for r in rows]
    key = tuple(_take(raw, "key", list, where))
    if sorted(key, key=str) != sorted(numbers, key=str) or list(key) == numbers:
        raise InputError(f"{where}: key", key,
                         f"every number from 1 to {len(rows)} once, not in that order already")
    swaps = []
    for n, table in enumerate(_tables(raw, "swaps", where), start=1):
        here = f"{where} swap {n}"
        _only(table, {"first", "then", "betrays", "mends"}, here)
        first, then = (_take(table, side, int, here) for side in ("first", "then"))
        if first not in key or then not in key or key.index(first) <= key.index(then):
            raise InputError(f"{here}: first, then", (first, then), "two rows in the wrong order")
        swaps.append(Swap(first, then, _mistake(table, here)))
    return Order(**common, rows=rows, key=key, swaps=tuple(swaps))


def _fill_in(raw: dict[str, Any], common: dict[str, Any], where: str) -> Item:
    _only(raw, _COMMON | {"accepted", "wordings"}, where)
    if "____" not in common["stem"]:
        raise InputError(f"{where}: stem", common["stem"], "a sentence with a gap written ____")
    wordings = []
    for n, table in enumerate(_tables(raw, "wordings", where), start=1):
        here = f"{where} wording {n}"
        _only(table, {"answers", "betrays", "mends"}, here)
        wordings.append(Wording(_words(table, "answers", here), _mistake(table, here)))
    return FillIn(**common, accepted=_words(raw, "accepted", where), wordings=tuple(wordings))


def _written(raw: dict[str, Any], common: dict[str, Any], where: str) -> Item:
    _only(raw, _COMMON | {"model_answer", "rubric"}, where)
    rubric = tuple(_rubric_line(table, f"{where} rubric {n}")
                   for n, table in enumerate(_tables(raw, "rubric", where, least=2), start=1))
    if sum(line.points for line in rubric) != common["points"]:
        raise InputError(f"{where}: points", common["points"], "the sum of the rubric's points")
    return Written(**common, model_answer=_text(raw, "model_answer", where), rubric=rubric)


def _rubric_line(table: dict[str, Any], where: str) -> RubricLine:
    _only(table, {"points", "text", "terms"}, where)
    return RubricLine(_whole(table, "points", 10, where), _text(table, "text", where),
                      _words(table, "terms", where))


_BUILD = {"choice": _choice, "true-false": _true_false, "order": _order, "fill-in": _fill_in,
          "written": _written}


def _figure(table: dict[str, Any], where: str) -> Figure:
    here = f"{where} figure {table.get('name', '?')}"
    known = {f.name: f for f in fields(Figure)}
    _only(table, set(known), here)
    for name, spec in known.items():
        if name not in table and spec.default is MISSING and spec.default_factory is MISSING:
            raise InputError(f"{here}: {name}", None, "given", f"Add {name} to this figure.")
    return Figure(**table)


def _mistake(table: dict[str, Any], where: str) -> Mistake:
    return Mistake(_text(table, "betrays", where), _text(table, "mends", where))


def _only(table: dict[str, Any], allowed: Iterable[str], where: str) -> None:
    for name in table:
        if name not in set(allowed):
            raise InputError(f"{where}: field", name, "one of " + ", ".join(sorted(allowed)),
                             "Remove the field or mend its spelling.")


_TYPES = {str: "a text in quotes", int: "a whole number", list: "a list", bool: "true or false"}
"""The types of TOML in words."""


def _take(table: dict[str, Any], name: str, kind: type, where: str, default: Any = None) -> Any:
    value = table.get(name, default)
    if type(value) is not kind:
        raise InputError(f"{where}: {name}", value, _TYPES[kind],
                         f"Add {name} there." if value is None else "")
    return value


def _text(table: dict[str, Any], name: str, where: str) -> str:
    value = " ".join(_take(table, name, str, where).split())
    if not value:
        raise InputError(f"{where}: {name}", value, "a sentence, not empty")
    return value


def _whole(table: dict[str, Any], name: str, high: int, where: str) -> int:
    value = _take(table, name, int, where)
    if not 1 <= value <= high:
        raise InputError(f"{where}: {name}", value, f"a whole number from 1 to {high}")
    return int(value)


def _words(table: dict[str, Any], name: str, where: str) -> tuple[str, ...]:
    values = _take(table, name, list, where)
    if not values or not all(type(v) is str and v.strip() for v in values):
        raise InputError(f"{where}: {name}", values, "a list of words, not empty")
    return tuple(values)


def _tables(
    table: dict[str, Any], name: str, where: str, least: int = 1
) -> list[dict[str, Any]]:
    values = table.get(name, [])
    if (type(values) is not list or len(values) < least
            or not all(type(v) is dict for v in values)):
        raise InputError(f"{where}: {name}", values, f"a list of at least {least} tables",
                         f"Write each as [[item.{name}]].")
    return values
