"""Tables survive whatever a student calls himself, and no cell of theirs starts a formula."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import lms_readers
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw_autograder.build.lab_source import Lab
from ironlaw_autograder.exports import cells
from ironlaw_autograder.grading import tables
from ironlaw_autograder.grading.grade import Result
from ironlaw_autograder.judge.engine import Score

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
HOSTILE = st.text(st.sampled_from("=+-@＝＋－＠﹣\t\r\n '\"“;,|a0\u00a0\u200b\ufeff"), max_size=8)


def seen(cell: str) -> str:
    """A cell as a lenient spreadsheet might take it: without blanks and invisible signs."""
    return "".join(char for char in unicodedata.normalize("NFKC", cell)
                   if not char.isspace() and unicodedata.category(char) not in ("Cc", "Cf"))


def dangerous(cell: str) -> bool:
    """Whether a cell could run, quotes in front skipped; an apostrophe in front disarms it."""
    bare = seen(cell)
    return not bare.startswith("'") and bare.lstrip("\"`‘’‚“”„«»'")[:1] in tuple("=+-@−")


@pytest.mark.parametrize("text", [
    "=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "  =1", "\u00a0=1", '"=1', '" =1', "'=1",
    "“=1", "＝1", "＋1", "－1", "＠1", "﹦1", "\u200b=1", "\ufeff=1", "\x00=1",
    "=cmd|' /C calc'!A0"])
def test_every_start_of_a_formula_gets_an_apostrophe(text: str) -> None:
    assert cells.guard(text) == "'" + text
    assert not dangerous(cells.guard(text))


@pytest.mark.parametrize("text", ["Ada", "a=b", "1.5", "007", "5 - 3", "x; y", "", "Ünï", "“so”",
                                  "mfu(1, -2) is 3", "a\nb"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert cells.guard(text) == text


def test_a_cell_that_another_reader_would_start_is_guarded_too() -> None:
    assert cells.guard("Ada;=1+1") == "Ada;'=1+1"
    assert cells.guard("Ada\n=1+1\n@x") == "Ada\n'=1+1\n'@x"
    assert cells.guard("\t=1") == "'\t'=1"
    assert cells.guard("\ud800=") == "?="
    assert cells.guard(';"\n=1') == """;'"\n'=1"""


def test_a_long_answer_is_guarded_in_one_look_at_each_sign(
        monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    plain = cells._starts_formula
    monkeypatch.setattr(cells, "_starts_formula", lambda char: looks.append(1) or plain(char))
    text = '"\n' * 5000 + "=1"
    assert cells.guard(text) == "'\"\n" * 5000 + "'=1"
    assert len(looks) == len(text)


@given(TEXT | HOSTILE)
@example("\t")
@example(';"\n=')  # split at ";" alone, the cell is a quote, a line break and a formula
@settings(deadline=None)
def test_no_text_is_dangerous_and_nothing_but_apostrophes_is_added(text: str) -> None:
    safe = cells.guard(text)
    assert safe[:1] not in tuple("\t\r\n")
    for separator in ("", ";", "\t", "\r", "\n"):
        parts = safe.split(separator) if separator else [safe]
        assert not any(map(dangerous, parts))
    kept = iter(safe)
    assert all(any(char == other for other in kept) for char in text)
    assert safe.replace("'", "") == text.replace("'", "")


@given(st.lists(st.lists(TEXT | HOSTILE, min_size=2, max_size=2), min_size=1, max_size=4))
@settings(deadline=None)
def test_an_independent_reader_finds_every_cell(rows: list[list[str]]) -> None:
    raw = cells.table(["one", "two"], rows).encode("utf-8")
    header, found = lms_readers.table(raw)
    assert header == ["one", "two"]
    assert [list(row.values()) for row in found] == [[cells.guard(c) for c in row] for row in rows]


def test_numbers_are_plain_and_nothing_is_empty() -> None:
    text = cells.table(["a", "b", "c", "d"], [[18.0, -0.00001, 1 / 3, None]])
    assert text.splitlines()[1] == '"18","0","0.3333",""'
    assert cells.number(13.335, 2) in ("13.33", "13.34")
    assert cells.number(1_000_000.0) == "1000000"
    with pytest.raises(ValueError, match="nan"):
        cells.number(float("nan"))


@given(st.lists(st.lists(TEXT, min_size=3, max_size=3), min_size=1, max_size=4), st.booleans(),
       st.sampled_from([",", ";"]))
@settings(deadline=None, max_examples=50)
def test_a_platforms_file_comes_back_cell_for_cell(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], bom: bool, sign: str
) -> None:
    rows = [["Who; what", "and, where", "Grade"], *(row for row in rows if any(
        cell.strip() for cell in row))]
    quoted = "\r\n".join(sign.join('"' + cell.replace('"', '""') + '"' for cell in row)
                         for row in rows) + "\r\n"
    path = tmp_path_factory.mktemp("sheet") / "file.csv"
    path.write_bytes((("\ufeff" if bom else "") + quoted).encode("utf-8"))
    sheet = cells.read_sheet("canvas", path, "a table")
    assert sheet.rows == rows
    text = sheet.text()
    assert text.startswith("\ufeff") is bom
    assert lms_readers.rfc4180(text.removeprefix("\ufeff"), sign) == rows


@pytest.mark.parametrize(("raw", "said"), [
    (b"", "It is empty"), (b"\n\n", "It is empty"), ("Grün".encode("latin-1"), "in UTF-8"),
    (b'a,b\n"c"d,e\n', "quotes do not match"), (b'a,b\n"c,d\n', "quotes do not match")])
def test_a_damaged_file_is_refused_in_words(tmp_path: Path, raw: bytes, said: str) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=said) as refused:
        cells.read_sheet("canvas", path, "a table")
    assert refused.value.argument == "canvas"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        cells.read_sheet("moodle", tmp_path / "none.csv", "a worksheet")


def test_grades_csv_is_guarded_too_and_shows_marks_given_by_hand(lab_01: Lab) -> None:
    result = Result("=1+1", "Ada; =2.ipynb", 3.0, 20.0, 2.0, problem="",
                    questions=[Score("check-mfu", 0.0, 2.0, "-5 is not right", got="-5"),
                               Score("explain", None, 2.0, "Waits for a person to mark it.")],
                    marked={"explain": 1.5})
    _, (row,) = lms_readers.table(tables.grades_csv(lab_01, [result]).encode())
    assert row["student"] == "'=1+1"
    assert row["file"] == "Ada;' =2.ipynb"
    assert row["explain"] == "1.5"
    assert (row["check-mfu"], row["check-refusal"]) == ("0", "")
    assert not any(dangerous(cell) for cell in row.values())
