"""Every file that a student can hand in is read or named, and never touched."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from handed_in import archive, notebook, readable, taken, tree
from ironlaw.errors import InputError
from ironlaw_autograder import intake

NOTEBOOK = json.dumps({"cells": [
    {"cell_type": "code", "source": ["x = 1\n", "y = 2"], "metadata": {
        "nbgrader": {"grade_id": "q", "points": 2, "note": {"deep": 1}}, "author": "me"}},
    {"cell_type": "markdown", "source": None, "metadata": None},
    "not a cell",
], "metadata": {"answers": 1}}).encode()


def test_a_notebook_keeps_text_and_label_and_drops_the_rest() -> None:
    made = intake.read_notebook(b"\xef\xbb\xbf" + NOTEBOOK)
    assert [cell.source for cell in made.cells] == ["x = 1\ny = 2", ""]
    assert made.cells[0].metadata == {"nbgrader": {"grade_id": "q", "points": 2}}
    assert made.metadata == {}


@pytest.mark.parametrize(("data", "said"), [
    (b"", "empty"), (b"  \n", "empty"), (b"{", "cut off"), (b"<html>", "web page"),
    (b"\xff\xfe\x00", "not UTF-8"), (b"[1]", "not a notebook"),
    (b'{"cells": {}}', "not a notebook"),
    (b"[" * 100_000, "damaged"), (b"x" * (intake.MAX_BYTES + 1), "larger than"),
])
def test_what_is_no_notebook_is_named(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        intake.read_notebook(data)


def test_a_folder_of_all_kinds(tmp_path: Path) -> None:
    tree(tmp_path, {"ada.ipynb": notebook("a"), "Zoë Å/renamed (2).ipynb": notebook("b"),
                    "broken.ipynb": b"{", "notes.txt": b"ignored", "pdf only/report.pdf": b"%PDF",
                    "packed/work.rar": b"Rar!", ".ipynb_checkpoints/x.ipynb": b"{"})
    (tmp_path / "none").mkdir()
    (tmp_path / "link.ipynb").symlink_to("/etc/passwd")
    (tmp_path / "linked").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe.ipynb")
    before = {p: hashlib.sha256(p.read_bytes()).digest() for p in tmp_path.rglob("*")
              if p.is_file() and not p.is_symlink()}
    found = taken(tmp_path)
    assert set(found) == {"ada", "Zoë Å", "none", "link", "linked", "broken", "pipe", "pdf only",
                          "packed"}
    assert readable(found) == {"ada", "Zoë Å"}
    assert found["none"].problem == "the folder holds no notebook"
    assert found["pdf only"].problem == "no notebook was handed in, but report.pdf"
    assert "only .zip" in found["packed"].problem
    assert "links are refused" in found["link"].problem
    assert "links are refused" in found["linked"].problem
    assert "no ordinary file" in found["pipe"].problem
    assert "cut off" in found["broken"].problem
    assert intake.collect(tmp_path).said == ("left alone, no notebooks: notes.txt",)
    assert {p: hashlib.sha256(p.read_bytes()).digest() for p in before} == before


def test_one_notebook_alone_and_a_students_own_archive(tmp_path: Path) -> None:
    (tmp_path / "ada.ipynb").write_bytes(notebook())
    assert readable(taken(tmp_path / "ada.ipynb")) == {"ada"}
    own = archive(tmp_path / "bea (1).zip", {"lab_01/lab_01_iron_law.ipynb": notebook()})
    assert readable(taken(own)) == {"bea"}
    nobody = archive(tmp_path / "submissions.zip", {"lab_01.ipynb": notebook()})
    assert readable(taken(nobody)) == set()


def test_a_name_that_could_be_anybodys_is_a_problem_and_no_student(tmp_path: Path) -> None:
    names = ["lab_01 (1)", "lab_01-copy", "lab_01_iron_law-Copy1", "Untitled3", "final final v2",
             "Lab 01 Iron Law", "homework"]
    tree(tmp_path, {f"{name}.ipynb": notebook(name) for name in names} | {"7.ipynb": notebook()})
    found = taken(tmp_path)
    assert set(found) == {f"? {name}.ipynb" for name in names} | {"7"}
    assert {s.student for s in found.values()} == {"", "7"}
    assert all("does not say whose it is" in s.problem for s in found.values() if not s.student)


@pytest.mark.parametrize(("file", "student"), [
    ("ada (1).ipynb", "ada"), ("ada-Copy2.ipynb", "ada"), ("ada - Copy (3).ipynb", "ada"),
    ("ada copy.ipynb", "ada"), ("ada.ipynb.txt", "ada"), ("ada.IPYNB", "ada"),
    ("Ada Copyright.ipynb", "Ada Copyright"),
])
def test_marks_of_a_copy_are_no_part_of_an_id(tmp_path: Path, file: str, student: str) -> None:
    (tmp_path / file).write_bytes(notebook())
    (found,) = taken(tmp_path).values()
    assert (found.student, found.problem) == (student, "")
    assert bool(found.notes) == (student == "ada" and ("opy" in file or "(" in file))


def test_of_two_notebooks_in_a_folder_the_one_called_as_the_lab_counts(tmp_path: Path) -> None:
    tree(tmp_path, {"ada/lab_01_iron_law.ipynb": notebook("a"), "ada/draft.ipynb": notebook("b")})
    found = taken(tmp_path)["ada"]
    assert found.notebook is not None
    assert found.file.name == "lab_01_iron_law.ipynb"
    assert "draft.ipynb" in found.notes[0]


def test_another_labs_notebook_beside_it_is_named_and_not_graded(tmp_path: Path) -> None:
    tree(tmp_path, {"ada/x.ipynb": notebook("a"), "ada/y.ipynb": notebook("b", ("another",))})
    found = taken(tmp_path)["ada"]
    assert found.file.name == "x.ipynb"
    assert found.notes == ("not graded, for another notebook counts: ada/y.ipynb",)


def test_notebooks_in_folders_of_their_own_are_not_taken_for_attempts(tmp_path: Path) -> None:
    tree(tmp_path, {f"group A/{name}/work.ipynb": notebook(name) for name in ("ada", "bea")}
         | {"group B/cleo/work.ipynb": notebook("c")})
    found = taken(tmp_path)
    assert readable(found) == {"group B"}
    assert "nothing says which one counts" in found["group A"].problem
    assert "group A/ada/work.ipynb" in found["group A"].problem


def test_the_newest_attempt_counts_and_the_others_are_named(tmp_path: Path) -> None:
    for day, name in enumerate(("ada.ipynb", "ada (1).ipynb", "ada (2).ipynb"), start=1):
        (tmp_path / name).write_bytes(notebook(name))
        when = datetime(2026, 9, day, 12, tzinfo=UTC).timestamp()
        os.utime(tmp_path / name, (when, when))
    last, first = taken(tmp_path)["ada"], taken(tmp_path, attempt="first")["ada"]
    assert (last.file.name, last.attempt, last.attempts) == ("ada (2).ipynb", 3, 3)
    assert (first.file.name, first.attempt, first.attempts) == ("ada.ipynb", 1, 3)
    assert any("set aside: ada.ipynb, ada (1).ipynb" in note for note in last.notes)
    assert last.submitted is None  # a file's time is no time of handing in
    dated = taken(tmp_path, file_times=True)["ada"]
    assert dated.submitted == datetime(2026, 9, 3, 12, tzinfo=UTC)


def test_the_same_file_twice_is_one_attempt_and_two_files_of_one_time_are_a_question(
    tmp_path: Path
) -> None:
    tree(tmp_path, {"ada/a.ipynb": notebook("a"), "ada/b.ipynb": notebook("a"),
                    "bea/a.ipynb": notebook("a"), "bea/b.ipynb": notebook("b")})
    for path in (tmp_path / "bea").iterdir():
        os.utime(path, (1e9, 1e9))
    found = taken(tmp_path)
    assert (found["ada"].attempts, found["ada"].problem) == (1, "")
    assert "nothing says which one counts" in found["bea"].problem


def test_an_unreadable_newer_attempt_leaves_the_one_before_and_is_named(tmp_path: Path) -> None:
    tree(tmp_path, {"ada.ipynb": notebook(), "ada (1).ipynb": b'{"cells": ['})
    found = taken(tmp_path)["ada"]
    assert found.notebook is not None
    assert any("ada (1).ipynb could not be read: the file is cut off" in n for n in found.notes)


def test_spellings_of_one_id_are_one_student(tmp_path: Path) -> None:
    composed, decomposed = "Zo\u00eb.ipynb", "zoe\u0308 (1).ipynb"
    tree(tmp_path, {composed: notebook("a"), decomposed: notebook("b")})
    found = list(taken(tmp_path).values())
    assert [s.student for s in found] == ["Zo\u00eb"]
    assert found[0].attempts == 2


def test_names_become_safe_for_paths_and_stay_readable() -> None:
    assert intake.student_name("Nguyễn Văn A") == "Nguyễn Văn A"
    assert intake.student_name("a/../*[b]?\x00") == "a_..___b___"
    assert intake.student_name(" .. ") == "unnamed"
    assert intake.student_name("\ud800x") == "_x"
    assert intake.student_name("a\x9b2J\u202eb\u2028c\u2066d") == "a_2J_b_c_d"
    assert intake.student_name("\u0645\u06cc\u200c\u062e") == "\u0645\u06cc\u200c\u062e"


def test_no_such_path_nothing_in_it_and_another_kind_of_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Nothing has this name"):
        intake.collect(tmp_path / "absent")
    with pytest.raises(InputError, match=r"no \.ipynb"):
        intake.collect(tmp_path)
    (tmp_path / "list.csv").write_text("ada", encoding="utf-8")
    with pytest.raises(InputError, match=r"\.zip archive or an \.ipynb"):
        intake.collect(tmp_path / "list.csv")
