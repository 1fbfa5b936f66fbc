"""The document's numbers: every one computed, every keyword alive, the command honest."""

from __future__ import annotations

import ast
import inspect
import json
import math

import pytest
from ironlaw import cli, document
from ironlaw.errors import InputError

TABLE = {**document.ROWS, **document.AUDIT}
REFERENCE = {**document.printed(), **document.audited()}
IDS = sorted(TABLE)


def changed(row: document.Row, keyword: str, value: object) -> list[object]:
    """Other values of the same kind: one of them has to move the result."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2, value * 3]
    if isinstance(value, float):
        # Down first: a fraction may not rise past one.
        return [value * 0.9, value * 1.1, value + 1] if value else [0.1]
    if isinstance(value, tuple):
        return [(*value[:i], other, *value[i + 1:])
                for i, part in enumerate(value) for other in changed(row, keyword, part)]
    assert isinstance(value, str)
    return [name for name in allowed_names(row, keyword) if name != value]


def allowed_names(row: document.Row, keyword: str) -> list[str]:
    """The names that a refusal of a wrong one lists."""
    with pytest.raises(InputError) as caught:
        row.value(**{keyword: "no such name"})
    return list(ast.literal_eval("[" + caught.value.allowed.removeprefix("one of ") + "]"))


def moved(row: document.Row, keyword: str, value: object) -> bool:
    """Whether the row's value differs when that keyword has that value."""
    try:
        return not math.isclose(row.value(**{keyword: value}), row.value(), rel_tol=1e-12)
    except InputError:
        return False


def test_all_rows_of_both_references_are_computed() -> None:
    assert set(document.ROWS) == set(document.printed())
    assert set(document.AUDIT) == set(document.audited())
    assert (len(document.ROWS), len(document.AUDIT)) == (211, 35)


@pytest.mark.parametrize("id", IDS)
def test_every_row_gives_the_reference_value(id: str) -> None:
    assert document.value(id) == pytest.approx(REFERENCE[id].value, rel=1e-9)
    assert document.agrees(id)
    assert document.rounds_as_printed(id)


@pytest.mark.parametrize("id", IDS)
def test_changing_any_keyword_changes_the_value(id: str) -> None:
    row = TABLE[id]
    assert row.inputs, "a number without inputs is a typed-in number"
    for keyword, value in row.inputs.items():
        others = changed(row, keyword, value)
        if keyword in row.constant:
            assert len(row.constant[keyword]) > 10, "a reason has to be a reason"
            assert not all(moved(row, keyword, other) for other in others)
            continue
        assert any(moved(row, keyword, other) for other in others), keyword


def test_no_function_hands_an_input_back() -> None:
    for row in TABLE.values():
        if len(row.inputs) == 1:
            (only,) = row.inputs.values()
            assert row.si() != only, f"{row.id}: an identity is a typed-in number"


def test_rows_name_every_input_of_a_public_documented_function() -> None:
    for row in TABLE.values():
        parameters = inspect.signature(row.function).parameters
        required = {n for n, p in parameters.items() if p.default is p.empty}
        assert required <= set(row.arguments) <= set(parameters), row.id
        assert row.function.__module__.startswith("ironlaw.predict."), row.id
        assert not row.function.__name__.startswith(("_", "<")), row.id
        assert row.function.__doc__, row.id


@pytest.mark.parametrize("id", IDS)
def test_bad_inputs_are_refused_by_name(id: str) -> None:
    row = TABLE[id]
    for keyword, value in row.inputs.items():
        parts = value if isinstance(value, tuple) else (value,)
        if isinstance(parts[0], str):
            continue
        for bad in (math.nan, math.inf, "12", None, -1e9):
            given = (bad, *parts[1:]) if isinstance(value, tuple) else bad
            with pytest.raises(InputError) as caught:
                row.value(**{keyword: given})
            assert caught.value.argument.startswith(keyword)
            assert caught.value.allowed


def test_a_row_that_rests_on_another_takes_its_value() -> None:
    step = document.ROWS["ex11.step"]
    assert step.rests_on == ("nap11.step",)
    assert step.inputs["operations"] == document.ROWS["nap11.step"].si()
    # 320.8 TFLOP, not 320.8: the unit of the other row's table does not leak in.
    assert step.inputs["operations"] == pytest.approx(320.83e12, rel=1e-4)


def test_rows_never_rest_on_each_other_in_a_circle() -> None:
    def depth(id: str, seen: tuple[str, ...] = ()) -> int:
        assert id not in seen
        return 1 + max((depth(r, (*seen, id)) for r in TABLE[id].rests_on), default=0)

    assert max(depth(id) for id in IDS) >= 4


def test_rounding_notices_a_last_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    row = document.ROWS["nap13.act"]
    assert row.value() == pytest.approx(35.86, abs=0.01)
    off = document.Row(row.id, row.function, {**row.arguments, "token_factor": 34.1}, row.scale)
    monkeypatch.setitem(document.ROWS, row.id, off)
    assert not document.agrees(row.id)
    assert document.rounds_as_printed(row.id)
    off = document.Row(row.id, row.function, {**row.arguments, "token_factor": 34.5}, row.scale)
    monkeypatch.setitem(document.ROWS, row.id, off)
    assert not document.rounds_as_printed(row.id)


@pytest.mark.parametrize(("id", "flags", "keyword"), [
    ("gpt3.O", [], "tokens"), ("audit.n13.fp32", ["--audit"], "token_factor")])
def test_the_command_fails_on_a_difference_and_names_it(
    id: str, flags: list[str], keyword: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    real = TABLE[id]
    table = document.AUDIT if flags else document.ROWS
    more = real.inputs[keyword] * 1.01
    monkeypatch.setitem(table, id, document.Row(id, real.function,
                                                {**real.arguments, keyword: more}, real.scale))
    assert cli.main(["figures", *flags]) == 1
    out = capsys.readouterr().out
    assert id in out.splitlines()[-1]
    assert f"\n! {id}" in out
    assert cli.main(["figures", "--json", *flags]) == 1


def test_unknown_ids_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"gpt3\.O"):
        document.value("gpt3.0")


@pytest.mark.parametrize(("flags", "table"), [([], "ROWS"), (["--audit"], "AUDIT")])
def test_figures_prints_every_row(flags: list[str], table: str,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figures", *flags]) == 0
    first = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert set(getattr(document, table)) <= first


@pytest.mark.parametrize(("flags", "count"), [([], 211), (["--audit"], 35)])
def test_figures_json_holds_id_value_and_unit(flags: list[str], count: int,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figures", "--json", *flags]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [set(row) for row in rows] == [{"id", "value", "unit"}] * count
    for row in rows:
        assert row["value"] == pytest.approx(REFERENCE[row["id"]].value, rel=1e-9)


def test_figures_of_one_section(capsys: pytest.CaptureFixture[str]) -> None:
    for section in range(1, 9):
        assert cli.main(["figures", "--section", str(section), "--json"]) == 0
        ids = {row["id"] for row in json.loads(capsys.readouterr().out)}
        assert ids == {p.id for p in document.printed().values() if p.section == section}
