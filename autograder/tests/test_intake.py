"""Every file that a student can hand in is read or named, and never touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ironlaw.errors import InputError
from ironlaw_autograder.grading import intake

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
    (tmp_path / "ada.ipynb").write_bytes(NOTEBOOK)
    (tmp_path / "Zoë Å").mkdir()
    (tmp_path / "Zoë Å" / "renamed (2).ipynb").write_bytes(NOTEBOOK)
    (tmp_path / "two").mkdir()
    for name in ("a.ipynb", "b.ipynb"):
        (tmp_path / "two" / name).write_bytes(NOTEBOOK)
    (tmp_path / "none").mkdir()
    (tmp_path / "link.ipynb").symlink_to("/etc/passwd")
    (tmp_path / "broken.ipynb").write_bytes(b"{")
    (tmp_path / "notes.txt").write_text("ignored", encoding="utf-8")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.ipynb") if not p.is_symlink()}
    found = {s.student: s for s in intake.read_folder(tmp_path)}
    assert set(found) == {"ada", "Zoë Å", "two", "none", "link", "broken"}
    assert [name for name, s in found.items() if s.notebook is not None] == ["Zoë Å", "ada"]
    assert "2 notebooks" in found["two"].problem
    assert "no notebook" in found["none"].problem
    assert "links are refused" in found["link"].problem
    assert "cut off" in found["broken"].problem
    assert {p: p.read_bytes() for p in before} == before


def test_one_of_several_notebooks_is_chosen_by_the_labs_name(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    for name in ("lab_x.ipynb", "draft.ipynb"):
        (tmp_path / "ada" / name).write_bytes(NOTEBOOK)
    (found,) = intake.read_folder(tmp_path, "lab_x")
    assert found.notebook is not None
    assert found.file.name == "lab_x.ipynb"


def test_names_become_safe_for_paths_and_stay_readable() -> None:
    assert intake.student_name("Nguyễn Văn A") == "Nguyễn Văn A"
    assert intake.student_name("a/../*[b]?\x00") == "a_..___b___"
    assert intake.student_name(" .. ") == "unnamed"


def test_no_folder_no_file_and_two_of_a_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        intake.read_folder(tmp_path / "absent")
    with pytest.raises(InputError, match=r"no \.ipynb"):
        intake.read_folder(tmp_path)
    (tmp_path / "ada.ipynb").write_bytes(NOTEBOOK)
    (tmp_path / "ada").mkdir()
    with pytest.raises(InputError, match="same name"):
        intake.read_folder(tmp_path)
