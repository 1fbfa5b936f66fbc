"""The class list: as people write it and platforms export it, and who is known by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from handed_in import notebook, readable, taken, tree
from ironlaw.errors import InputError
from ironlaw_autograder.intake import roster
from ironlaw_autograder.intake.roster import Roster

OWN = "\ufeffID,Login,E-Mail,LMS,Name\nada,al1,Ada@Example.org,4711,Ada Lovelace\n" \
      "zoe,zb2,zoe@example.org,4712,\"Bärlauch, Zoë\"\n"
CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (77),Current Score
,,,,,Manual Posting,
    Points Possible,,,,,20,(read only)
"Lovelace, Ada",4711,S1,ada,A,,
"Nguyễn, Văn A",4712,S2,nva,A,,
"Student, Test",9,,,A,,
"""
MOODLE = """Identifier;"Full name";"Email address";Status;Grade;"Last modified (submission)"
"Participant 4711";"Ada Lovelace";ada@example.org;"Submitted";;"30 September 2026, 9:41 PM"
"Participant 4712";"Grace Hopper";grace@example.org;"No submission";;-
"""
MOODLE_GRADES = """First name,Last name,ID number,Email address,Lab 1
Ada,Lovelace,S1,ada@example.org,-
Grace,Hopper,S2,grace@example.org,-
"""


def listed(tmp_path: Path, text: str, encoding: str = "utf-8") -> Roster:
    path = tmp_path / "list.csv"
    path.write_bytes(text.encode(encoding))
    return roster.read(path)


@pytest.mark.parametrize(("text", "ids"), [
    (OWN, ["ada", "zoe"]), (CANVAS, ["ada", "nva"]),
    (MOODLE, ["ada@example.org", "grace@example.org"]),
    (MOODLE_GRADES, ["ada@example.org", "grace@example.org"]),
    ("student\nada\nbob\n", ["ada", "bob"]),
    ("username;first name;surname\nada;A;L\n", ["ada"]),
])
def test_lists_of_ones_own_and_of_platforms(tmp_path: Path, text: str, ids: list[str]) -> None:
    assert [student.id for student in listed(tmp_path, text).students] == ids


@pytest.mark.parametrize("name", [
    "ada", "ADA", "al1", "ada@example.org", "4711", "Ada Lovelace", "lovelaceada",
    "Lovelace, Ada",
    "lovelaceada_4711_9_lab", "Ada Lovelace_4711_assignsubmission_file_/lab", "lab_01_ada",
    "ada-lab_01_iron_law", "ada (2)", "ada+lab+2026-09-30 21:41:02 UTC/lab", "group 1/ada/lab",
])
def test_one_student_by_each_id_and_name(tmp_path: Path, name: str) -> None:
    known = listed(tmp_path, OWN)
    found = taken(tree(tmp_path / "class", {f"{name}.ipynb": notebook()}), known)
    assert readable(found) == {"ada"}
    assert found["zoe"].problem == "nothing handed in"
    by_name = name in ("Ada Lovelace", "lovelaceada", "Lovelace, Ada")
    assert any("by the name" in note for note in found["ada"].notes) == by_name


def test_unicode_forms_and_wide_letters_are_one_spelling(tmp_path: Path) -> None:
    known = listed(tmp_path, OWN)
    names = ("zoe", "ｚｏｅ", "Zoe\u0308 Ba\u0308rlauch", "ZOË BÄRLAUCH")
    for place, name in enumerate(names):
        folder = tree(tmp_path / str(place), {f"{name}/lab.ipynb": notebook()})
        assert readable(taken(folder, known)) == {"zoe"}


def test_somebody_not_on_the_list_is_graded_and_that_is_said(tmp_path: Path) -> None:
    known = listed(tmp_path, OWN)
    found = taken(tree(tmp_path / "class", {"eve.ipynb": notebook(), "ada.ipynb": notebook("a")}),
                  known)
    assert readable(found) == {"ada", "eve"}
    assert found["eve"].notes == ("not on the class list",)
    assert list(found) == ["ada", "eve", "zoe"]


def test_a_file_that_is_no_notebook_is_named_with_the_student_whom_the_list_knows(
    tmp_path: Path
) -> None:
    known = listed(tmp_path, OWN)
    folder = tree(tmp_path / "class", {"ada.py": b"", "notes.txt": b"", "zoe.ipynb": notebook()})
    found = taken(folder, known)
    assert found["ada"].problem == "no notebook was handed in, but ada.py"
    assert set(found) == {"ada", "zoe"}


def test_an_id_within_another_persons_name_is_no_match(tmp_path: Path) -> None:
    known = listed(tmp_path, OWN)
    found = taken(tree(tmp_path / "class", {"Ada Miller.ipynb": notebook()}), known)
    assert readable(found) == {"Ada Miller"}


