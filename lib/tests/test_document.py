"""The document's numbers: every one computed, every keyword alive, the command honest."""

from __future__ import annotations

import inspect
import json
import math

import pytest
from ironlaw import cli, document
from ironlaw.errors import InputError

ROWS = sorted(document.ROWS)


def changed(value: object) -> list[object]:
    """Other values of the same type, near `value`: one of them has to move the result."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2, value * 3]
    if isinstance(value, float):
        # Down first: a fraction may not rise past one.
        return [value * 0.9, value * 1.1] if value else [0.1]
    if isinstance(value, tuple):
        return [(*value[:i], other, *value[i + 1:])
                for i, part in enumerate(value) for other in changed(part)]
    raise AssertionError(f"no rule for {value!r}")


def moved(row: document.Row, keyword: str, value: object) -> bool:
    """Whether the row's value differs when that keyword has that value."""
    try:
        return not math.isclose(row.value(**{keyword: value}), row.value(), rel_tol=1e-12)
    except InputError:
        return False


@pytest.mark.parametrize("id", ROWS)
def test_every_row_gives_the_reference_value(id: str) -> None:
    assert document.value(id) == pytest.approx(document.printed()[id].value, rel=1e-9)
    assert document.agrees(id)


@pytest.mark.parametrize("id", ROWS)
def test_changing_any_keyword_changes_the_value(id: str) -> None:
    row = document.ROWS[id]
    assert row.arguments, "a number without inputs is a typed-in number"
    for keyword, value in row.arguments.items():
        if keyword in row.constant:
            assert len(row.constant[keyword]) > 10, "a reason has to be a reason"
            continue
        assert any(moved(row, keyword, other) for other in changed(value)), keyword


@pytest.mark.parametrize("id", ROWS)
def test_a_row_names_every_input_it_uses(id: str) -> None:
    row = document.ROWS[id]
    parameters = inspect.signature(row.function).parameters
    required = {n for n, p in parameters.items() if p.default is p.empty}
    assert required <= set(row.arguments) <= set(parameters)


@pytest.mark.parametrize("id", ROWS)
def test_functions_are_documented_and_real(id: str) -> None:
    function = document.ROWS[id].function
    assert function.__name__ != "<lambda>"
    assert function.__module__.startswith("ironlaw.predict.")
    assert function.__doc__


@pytest.mark.parametrize("id", ROWS)
def test_bad_inputs_are_refused_by_name(id: str) -> None:
    row = document.ROWS[id]
    for keyword, value in row.arguments.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        for bad in (math.nan, math.inf, "12", None, -1e9):
            with pytest.raises(InputError) as caught:
                row.value(**{keyword: bad})
            assert caught.value.argument == keyword
            assert caught.value.allowed


def test_a_wrong_reference_value_is_noticed(monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    id = "gpt3.O"
    real = document.ROWS[id]
    off = document.Row(id, real.function, {**real.arguments, "tokens": 301e9}, real.scale)
    monkeypatch.setitem(document.ROWS, id, off)
    assert not document.agrees(id)
    assert cli.main(["figures"]) == 1
    assert id in capsys.readouterr().out.splitlines()[-1]


def test_unknown_ids_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"gpt3\.O"):
        document.value("gpt3.0")


def test_figures_prints_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figures"]) == 0
    words = capsys.readouterr().out.split()
    assert set(ROWS) <= set(words)


def test_figures_json_holds_id_value_and_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figures", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [set(row) for row in rows] == [{"id", "value", "unit"}] * len(ROWS)
    assert {row["id"]: row["value"] for row in rows} == {
        id: pytest.approx(document.printed()[id].value, rel=1e-9) for id in ROWS}


def test_figures_of_one_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figures", "--section", "1", "--json"]) == 0
    ids = {row["id"] for row in json.loads(capsys.readouterr().out)}
    assert ids == {p.id for p in document.printed().values() if p.section == 1}
