"""`grade` from a platform's archive to the table: class list, lateness, and grading again."""

from __future__ import annotations

import argparse
import csv
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from handed_in import archive, notebook
from ironlaw_autograder.build.lab_source import Lab
from ironlaw_autograder.cli import main
from ironlaw_autograder.commands import _taking
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.intake import late
from ironlaw_autograder.simulate.submissions import Desk

CLASS = """Student,ID,SIS User ID,SIS Login ID,Section,Submitted
    Points Possible,,,,,
"Lovelace, Ada",11,S1,ada,A,2026-10-01T21:00:00+00:00
"Hopper, Grace",12,S2,grace,A,2026-10-03T21:00:00+00:00
"Noether, Emmy",14,S4,emmy,A,
"""
DUE = ["--due", "2026-10-01T23:59+02:00", "--late", "10%"]


def rows(out: Path) -> dict[str, dict[str, str]]:
    text = (out / "grades.csv").read_text(encoding="utf-8-sig")
    return {row["student"] or row["file"]: row for row in csv.DictReader(text.splitlines())}


@pytest.mark.sandbox
def test_a_canvas_download_from_archive_to_table_and_again(
    course: Course, desk: Desk, lab_01: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def file(notebook: Any) -> bytes:
        return json.dumps(notebook).encode()

    package = archive(tmp_path / "download.zip", {
        "lovelaceada_11_900_lab_01_iron_law.ipynb": file(desk.untouched()),
        "lovelaceada_11_901_lab_01_iron_law-1.ipynb": file(desk.reference()),
        "hoppergrace_LATE_12_902_lab_01_iron_law.ipynb": file(desk.reference()),
        "lab_01 (1).ipynb": file(desk.reference({"mfu": "mfu = None"}))})
    (tmp_path / "class.csv").write_text(CLASS, encoding="utf-8")
    (tmp_path / "more.csv").write_text("id,due\nnobody,2026-10-05T00:00Z\n", encoding="utf-8")
    before = package.read_bytes()
    out = tmp_path / "download-graded"
    words = ["grade", str(package), "--root", str(course.root), "--workers", "1"]

    assert main([*words, *DUE, "--roster", str(tmp_path / "class.csv"), "--extensions",
                 str(tmp_path / "more.csv")]) == 0
    said = capsys.readouterr()
    assert "note: extensions for nobody here: nobody" in said.err
    assert "changed" not in said.out
    found = rows(out)
    assert {who: row["score"] for who, row in found.items()} == {
        "ada": "18", "grace": "14", "emmy": "0", "lab_01 (1).ipynb": "0"}
    assert "set aside: lovelaceada_11_900" in found["ada"]["remarks"]
    assert "late by 1 d 23 h" in found["grace"]["remarks"]
    assert "4 points taken off for lateness" in found["grace"]["remarks"]
    assert found["emmy"]["remarks"] == "nothing handed in"
    assert "does not say whose it is" in found["lab_01 (1).ipynb"]["remarks"]
    page = next((out / "feedback" / "grace").rglob("*.html")).read_text(encoding="utf-8")
    assert "after 4 taken off for lateness" in page
    with Classroom(out, course, lab_01).gradebook() as book:
        assert {s.id for s in book.students} == {"ada", "grace", "emmy"}
        assert book.find_student("grace").lms_user_id == "12"
        assert {s.student.id for s in book.assignment_submissions(lab_01.name)} == {"ada", "grace"}

    # Forgetting every flag changes neither who is who nor who was late.
    assert main(words) == 0
    said = capsys.readouterr()
    assert "as the last time; --due none takes it back" in said.err
    assert "no points changed since the last time" in said.out
    assert " kept  " in said.err
    assert not (out / "grades-changes.csv").exists()
    assert {who: row["score"] for who, row in rows(out).items()} == {
        who: row["score"] for who, row in found.items()}

    assert main([*words, "--due", "none", "--attempt", "first"]) == 0
    assert "grace: in all 14 -> 18" in capsys.readouterr().out
    assert {who: row["score"] for who, row in rows(out).items()} == {
        "ada": "0", "grace": "18", "emmy": "0", "lab_01 (1).ipynb": "0"}
    page = next((out / "feedback" / "grace").rglob("*.html")).read_text(encoding="utf-8")
    assert "taken off" not in page
    assert package.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {
        "download.zip", "class.csv", "more.csv", "download-graded"}


def test_a_worksheet_without_zones_makes_nobody_late_who_was_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server in another zone, and when the flags are forgotten the next time."""
    (tmp_path / "list.csv").write_text('id,submitted\nada,"1 October 2026, 10:00 PM"\n',
                                       encoding="utf-8")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        parser = argparse.ArgumentParser()
        _taking.add_flags(parser)
        words = ["--roster", str(tmp_path / "list.csv")]
        first = _taking.taking(parser.parse_args([*words, *DUE]), tmp_path)
        late.write(tmp_path, first.dates, 20.0)
        again = _taking.taking(parser.parse_args(words), tmp_path)
    finally:
        monkeypatch.undo()
        time.tzset()
    for taking in (first, again):
        assert taking.roster is not None
        (ada,) = taking.roster.students
        assert ada.submitted == datetime(2026, 10, 1, 20, tzinfo=UTC)
        assert "in that of the due date" in taking.roster.said[0]


def test_a_folder_without_one_notebook_that_can_be_read_names_what_is_wrong_with_it(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "ada.ipynb").write_text('{"cells": [', encoding="utf-8")
    words = ["grade", str(tmp_path / "class"), "--root", str(course.root)]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "where one notebook at least can be read" in said
    assert "ada.ipynb: the file is cut off or damaged" in said
    (tmp_path / "class" / "bob.ipynb").write_bytes(notebook())
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "name it with --lab. Not read: ada.ipynb: the file is cut off" in said


@pytest.mark.parametrize(("words", "said"), [
    (["--late", "2"], "Add --due"), (["--due", "tomorrow"], "due = 'tomorrow'"),
    (["--roster", "absent.csv"], "roster = "),
    (["--due", "2026-10-01T00:00Z", "--extensions", "absent.csv"], "extensions = "),
])
def test_a_slip_in_a_flag_is_told_before_anything_is_graded(
    course: Course, tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "class").mkdir()
    assert main(["grade", str(tmp_path / "class"), "--root", str(course.root), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "class-graded").exists()