def test_two_of_one_name_are_known_by_ids_alone(tmp_path: Path) -> None:
    known = listed(tmp_path, "id,name\nada1,Ada Lovelace\nada2,Ada Lovelace\n")
    found = taken(tree(tmp_path / "class", {"Ada Lovelace.ipynb": notebook()}), known)
    assert readable(found) == {"Ada Lovelace"}
    assert "not on the class list" in found["Ada Lovelace"].notes


def test_moodles_worksheet_tells_when_each_was_handed_in(tmp_path: Path) -> None:
    known = listed(tmp_path, MOODLE)
    name = "Ada Lovelace_4711_assignsubmission_file_/lab.ipynb"
    found = taken(tree(tmp_path / "class", {name: notebook()}), known)
    assert found["ada@example.org"].submitted == datetime(2026, 9, 30, 21, 41).astimezone()
    assert found["grace@example.org"].submitted is None


def test_hand_in_times_without_a_zone_are_in_that_of_the_due_date_and_that_is_said(
    tmp_path: Path
) -> None:
    zone = timezone(timedelta(hours=-9, minutes=-30))  # hardly this machine's
    path = tmp_path / "list.csv"
    path.write_text("id,submitted\nada,\"30 September 2026, 9:41 PM\"\nbob,2026-09-30T10:00Z\n",
                    encoding="utf-8")
    known = roster.read(path, zone)
    assert [s.submitted for s in known.students] == [
        datetime(2026, 10, 1, 7, 11, tzinfo=UTC), datetime(2026, 9, 30, 10, tzinfo=UTC)]
    assert known.said == ("list.csv: hand-in times without a zone were read in that of the due "
                          "date, such as 2026-09-30T21:41:00-09:30",)
    assert "in the zone of this machine, such as 2026-09-30T21:41" in roster.read(path).said[0]


def test_a_time_that_cannot_be_read_counts_as_unknown_and_is_said(tmp_path: Path) -> None:
    known = listed(tmp_path, "id,submitted\nada,Thứ tư 30 tháng 9\nbob,2026-09-30T10:00Z\nzoe,-\n")
    assert [s.submitted for s in known.students] == [
        None, datetime(2026, 9, 30, 10, tzinfo=UTC), None]
    assert known.said == ("list.csv: 1 hand-in times could not be read and count as unknown",)


@pytest.mark.parametrize(("text", "said"), [
    ("", "empty"), ("name\nAda\n", "a column of ids"), ("id,name\n", "a column of ids"),
    ("id\nada\nADA\n", "one line per student"), ("id,email\na,x@y\nb,X@Y\n", "of one student only"),
])
def test_a_list_that_cannot_serve_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        listed(tmp_path, text)


def test_another_encoding_and_no_file_are_refused_and_a_line_without_id_is_said(
    tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="UTF-8"):
        listed(tmp_path, "id\nZoë\n", "latin-1")
    with pytest.raises(InputError, match="cannot be read"):
        roster.read(tmp_path / "absent.csv")
    known = listed(tmp_path, "id,name\nada,\n,Bob\n")
    assert known.said == ("list.csv, line 3: no id of any kind; left out",)


def test_groups_are_opened_for_the_whole_class_or_not_at_all(tmp_path: Path) -> None:
    known = listed(tmp_path, OWN)
    groups = tree(tmp_path / "groups", {"A/ada/lab.ipynb": notebook("a"),
                                        "B/zoe/lab.ipynb": notebook("z")})
    assert readable(taken(groups, known)) == {"ada", "zoe"}
    # Eve, whom the list does not know, cannot pass for Zoë by a folder in hers.
    forged = tree(tmp_path / "forged", {"ada/lab.ipynb": notebook("a"),
                                        "eve k/zoe/lab.ipynb": notebook("e")})
    found = taken(forged, known)
    assert readable(found) == {"ada", "eve k"}
    assert found["zoe"].problem == "nothing handed in"


def test_a_namesake_on_the_platform_is_not_mixed_with_a_student(tmp_path: Path) -> None:
    folder = tree(tmp_path / "class", {
        "Ada Lovelace_4711_assignsubmission_file_/x.ipynb": notebook(),
        "Ada Lovelace_9999_assignsubmission_file_/x.ipynb": notebook("e")})
    by_number = taken(folder, listed(tmp_path, OWN))
    assert readable(by_number) == {"ada", "Ada Lovelace_9999"}
    assert by_number["ada"].file.parts[0].startswith("Ada Lovelace_4711")
    by_name = taken(folder, listed(tmp_path, "id,name\nada,Ada Lovelace\n"))
    assert readable(by_name) == {"Ada Lovelace_4711", "Ada Lovelace_9999"}
    assert by_name["ada"].problem == "nothing handed in"


def test_a_platforms_number_is_nobodys_student_number(tmp_path: Path) -> None:
    known = listed(tmp_path, "id,number,lms\nada,12,11\nbea,11,12\n")
    found = taken(tree(tmp_path / "class", {"adalovelace_11_80_lab.ipynb": notebook()}), known)
    assert readable(found) == {"ada"}
