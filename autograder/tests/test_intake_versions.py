"""Notebooks of an older version: recognised, graded by the tests of today, and nobody robbed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from ironlaw.selfcheck import variants
from ironlaw_autograder import check, intake
from ironlaw_autograder.build import lab_source, labs, notebook, selfcheck_lab, stamp
from ironlaw_autograder.build.lab_source import Lab, label
from ironlaw_autograder.build.stamp import Stamp
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import changes
from ironlaw_autograder.grading.grade import Result, grade_folder
from ironlaw_autograder.intake import versions
from ironlaw_autograder.intake.notebooks import read_stamped
from ironlaw_autograder.judge.engine import Score
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode

# A lab of two questions. `CORRECTED` mends a test that was wrong; `LARGER` asks for one more.
FIRST = '''# ---
# jupyter:
#   ironlaw: {title: Doubling, minutes: 5}
# ---

# %% [markdown]
# # Doubling

# %% nbgrader={"grade_id": "double", "solution": true}
def double(x):
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-double", "grade": true, "points": 2}
from ironlaw.lab import check

### BEGIN HIDDEN TESTS
check(lambda s: s.close("double(2)", s.call("double", 2), WANTED, tell=False))
### END HIDDEN TESTS
'''
MORE = '''
# %% nbgrader={"grade_id": "half", "solution": true}
def half(x):
    ### BEGIN SOLUTION
    return x / 2
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-half", "grade": true, "points": 3}
### BEGIN HIDDEN TESTS
check(lambda s: s.close("half(2)", s.call("half", 2), 1.0, tell=False))
### END HIDDEN TESTS
'''
WRONG, CORRECTED = FIRST.replace("WANTED", "5.0"), FIRST.replace("WANTED", "4.0")
LARGER = CORRECTED + MORE


def lab(source: str, tmp_path: Path) -> Lab:
    path = tmp_path / "lab_double.py"
    path.write_text(source, encoding="utf-8")
    return lab_source.read(path)


def file(made: NotebookNode) -> bytes:
    return notebook.text(made).encode()


def test_every_lab_carries_its_stamp_and_it_depends_on_the_text_alone(course: Course) -> None:
    for path in sorted(course.labs.rglob("*.ipynb")):
        data = json.loads(path.read_text(encoding="utf-8"))
        found = stamp.read(data["metadata"])
        assert found == stamp.of(path.stem, data["cells"])
        assert len(found.hash) == 12
        assert read_stamped(path.read_bytes())[1] == found


def test_a_rebuild_gives_the_same_bytes_and_every_change_another_hash(tmp_path: Path) -> None:
    first = labs.release(lab(FIRST, tmp_path))
    assert file(labs.release(lab(FIRST, tmp_path))) == file(first)
    hashes = {stamp.read(labs.release(lab(text, tmp_path)).metadata).hash for text in (
        FIRST, FIRST.replace("# # Doubling", "# # Twice"),
        FIRST.replace('"points": 2', '"points": 3'), LARGER)}
    assert len(hashes) == 4
    # Only a hidden test differs: what was handed out is the same version.
    assert stamp.read(labs.release(lab(WRONG, tmp_path)).metadata) == stamp.read(
        labs.release(lab(CORRECTED, tmp_path)).metadata)


@pytest.mark.parametrize("edit", [
    lambda meta: meta["ironlaw"].update(answers="return x + x"),
    lambda meta: meta["ironlaw"].update(course="return x + x"),
    lambda meta: meta["ironlaw"].update(hash="0" * 12),
    lambda meta: meta["ironlaw"].update(salt="x"),
    lambda meta: meta["ironlaw"].update(lab=["lab_double"]),
    lambda meta: meta.pop("ironlaw"),
    lambda meta: meta.update(author="me"),
])
def test_check_allows_exactly_this_stamp(tmp_path: Path, edit: Any) -> None:
    made = lab(FIRST, tmp_path)
    data = json.loads(notebook.text(labs.release(made)))
    assert check.leaks("lab", data, made) == []
    edit(data["metadata"])
    (found,) = check.leaks("lab", data, made)
    assert "foreign notebook metadata" in found.what


@pytest.mark.parametrize("metadata", [
    None, 3, {}, {"ironlaw": 3}, {"ironlaw": {}}, {"ironlaw": {"hash": 3}}, {"ironlaw": ["hash"]}])
def test_a_stamp_that_a_student_removed_or_broke_says_nothing(metadata: Any) -> None:
    data = json.dumps({"cells": [], "metadata": metadata}).encode()
    made, found = read_stamped(data)
    assert (found, made.metadata) == (Stamp(), {})
    assert str(found) == "unknown"


def test_a_stamp_of_a_students_making_stays_short_and_printable() -> None:
    found = stamp.read({"ironlaw": {"hash": "a\x1b[2J\n" + "b" * 10_000, "course": "\u202e1"}})
    assert found.hash.startswith("a[2J")
    assert len(found.hash) <= 100
    assert found.course == "1"


def graded(course: Course, tmp_path: Path, source: str, **files: bytes) -> dict[str, Result]:
    """Results of these files under the lab written in `source`, in one folder of grades."""
    root = tmp_path / "course"
    for folder in ("chapters", "solutions", "class"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "solutions" / "lab_double.py").write_text(source, encoding="utf-8")
    for name, data in files.items():
        (root / "class" / f"{name}.ipynb").write_bytes(data)
    before = changes.previous(tmp_path / "out")
    _, results = grade_folder(Course(root), root / "class", tmp_path / "out",
                              lab_name="lab_double", workers=1)
    changes.write(tmp_path / "out", before, "lab_double", results)
    (tmp_path / "out" / "grades.json").write_text(json.dumps(
        {"lab": "lab_double", "results": [r.to_json() for r in results]}), encoding="utf-8")
    return {result.student: result for result in results}


@pytest.mark.sandbox
def test_a_corrected_test_regrades_old_work_and_says_whose_points_changed(
    course: Course, tmp_path: Path
) -> None:
    right, wrong = (file(Desk(lab(WRONG, tmp_path)).reference(change)) for change in (
        {}, {"double": "def double(x):\n    return 3 * x"}))
    first = graded(course, tmp_path, WRONG, ada=right, bob=wrong)
    assert [first[who].score for who in ("ada", "bob")] == [0, 0]
    assert not (tmp_path / "out" / changes.FILE).exists()
    second = graded(course, tmp_path, CORRECTED)
    assert [second[who].score for who in ("ada", "bob")] == [2, 0]
    assert second["ada"].notes == []  # the version handed out is the same
    table = (tmp_path / "out" / changes.FILE).read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(table.splitlines()))
    assert [(r["student"], r["question"], r["before"], r["now"]) for r in rows] == [
        ("ada", "check-double", "0", "2"), ("ada", "in all", "0", "2")]


def test_a_mark_that_a_person_gave_is_the_reason_and_without_a_change_no_table_stays(
    tmp_path: Path
) -> None:
    waits = Score("explain", None, 2.0, "Waits for a person to mark it.")
    old = Result("ada", "ada.ipynb", 0.0, 2.0, 2.0, [waits])
    now = Result("ada", "ada.ipynb", 1.5, 2.0, 0.0, [waits], marked={"explain": 1.5})
    before = ("lab", {"ada": old.to_json()})
    assert [str(c) for c in changes.write(tmp_path, before, "lab", [now]) or ()] == [
        "ada: explain to be marked -> 1.5 (marked by a person)", "ada: in all 0 -> 1.5"]
    assert (tmp_path / changes.FILE).exists()
    assert changes.write(tmp_path, ("lab", {"ada": now.to_json()}), "lab", [now]) == []
    assert not (tmp_path / changes.FILE).exists()
    assert changes.write(tmp_path, None, "lab", [now]) is None


@pytest.mark.sandbox
def test_a_question_that_the_old_version_did_not_have_waits_for_a_person(
    course: Course, tmp_path: Path
) -> None:
    old, now = (Desk(lab(text, tmp_path)) for text in (CORRECTED, LARGER))
    stripped = now.reference()
    stripped.cells = [c for c in stripped.cells if not label(c)["grade_id"].endswith("half")]
    found = graded(course, tmp_path, LARGER, elder=file(old.reference()),
                   today=file(now.reference()), deleted=file(stripped))
    assert (found["today"].score, found["today"].waiting, found["today"].notes) == (5, 0, [])
    # Deleting a cell of one's own version excuses nobody.
    assert (found["deleted"].score, found["deleted"].waiting) == (2, 0)
    assert any("was missing" in note for note in found["deleted"].restored)
    assert (found["elder"].score, found["elder"].waiting) == (2, 3)
    assert found["elder"].restored == [
        "Not in the version of the lab that was handed out, so that a person decides: check-half."]
    score = next(s for s in found["elder"].questions if s.grade_id == "check-half")
    assert score.points is None
    assert "not in the version" in score.message
    versions_said = found["elder"].notes[0]
    assert versions_said == (
        f"handed out as version {stamp.read(old.untouched().metadata)}, graded with version "
        f"{stamp.read(now.untouched().metadata)}")


def test_what_the_test_would_give_is_told_to_the_person_who_decides() -> None:
    scores = [Score("new", 2.0, 3.0, "Nearly."), Score("old", 1.0, 1.0, ""),
              Score("broken", None, 1.0, "The test broke.")]
    new, old, broken = versions.waiting(scores, {"new", "broken"})
    assert (new.points, old.points, broken.points) == (None, 1.0, None)
    assert "The test gives 2 of 3. Nearly." in new.message
    assert broken.message == "The test broke."


def test_another_labs_notebook_is_said_to_be_that() -> None:
    one, other = Stamp("1", "lab_a", "x"), Stamp("1", "lab_b", "y")
    assert versions.remark(one, other) == "handed out as lab_a, graded as lab_b"
    assert versions.remark(one, one) == versions.remark(Stamp(), other) == ""


def answers(salt: str, who: str, drawn: str) -> bytes:
    """The self-check of chapter 4 of the class of `salt`, answered by the figures of `drawn`."""
    from ironlaw_autograder.variants import right

    made = labs.release(selfcheck_lab.lab(4, salt))
    own = {f"answer-{p.id.replace('.', '-').lower()}": p.id for p in variants.in_section(4)}
    for cell in made.cells:
        name = label(cell)["grade_id"]
        if name == "your-id":
            cell.source = cell.source.replace('STUDENT_ID = ""', f'STUDENT_ID = "{who}"')
        elif name in own:
            value = right(variants.variant(own[name], who, drawn))
            cell.source = f"{variants.variable(own[name])} = {value!r}"
    return file(made)


@pytest.mark.sandbox
def test_a_class_with_its_own_salt_and_last_years_answers(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(answers("autumn-26", "ada", "autumn-26"))
    (folder / "bob.ipynb").write_bytes(answers("autumn-26", "bob", variants.SALT))
    (folder / "cleo.ipynb").write_bytes(answers(variants.SALT, "cleo", variants.SALT))
    words = ["grade", str(folder), "--root", str(course.root), "--json", "--workers", "1"]
    assert main(words) == 2
    assert "--salt autumn-26" in capsys.readouterr().err
    assert main([*words, "--salt", "autumn-26"]) == 0
    found = {r["student"]: r for r in json.loads(capsys.readouterr().out)["results"]}
    points = {who: sum(q["points"] or 0 for q in r["questions"] if "-v4-" in q["grade_id"])
              for who, r in found.items()}
    assert points["ada"] == 10
    assert points["bob"] < 10
    assert points["cleo"] < 10
    assert found["ada"]["notes"] == []
    assert any("of another class or year" in note for note in found["cleo"]["notes"])


def test_the_default_salt_changes_no_lab_and_another_only_the_figures(course: Course) -> None:
    plain, own = (notebook.text(labs.release(selfcheck_lab.lab(4, salt)))
                  for salt in (variants.SALT, "autumn-26"))
    assert plain == (course.labs / "selfcheck_04" / "selfcheck_04.ipynb").read_text("utf-8")
    assert "salt" not in plain
    assert 'variants.show(\\"V4.1\\", STUDENT_ID, salt=\\"autumn-26\\")' in own
    assert stamp.read(json.loads(own)["metadata"]).salt == "autumn-26"
    assert variants.variant("V4.1", "ada", "autumn-26").given != variants.variant(
        "V4.1", "ada").given
    by_name = {lab.name: lab for lab in labs.labs(Course(course.root, "autumn-26"))}
    assert by_name["lab_01_iron_law"].salt == ""


@pytest.mark.parametrize("salt", ['x"); import os; ("', "", "a b", "x" * 41, "é", "a\nb"])
def test_a_salt_that_cannot_stand_in_code_is_refused(
    course: Course, tmp_path: Path, salt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["release", str(tmp_path / "out"), "--salt", salt, "--root",
                 str(course.root)]) == 2
    assert "salt = " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_release_writes_the_salt_into_the_self_checks_alone(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["release", str(out), "--salt", "autumn-26", "--root", str(course.root)]) == 0
    assert "grade with --salt autumn-26" in capsys.readouterr().out
    changed = {path.name for path in out.rglob("*") if path.is_file()
               and path.read_bytes() != (course.root / path.relative_to(out)).read_bytes()}
    assert changed == {f"selfcheck_0{n}.ipynb" for n in range(1, 7)}


def test_intake_reads_what_release_wrote(course: Course, tmp_path: Path) -> None:
    own = labs.release(selfcheck_lab.lab(1, "autumn-26"))
    (tmp_path / "ada.ipynb").write_bytes(file(own))
    (found,) = intake.settle(intake.collect(tmp_path))
    assert (found.version.lab, found.version.salt) == ("selfcheck_01", "autumn-26")
