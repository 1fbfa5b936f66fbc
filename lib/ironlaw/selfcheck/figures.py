"""Recomputes the numbers that questions rest on, from the library that teaches them.

A key that contradicts the library is a wrong key. `audit` finds it; the tests run it
over the whole bank.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from ..errors import InputError
from .kinds import Figure, Item

_ROOTS = ("predict.", "document.")


def compute(figure: Figure) -> float:
    """The figure's value in its own unit, freshly computed."""
    value = _called(figure.call, figure.arguments, figure.attribute)
    if figure.over:
        value /= _called(figure.call, {**figure.arguments, **figure.over}, figure.attribute)
    if figure.complement:
        value = 1.0 - value
    return value / figure.scale


def _called(call: str, arguments: dict[str, Any], attribute: str) -> float:
    """The result, or an attribute of it; an argument may itself be a call."""
    result = _function(call)(**{name: _argument(value) for name, value in arguments.items()})
    return float(getattr(result, attribute) if attribute else result)


def _argument(value: Any) -> Any:
    if isinstance(value, dict):
        inner = dict(value)
        return _function(inner.pop("call"))(**inner)
    return value


def _function(call: str) -> Any:
    if not call.startswith(_ROOTS):
        raise InputError("call", call, "a function of ironlaw.predict or ironlaw.document")
    module, _, name = call.rpartition(".")
    return getattr(importlib.import_module(f"ironlaw.{module}"), name)


def audit(items: Iterable[Item]) -> list[str]:
    """What does not hold, in words: a figure that differs, or a comparison that fails."""
    found = []
    for item in items:
        for figure in item.figures:
            value = compute(figure)
            where = f"{item.id}, {figure.name}: {value:.6g} {figure.unit}"
            if rounded(value, figure.digits) != rounded(figure.printed, figure.digits):
                found.append(f"{where}, but the item prints {figure.shown}")
            if figure.greater_than is not None and not value > figure.greater_than:
                found.append(f"{where} is not greater than {figure.greater_than:g}")
            if figure.less_than is not None and not value < figure.less_than:
                found.append(f"{where} is not less than {figure.less_than:g}")
    return found


def rounded(value: float, digits: int) -> str:
    """`value` to that many significant digits, in a form that can be compared."""
    return f"{value:.{digits - 1}e}"
