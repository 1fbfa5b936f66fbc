"""Whose work it is, by the names that Canvas, Moodle, Blackboard and nbgrader write."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from handed_in import LAB, archive, notebook, readable, taken, tree
from ironlaw_autograder.intake import names

CANVAS = {
    "lovelaceada_12345_678901_lab_01_iron_law.ipynb": "lovelaceada_12345",
    "hoppergrace_LATE_22_678902_lab_01_iron_law-1.ipynb": "hoppergrace_22",
    "nguyễnvăna_23_678903_my work_2_3.ipynb": "nguyễnvăna_23",
    "रामविश्व_24_678903_lab.ipynb": "रामविश्व_24",
    "anon_Xy12z_678904_lab.ipynb": "anon_Xy12z",
    "LATE_anon_Ab9_678905_lab.ipynb": "anon_Ab9",
}
MOODLE = {
    "Ada Lovelace_4711_assignsubmission_file_/lab_01.ipynb": "Ada Lovelace_4711",
    "Grace Hopper_4712_assignsubmission_file/sub/lab.ipynb": "Grace Hopper_4712",
    "Nguyễn Văn A_4713_assignsubmission_file_lab_01.ipynb": "Nguyễn Văn A_4713",
    "Participant_4714_assignsubmission_file_/x.ipynb": "Participant_4714",
}
BLACKBOARD = {"Lab 1_ada99_attempt_2026-09-30-23-41-02_lab_01.ipynb": "ada99"}
EXCHANGE = {
    f"ada+{LAB}+2026-09-30 21:41:02.123456 UTC/{LAB}.ipynb": "ada",
    f"bea+{LAB}+2026-09-30 21:41:02.123456 UTC+Zm9v/{LAB}.ipynb": "bea",
}


@pytest.mark.parametrize("entries", [CANVAS, MOODLE, BLACKBOARD, EXCHANGE])
@pytest.mark.parametrize("wrapped", ["", "submissions/", "class/"])
def test_each_platforms_names_from_a_folder_and_from_its_archive(
    tmp_path: Path, entries: dict[str, str], wrapped: str
) -> None:
    files = {wrapped + name: notebook(name) for name in entries}
    found = taken(archive(tmp_path / "class.zip", files))
    assert readable(found) == set(entries.values())
    assert set(taken(tree(tmp_path / "class", files))) == set(entries.values())


def test_times_that_names_tell_and_the_platforms_word_for_late(tmp_path: Path) -> None:
    tree(tmp_path, {name: notebook(name) for name in (*CANVAS, *EXCHANGE)})
    found = taken(tmp_path)
    assert found["ada"].submitted == datetime(2026, 9, 30, 21, 41, 2, 123456, tzinfo=UTC)
    assert {name for name, s in found.items() if s.late} == {"hoppergrace_22", "anon_Ab9"}
    assert found["hoppergrace_22"].submitted is None
    assert found["hoppergrace_22"].ids == ("22",)


def test_blackboards_time_is_read_in_this_machines_zone(tmp_path: Path) -> None:
    found = taken(tree(tmp_path, {name: notebook() for name in BLACKBOARD}))["ada99"]
    assert found.submitted == datetime(2026, 9, 30, 23, 41, 2).astimezone()


def test_nbgraders_course_tree_with_its_times_and_other_labs(tmp_path: Path) -> None:
    tree(tmp_path, {
        f"submitted/ada/{LAB}/{LAB}.ipynb": notebook("a"),
        f"submitted/ada/{LAB}/timestamp.txt": b"2026-09-30 21:41:02.5 UTC",
        "submitted/ada/lab_02_memory/lab_02_memory.ipynb": notebook("b", ("another",)),
        f"submitted/bea/{LAB}/{LAB}.ipynb": notebook("c"),
        f"submitted/bea/{LAB}/timestamp.txt": b"some day",
        f"source/{LAB}/{LAB}.ipynb": notebook("the instructor's"),
        f"autograded/ada/{LAB}/{LAB}.ipynb": notebook("old"), "gradebook.db": b"x"})
    for path in (tmp_path, tmp_path / "submitted"):
        found = taken(path)
        assert readable(found) == {"ada", "bea"}
        assert found["ada"].submitted == datetime(2026, 9, 30, 21, 41, 2, 500000, tzinfo=UTC)
        assert found["bea"].submitted is None
        assert "lab_02_memory" in found["ada"].notes[0]


def test_attempts_on_a_platform_are_ordered_by_what_it_wrote(tmp_path: Path) -> None:
    tree(tmp_path, {
        "lovelaceada_1_999_lab.ipynb": notebook("old"),
        "lovelaceada_1_1000_lab.ipynb": notebook("new"),
        f"bea+{LAB}+2026-09-30 21:00:00 UTC/{LAB}.ipynb": notebook("old"),
        f"bea+{LAB}+2026-10-01 09:00:00 UTC/{LAB}.ipynb": notebook("new"),
        f"bea+{LAB}+2026-10-01 09:00:00 UTC/draft.ipynb": notebook("no")})
    found = taken(tmp_path)
    for student in ("lovelaceada_1", "bea"):
        chosen = found[student]
        assert chosen.notebook is not None
        assert "new" in chosen.notebook.cells[0].source
        assert (chosen.attempt, chosen.attempts) == (2, 2)
    assert "2026-09-30" in " ".join(found["bea"].notes)


def test_what_was_typed_or_is_no_notebook_is_named_with_its_student(tmp_path: Path) -> None:
    tree(tmp_path, {
        "lovelaceada_1_text.html": b"<p>", "hoppergrace_LATE_2_link.html": b"<a>",
        "curiemarie_3_77_report.pdf": b"%PDF", "noetheremmy_4_78_work.zip": b"no archive",
        "Ada B_5_assignsubmission_onlinetext_/onlinetext.html": b"<p>",
        "Ada B_5_assignsubmission_file_/lab.ipynb": notebook(),
        "Bea C_6_assignsubmission_onlinetext_/onlinetext.html": b"<p>"})
    found = taken(tmp_path)
    assert readable(found) == {"Ada B_5"}
    for student in ("lovelaceada_1", "hoppergrace_2", "Bea C_6"):
        assert "typed into a form" in found[student].problem
    assert "curiemarie_3_77_report.pdf" in found["curiemarie_3"].problem
    assert "cannot be opened" in found["noetheremmy_4"].problem


@pytest.mark.parametrize("text", ["lab_1_2_final", "lab_01_2_x", "ada_2", "ada", "notebook_3_4_b",
                                  "a+b+c", "ada+lab+tomorrow"])
def test_what_no_platform_wrote_is_not_taken_for_it(text: str) -> None:
    assert names.of_platform(f"{text}.ipynb") is None


@pytest.mark.parametrize("text", ["ada", "816013096", "Zoë", "Labelle", "Ines", "newton",
                                  "v. Neumann", "Hwang", "Copper", "of Course"])
def test_a_name_stays_a_name(text: str) -> None:
    assert not names.says_nothing(text, ["lab_01_iron_law"])


@pytest.mark.parametrize(("name", "student"), [
    ("evil_7_80_lovelaceada_1_999_lab.ipynb", "evil_7"),
    ("Eve_7_assignsubmission_file_Ada Lovelace_1_assignsubmission_file_lab.ipynb", "Eve_7"),
    ("Eve_7_assignsubmission_file_/Ada Lovelace_1_assignsubmission_file_/lab.ipynb", "Eve_7"),
    ("Lab_eve_attempt_2026-09-01-10-00-00_Lab_ada_attempt_2026-10-01-10-00-00_x.ipynb", "eve"),
    ("eve+lab+2026-09-01 10:00:00 UTC/ada+lab+2026-10-01 10:00:00 UTC/lab.ipynb", "eve"),
    ("eve/ada+lab+2026-10-01 10:00:00 UTC/lab.ipynb", "eve"),
    ("eve/lovelaceada_1_999_lab.ipynb", "eve"),
])
def test_no_student_passes_for_another_by_the_name_of_a_file(
    tmp_path: Path, name: str, student: str
) -> None:
    others = {"bea/lab.ipynb": notebook("b")} if name.startswith("eve/") else {}
    found = taken(tree(tmp_path, {name: notebook("e"), **others}))
    assert readable(found) == {student} | ({"bea"} if others else set())


def test_no_student_writes_a_time_of_handing_in(tmp_path: Path) -> None:
    early = b"2026-01-01 00:00:00 UTC"
    inner = archive(tmp_path / "work.zip", {
        "timestamp.txt": early, f"{LAB}/timestamp.txt": early, f"{LAB}/{LAB}.ipynb": notebook("z")})
    packed = inner.read_bytes()
    inner.unlink()
    found = taken(tree(tmp_path / "class", {
        "Eve_7_assignsubmission_file_/timestamp.txt": early,
        "Eve_7_assignsubmission_file_/lab.ipynb": notebook("a"),
        f"Eve_8_assignsubmission_file_/{LAB}/timestamp.txt": early,
        f"Eve_8_assignsubmission_file_/{LAB}/lab.ipynb": notebook("b"),
        "evil_9_80_work.zip": packed, "mallory.zip": packed}))
    assert readable(found) == {"Eve_7", "Eve_8", "evil_9", "mallory"}
    assert {s.submitted for s in found.values()} == {None}
