"""What is exported is what the gradebook says: marks by hand and penalties count, waiting waits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import graded_folder as gf
import lms_readers
import pytest
from graded_folder import ADA, BORIS, CHIDI, DUNYA, EMRE, FARAH, Pupil, full
from ironlaw_autograder.cli import main
from ironlaw_autograder.exports import marks, scores
from ironlaw_autograder.exports.filling import Wishes
from ironlaw_autograder.exports.matching import match
from ironlaw_autograder.intake.settle import NOTHING

PUPILS = {
    ADA: full(explain=1.5),
    BORIS: full(12.0, 3.5),
    CHIDI: full(0.0, 0.0, by_hand={"explain": 2.0, "check-mfu": 5.0}),
    DUNYA: full(12.0, 6.0, 2.0, late=3.0),
    EMRE: Pupil(dict.fromkeys(gf.QUESTIONS, 0.0), problem="The file is cut off."),
    FARAH: Pupil(problem="could not be graded: RuntimeError", in_gradebook=False),
    "007": Pupil(problem=NOTHING, file="", in_gradebook=False),
    "earlier": full(2.0, 0.0, 1.0, problem=NOTHING, file=""),
    "=1+1": full(1.0, 0.0, 0.0, late=5.0),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("made")
    return gf.make(where / "class-graded", gf.empty_gradebook(where), PUPILS)


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    """A copy of its own, to be spoilt."""
    return shutil.copytree(made, tmp_path / "class-graded")


def test_the_gradebook_decides_every_point(out: Path) -> None:
    book = marks.read(out)
    found = {student.id: student for student in book.students}
    assert list(found) == sorted(PUPILS)
    assert book.nameless == ("lab (1).ipynb",)
    assert (book.lab, book.maximum) == (gf.LAB, 20)
    assert {name: (s.total, s.final) for name, s in found.items()} == {
        ADA: (19.5, True), BORIS: (15.5, False), CHIDI: (7.0, True), DUNYA: (17.0, True),
        EMRE: (0.0, True), FARAH: (0.0, False), "007": (0.0, False), "=1+1": (0.0, True),
        "earlier": (3.0, True)}
    assert found[BORIS].waiting == ("explain",)
    assert {name for name, s in found.items() if not s.judged} == {EMRE, FARAH, "007"}
    assert not found["007"].handed_in


def table(out: Path, *words: str) -> dict[str, dict[str, str]]:
    assert main(["export", str(out), *words]) == 0
    _, rows = lms_readers.table((out / "exports" / "scores.csv").read_bytes())
    return {row["student"]: row for row in rows}


def test_a_total_that_waits_is_not_handed_on_as_final(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = table(out)
    said = capsys.readouterr().out
    assert {name: row["score"] for name, row in rows.items()} == {
        ADA: "19.5", BORIS: "", CHIDI: "7", DUNYA: "17", EMRE: "0", FARAH: "", "007": "",
        "'=1+1": "0", "earlier": "3"}
    assert rows[BORIS]["state"] == "waits for a person"
    assert rows[FARAH]["state"].startswith("not judged")
    assert (rows[DUNYA]["late penalty"], rows[BORIS]["explain"]) == ("3", "")
    assert f"{BORIS}: waits for a person" in said
    assert f"{FARAH}: not judged" in said
    assert f"{EMRE}: The file is cut off." in said
    assert "handed in nothing, left empty (1):\n    007\n" in said
    assert "nobody knows whose they are: no grade (1):\n    lab (1).ipynb" in said


def test_partial_and_absent_zero_hand_on_what_was_asked_for_and_no_more(out: Path) -> None:
    rows = table(out, "--partial", "--absent-zero")
    assert (rows[BORIS]["score"], rows["007"]["score"], rows[FARAH]["score"]) == ("15.5", "0", "")
    assert rows[BORIS]["state"] == "waits for a person"


def test_the_table_holds_ids_and_points_and_nothing_else(out: Path) -> None:
    raw = scores.scores_csv(marks.read(out), Wishes()).encode()
    header, _ = lms_readers.table(raw)
    assert header == ["student", "score", "maximum", "late penalty", "state", *sorted(gf.QUESTIONS)]
    assert b'"007"' in raw


def test_reading_changes_no_byte_of_the_gradebook(out: Path) -> None:
    before = (out / "gradebook.db").read_bytes()
    marks.read(out)
    assert (out / "gradebook.db").read_bytes() == before


def test_the_json_says_everything(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    by_name = {row["student"]: row for row in data["students"]}
    assert by_name[BORIS] == {"student": BORIS, "score": None, "so_far": 15.5, "late_penalty": 0.0,
                              "state": "waits for a person", "waiting": ["explain"]}
    assert data["distribution"]["n"] == 6
    assert data["nameless"] == ["lab (1).ipynb"]
    assert data["distribution"]["waiting"] == 1
    assert [item["name"] for item in data["items"]] == sorted(gf.QUESTIONS)
    assert all(Path(file).is_file() for file in data["files"].values())


@pytest.mark.parametrize(("spoil", "said"), [
    (lambda out: (out / "grades.json").unlink(), "with grades.json in it"),
    (lambda out: (out / "gradebook.db").unlink(), "gradebook.db is missing"),
    (lambda out: (out / "grades.json").write_text("{"), "Grade again to write it afresh"),
    (lambda out: (out / "grades.json").write_text('{"lab": "lab_09", "results": []}'),
     "does not know this lab"),
    (lambda out: out.rename(out.with_name("moved")), "There is no such folder")])
def test_a_folder_that_lacks_something_is_refused_in_words(
    out: Path, capsys: pytest.CaptureFixture[str], spoil: Any, said: str
) -> None:
    spoil(out)
    assert main(["export", str(out)]) == 2
    refused = capsys.readouterr().err
    assert "out = " in refused
    assert said in refused
    assert not (out / "exports").exists()
    assert not (out / "gradebook.db").exists() or said != "gradebook.db is missing"


def test_a_refused_template_leaves_no_half_of_an_export(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "wrong.csv").write_text("a,b\n1,2\n")
    assert main(["export", str(out), "--canvas", str(out / "wrong.csv")]) == 2
    assert "canvas = " in capsys.readouterr().err
    assert not (out / "exports").exists()


def test_a_template_is_never_overwritten(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = out / "exports" / "moodle.csv"
    template.parent.mkdir()
    template.write_text("Identifier,Full name,Grade,Maximum grade,Last modified (grade)\n")
    before = template.read_bytes()
    assert main(["export", str(out), "--moodle", str(template)]) == 2
    assert "would overwrite it" in capsys.readouterr().err
    assert template.read_bytes() == before


def student(id: str, *names: str) -> marks.Student:
    return marks.Student(id, {}, names=names)


def test_ids_match_to_the_letter_and_in_either_form_of_an_accent() -> None:
    rows = [{"ID": "1", "Login": "ada"}, {"ID": "2", "Login": "Ünï"}, {"ID": "03", "Login": ""}]
    made = match([student("Ada"), student("U\u0308ni\u0308 "), student("3"), student("x", "03")],
                 rows)
    assert made.rows == {"U\u0308ni\u0308 ": 1, "x": 2}
    assert made.missing == ["Ada", "3"]
    assert made.nearly == {"Ada": "ada"}
    assert match([student("Ada")], rows, ignore_case=True).rows == {"Ada": 0}
    assert match([student("n")], rows, {"n": ("zz", "ada")}).rows == {"n": 0}


def test_a_row_with_two_claims_and_a_student_with_two_rows_get_nothing() -> None:
    rows = [{"ID": "1", "Login": "2"}, {"ID": "2", "Login": "b"}, {"ID": "9", "Login": "c"}]
    made = match([student("2"), student("9"), student("c"), student("b")], rows)
    assert made.rows == {"b": 1}
    assert "more than one row" in made.unclear["2"]
    assert "same row as c" in made.unclear["9"]
    assert "same row as 9" in made.unclear["c"]
