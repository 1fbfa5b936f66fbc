"""A grade that was taken back, for a broken file or a judge that failed, is given back in full."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import grade
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.grading.grade import Result
from ironlaw_autograder.grading.journal import Journal
from ironlaw_autograder.grading.tables import grades_csv
from ironlaw_autograder.grading.work import Marking
from ironlaw_autograder.intake import roster
from ironlaw_autograder.intake.taking import Taking
from ironlaw_autograder.simulate.submissions import Desk
from regraded_class import LAB, Class, gradebook


@pytest.fixture(scope="module")
def ready(course: Course, desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose gradebook knows the lab and nobody yet."""
    out = tmp_path_factory.mktemp("ready") / "out"
    Classroom(out, course, desk.lab).prepare()
    return out


@pytest.fixture
def school(course: Course, tmp_path: Path, desk: Desk, marking: Marking, ready: Path,
           monkeypatch: pytest.MonkeyPatch) -> Class:
    """One student who got everything right, nothing graded yet."""
    made = Class(course, tmp_path, desk)
    made.hand_in("a")
    shutil.copytree(ready, made.out)
    monkeypatch.setattr(Classroom, "prepare", lambda room: None)
    monkeypatch.setattr(grade.labs, "labs", lambda course: [desk.lab])
    monkeypatch.setattr(grade, "Marking", lambda lab: marking)
    return made


def broken(school: Class, name: str) -> None:
    (school.folder / f"{name}.ipynb").write_text("{", encoding="utf-8")


def as_csv(school: Class, found: dict[str, Result], name: str) -> str:
    """The student's score in the table."""
    rows = csv.DictReader(grades_csv(school.desk.lab, list(found.values()))
                          .removeprefix("\ufeff").splitlines())
    return next(row["score"] for row in rows if row["student"] == name)


@pytest.mark.parametrize("fresh", [False, True])
def test_good_work_counts_again_after_a_broken_file(school: Class, fresh: bool) -> None:
    school.grade(pages=True)
    school.mark("a", "explain", 1.5)
    with school.room().gradebook() as book:
        book.find_grade("check-mfu", LAB, LAB, "a").extra_credit = 1.0
        book.db.commit()
    good = school.grade()["a"]
    before = gradebook(school.room())
    assert good.score == 20.5
    broken(school, "a")
    for _ in range(2):
        found = school.grade(fresh=fresh)
        assert (found["a"].score, found["a"].waiting, found["a"].marked) == (0, 0, {})
        assert as_csv(school, found, "a") == "0"
        assert school.room().totals("a") == (0, 20, False)
        assert "1.5 points given by hand for explain" in " ".join(found["a"].notes)
        assert not school.room().page("a").exists()
        assert not school.room().graded("a").exists()
    school.hand_in("a")
    assert school.grade(fresh=fresh, pages=True)["a"].score == 20.5
    assert gradebook(school.room()) == before
    assert school.room().page("a").is_file()


@pytest.mark.parametrize("fresh", [False, True])
def test_good_work_counts_again_after_the_judge_fell_ill(school: Class, fresh: bool) -> None:
    school.grade()
    school.mark("a", "explain", 1.5)
    before = gradebook(school.room())
    school.fails = {"a"}
    found = school.grade(fresh=True)["a"]
    assert (found.score, found.waiting, found.marked) == (0, 20, {})
    school.fails = set()
    found = school.grade(fresh=fresh)["a"]
    assert (found.score, found.waiting, found.marked) == (19.5, 0, {"explain": 1.5})
    assert gradebook(school.room()) == before


def test_other_work_after_a_broken_file_does_not_get_the_old_mark(school: Class) -> None:
    school.grade()
    school.mark("a", "explain", 1.5)
    broken(school, "a")
    school.grade()
    school.hand_in("a", explain="On second thoughts: the other way round.")
    for _ in range(2):
        found = school.grade(pages=True)["a"]
        assert (found.score, found.waiting, found.marked) == (18, 2, {})
        assert ("Graded: 18 of 20 points, and up to 2 more wait for a person."
                in school.room().page("a").read_text(encoding="utf-8"))


def test_a_mark_given_in_place_of_an_outcome_counts_until_there_is_one(school: Class) -> None:
    school.hand_in("b")
    school.grade()
    broken(school, "a")
    school.hand_in("b", mfu="def mfu(*given):\n    return 'HALF'")
    school.fails = {"b"}
    school.grade()
    for name in "ab":
        school.mark(name, "explain", 2.0)
    for fresh in (False, True):
        found = school.grade(fresh=fresh)
        assert {n: (found[n].score, found[n].waiting, found[n].marked) for n in "ab"} == {
            "a": (2, 0, {"explain": 2.0}), "b": (2, 18, {"explain": 2.0})}
        assert as_csv(school, found, "a") == "2"
    school.fails = set()
    school.hand_in("a")
    found = school.grade()
    assert [(found[n].score, found[n].waiting, found[n].marked) for n in "ab"] == [
        (18, 2, {}), (9, 2, {})]


@pytest.mark.parametrize("moment", ["withhold", "enter", "wrote"])
def test_a_writer_that_is_stopped_between_journal_and_gradebook_loses_nothing(
    school: Class, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Killed before the gradebook is written, or right after: good, broken and other work."""
    school.grade()
    school.mark("a", "explain", 1.5)
    good = gradebook(school.room())

    def killed_at(which: str) -> None:
        noted = Journal.wrote

        def stopped(*given: Any, **ignored: Any) -> None:
            if which == "wrote" and not given[2].key:  # that the gradebook will change
                return noted(*given)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Journal if which == "wrote" else Classroom, which, stopped)
            with pytest.raises(KeyboardInterrupt):
                school.grade()

    def whole() -> None:
        school.hand_in("a")
        assert school.grade()["a"].score == 19.5
        assert gradebook(school.room()) == good

    if moment != "enter":
        for _ in range(2):
            broken(school, "a")
            killed_at(moment)
            whole()
        broken(school, "a")
        killed_at(moment)
        assert school.grade()["a"].score == 0
        assert school.room().totals("a") == (0, 20, False)
    if moment != "withhold":
        broken(school, "a")
        school.grade()
        school.hand_in("a")
        killed_at(moment)
        broken(school, "a")
        assert school.grade()["a"].score == 0
        whole()
        school.hand_in("a", mfu="def mfu(*given):\n    return 'HALF'")
        killed_at(moment)
        whole()


def test_a_journal_of_an_older_version_hides_no_lost_grade(school: Class) -> None:
    school.hand_in("b")
    school.grade()
    school.mark("b", "explain", 1.5)
    for path in (school.out / "journal" / LAB / "written").glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        del data["aside"]
        path.write_text(json.dumps(data), encoding="utf-8")
    with school.room().gradebook() as book:
        for part in book.find_submission_notebook(LAB, LAB, "a").grades:
            part.auto_score, part.needs_manual_grade = 0.0, False
        book.db.commit()
    found = school.grade()
    assert (found["a"].score, found["a"].waiting) == (18, 2)
    assert (found["b"].score, found["b"].waiting) == (19.5, 0)


def test_who_hands_in_nothing_later_keeps_points_in_the_table_too(school: Class) -> None:
    school.hand_in("b")
    school.grade()
    (school.folder / "a.ipynb").unlink()
    listed = school.folder.parent / "roster.csv"
    listed.write_text("id\na\nb\n", encoding="utf-8")
    found = school.grade(taking=Taking(roster=roster.read(listed)))
    assert (found["a"].score, as_csv(school, found, "a")) == (18, "18")
    assert any("what was handed in before" in note for note in found["a"].notes)
