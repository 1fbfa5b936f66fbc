"""Every public function of `predict` under drawn inputs: finite, never negative, growing with work.

The calls are those of `test_predict_refusals`; each numeric argument is scaled by a drawn
factor. A drawn call may be refused (a head width that does not divide, a share above one),
but only by `InputError`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ironlaw import document
from ironlaw.errors import InputError
from test_predict_refusals import CALLS, SIGNED

WORK = {"parameters", "tokens", "operations", "batch", "seq", "layers", "items", "examples",
        "tensor_bytes", "steps"}
"""More of these never costs less."""
NO_COST = {
    ("flops.attention_overtakes", "layers"): "the head's share thins out over more blocks",
    ("optimizers.updates_per_epoch", "batch"): "larger batches mean fewer updates",
    ("waves.relative_time", "items"): "time per item: a fuller last wave wastes less",
    ("iron_law.uncredited_share", "parameters"): "more useful work leaves a smaller rest",
    ("iron_law.uncredited_share", "tokens"): "more useful work leaves a smaller rest",
}
"""Results that are no cost, with the reason."""
FACTORS = st.sampled_from([0.25, 0.5, 0.9, 1.0, 1.1, 2.0, 3.0, 8.0])


def name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__.split('.')[-1]}.{function.__name__}"


def scaled(value: Any, factor: float) -> Any:
    """`value` times `factor`, of the same kind; what is no number stays."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def numbers(result: Any) -> Iterator[float]:
    """Every number in a result, however it is packed."""
    if isinstance(result, bool | str) or result is None:
        return
    if isinstance(result, int | float):
        yield float(result)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for item in dataclasses.fields(result):
            yield from numbers(getattr(result, item.name))
    elif isinstance(result, Mapping):
        for part in result.values():
            yield from numbers(part)
    elif isinstance(result, list | tuple):
        for part in result:
            yield from numbers(part)


@pytest.mark.parametrize("function", list(CALLS), ids=name_of)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_comes_out_is_finite_and_not_negative(
    function: Callable[..., Any], data: st.DataObject
) -> None:
    arguments = {name: scaled(value, data.draw(FACTORS, label=name))
                 for name, value in CALLS[function].items()}
    try:
        result = function(**arguments)
    except InputError:
        return
    for value in numbers(result):
        assert math.isfinite(value), arguments
        assert value >= 0 or function in SIGNED, arguments


GROWING = [(function, name) for function, arguments in CALLS.items() for name in arguments
           if name in WORK and isinstance(arguments[name], int | float)
           and (name_of(function), name) not in NO_COST]


@pytest.mark.parametrize(("function", "argument"), GROWING,
                         ids=lambda x: x if isinstance(x, str) else name_of(x))
def test_more_work_never_costs_less(function: Callable[..., Any], argument: str) -> None:
    results = []
    for factor in (1, 2, 4):
        changed = {**CALLS[function], argument: scaled(CALLS[function][argument], factor)}
        with contextlib.suppress(InputError):
            results.append(function(**changed))
    amounts = [r for r in results if isinstance(r, int | float)]
    assert amounts == sorted(amounts)


def test_scenarios_of_the_document_beat_a_peak_only_where_the_audit_says_so() -> None:
    beyond = {row for row, held in document.AUDIT.items()
              if document.audited()[row].unit == "%" and document.value(row) > 100
              and "share of" in document.audited()[row].quantity}
    assert beyond == {"audit.n17.fp32", "audit.one.v100fp32", "audit.one.v100fp16",
                      "audit.one.a100", "audit.one.h100", "audit.t19.fp32peak"}
    for row, held in document.printed().items():
        if held.unit == "%" and ("utilisation" in held.quantity or "MFU" in held.where):
            assert document.value(row) <= 100, row
