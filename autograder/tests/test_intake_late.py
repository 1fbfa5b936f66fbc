"""Due dates, extensions and penalties, as nbgrader itself works them out and shows them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from handed_in import notebook, taken, tree
from ironlaw.errors import InputError
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.grading.work import Outcome
from ironlaw_autograder.intake.late import Dates
from ironlaw_autograder.intake.settle import Submission
from ironlaw_autograder.intake.taking import Taking
from ironlaw_autograder.judge.engine import Score
from ironlaw_autograder.simulate.submissions import Desk
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

DUE = datetime(2026, 10, 1, 21, 59, tzinfo=UTC)


@pytest.fixture
def in_hanoi(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine seven hours ahead of UTC."""
    monkeypatch.setenv("TZ", "ICT-7")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("text", ["2026-10-01T23:59+02:00", "2026-10-01 21:59Z",
                                  "2026-10-01 21:59:00.0 UTC", "2026/10/01 23:59 +02:00",
                                  "Thu, 01 Oct 2026 23:59:00 +0200"])
def test_a_time_with_its_zone_is_taken_as_it_stands(text: str, in_hanoi: None) -> None:
    dates = Dates.read(text)
    assert dates.due == DUE
    assert dates.said == ()


def test_a_time_without_a_zone_is_this_machines_and_that_is_said(in_hanoi: None) -> None:
    dates = Dates.read("2026-10-02 04:59")
    assert dates.due == DUE
    assert "was read as 2026-10-02T04:59:00+07:00, the zone of this machine" in dates.said[0]


@pytest.mark.parametrize(("due", "late", "argument"), [
    ("2026-10-01", None, "due"), ("1.10.2026", None, "due"), ("tomorrow", None, "due"),
    ("01/10/2026 23:59", None, "due"), ("2026-10-01 23:59 XYZ", None, "due"), ("", None, "due"),
    ("2026-02-30T23:59Z", None, "due"), ("20261301", None, "due"),
    (None, "2", "late"), ("2026-10-01T23:59Z", "-1", "late"), ("2026-10-01T23:59Z", "101%", "late"),
    ("2026-10-01T23:59Z", "two", "late"), ("2026-10-01T23:59Z", "nan", "late"),
])
def test_what_can_be_meant_in_two_ways_or_none_is_refused(
    due: str | None, late: str | None, argument: str
) -> None:
    with pytest.raises(InputError) as caught:
        Dates.read(due, None, late)
    assert caught.value.argument == argument


@pytest.mark.parametrize("text", ["2026-13-01", "2026-02-30", "2026-13-01T23:59+02:00"])
def test_a_day_that_no_calendar_has_is_told_as_that(text: str) -> None:
    with pytest.raises(InputError, match="That date does not exist"):
        Dates.read(text)
    with pytest.raises(InputError, match="Add the hour"):
        Dates.read("2028-02-29")


def test_extensions_with_other_columns_are_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "extensions.csv"
    for head in ("name,points", "id,points", "name,due", "login"):
        file.write_text(f"{head}\nada,2\n", encoding="utf-8")
        with pytest.raises(InputError, match="under one of id, student, student id") as caught:
            Dates.read("2026-10-01T23:59+02:00", file)
        assert caught.value.value == head.split(",")


def test_blackboards_times_are_in_the_zone_of_the_due_date(tmp_path: Path, in_hanoi: None) -> None:
    tree(tmp_path, {"Lab 1_ada_attempt_2026-10-01-22-00-00_lab.ipynb": notebook()})
    found = Taking(dates=Dates.read("2026-10-01T23:59+02:00")).collect(tmp_path, [])
    assert [c.name.submitted for c in found.candidates] == [datetime(2026, 10, 1, 20, tzinfo=UTC)]
    assert "zone of the due date, such as 2026-10-01T22:00:00+02:00" in found.said[-1]


def test_extensions_are_by_any_id_and_never_shorten(tmp_path: Path) -> None:
    file = tmp_path / "extensions.csv"
    file.write_text("E-Mail,Due\nAda@Example.org,2026-10-03T23:59+02:00\nnobody,2026-10-02T00:00Z\n",
                    encoding="utf-8")
    dates = Dates.read("2026-10-01T23:59+02:00", file, "2")
    ada = Submission("ada@example.org", Path("a"), None)
    assert dates.extension(ada) == timedelta(days=2)
    assert dates.extension(Submission("bob", Path("b"), None)) == timedelta(0)
    assert dates.unknown([ada]) == ["nobody"]
    for text, said in (("id,due\na,2026-09-30T00:00Z\n", "no earlier than the due date"),
                       ("id,due\na,\n", "a time under `due`"), ("who,due\na,2026-10-05T00:00Z\n",
                                                                "a student's id"),
                       ("id,due\na,2026-10-05T00:00Z\nA,2026-10-06T00:00Z\n", "no other line")):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            Dates.read("2026-10-01T23:59+02:00", file)


@pytest.fixture(scope="module")
def room(desk: Desk, course: Course, tmp_path_factory: pytest.TempPathFactory) -> Classroom:
    """A gradebook that knows lab 1 and one graded submission of 18 points."""
    made = Classroom(tmp_path_factory.mktemp("room"), course, desk.lab)
    made.prepare()
    reference = desk.reference()
    scores = [Score(name, points, points, "") for name, points in desk.points().items()]
    scores += [Score(name, None, points, "") for name, points in desk.written().items()]
    for student in ("ada", "bob"):
        made.submit(student, reference)
        made.enter(Outcome(student, json.dumps(reference), scores), None)
    return made


def dated(room: Classroom, student: str, dates: Dates, when: datetime | None) -> float:
    """The points that nbgrader takes off, once by us and once by its own command."""
    room.expect(Taking(dates=dates))
    room.dated(Submission(student, Path("x"), None, submitted=when), dates)
    found = room.standing(student)
    assert found is not None
    assert found.score == max(0.0, 18.0 - found.penalty)
    return found.penalty


@pytest.mark.parametrize(("cost", "late_by", "taken_off"), [
    ("2", timedelta(0), 0), ("2", timedelta(seconds=1), 2), ("2", timedelta(days=1), 2),
    ("2", timedelta(days=1, seconds=1), 4), ("2", timedelta(days=-3), 0),
    ("10%", timedelta(hours=1), 2), ("2.5", timedelta(days=1), 2.5),
    ("100%", timedelta(hours=1), 18), ("2", timedelta(days=300), 18), ("0", timedelta(days=2), 0),
])
def test_what_a_day_costs(room: Classroom, cost: str, late_by: timedelta, taken_off: float) -> None:
    dates = Dates.read("2026-10-01T23:59+02:00", None, cost)
    assert dated(room, "ada", dates, DUE + late_by) == taken_off
    assert dated(room, "bob", dates, DUE) == 0


def test_an_extension_counts_and_without_a_time_nothing_is_taken_off(room: Classroom) -> None:
    dates = Dates(DUE, {"ada": timedelta(days=2)}, 2.0)
    assert dated(room, "ada", dates, DUE + timedelta(days=2)) == 0
    assert dated(room, "ada", dates, DUE + timedelta(days=2, hours=1)) == 2
    assert dated(room, "bob", dates, DUE + timedelta(hours=1)) == 2
    assert dated(room, "bob", dates, None) == 0
    with room.gradebook() as book:
        found = book.find_submission(room.lab.name, "ada")
        assert (found.duedate, found.extension) == (DUE.replace(tzinfo=None) + timedelta(days=2),
                                                    timedelta(days=2))


def test_the_form_graders_own_settings_take_off_the_same(room: Classroom) -> None:
    """`nbgrader autograde` and the form grader's button read `nbgrader_config.py`."""
    from ironlaw_autograder.grading import front
    from nbgrader.preprocessors import AssignLatePenalties

    dated(room, "ada", Dates(DUE, {}, 3.0), DUE + timedelta(hours=1))
    config = Config()
    front.configure(config, str(room.root / front.FILE), str(Path.cwd()))
    step = AssignLatePenalties(config=config)
    step.init_plugin()
    assert step.plugin_inst.late_submission_penalty("ada", 18.0, 90_000.0) == 6.0
    assert CourseDirectory(config=config).db_url


def test_dates_are_remembered_and_taken_back(room: Classroom, tmp_path: Path) -> None:
    dates = Dates(DUE, {"ada": timedelta(days=1)}, 10.0, True)
    dated(room, "ada", dates, DUE + timedelta(days=3))
    kept = Dates.remembered(room.root)
    assert (kept.due, kept.extensions, kept.cost, kept.percent) == (
        DUE, dates.extensions, 10.0, True)
    assert "--due none" in kept.said[0]
    assert dated(room, "ada", Dates(), DUE + timedelta(days=3)) == 0
    assert Dates.remembered(room.root) == Dates()
    with room.gradebook() as book:
        assert book.find_assignment(room.lab.name).duedate is None
    (tmp_path / "late.json").write_text("[", encoding="utf-8")
    assert Dates.remembered(tmp_path) == Dates()


def test_a_date_set_by_hand_in_nbgrader_stays(room: Classroom) -> None:
    dated(room, "ada", Dates(), None)
    with room.gradebook() as book:
        book.update_or_create_assignment(room.lab.name, duedate="2026-12-01 12:00 UTC")
    room.expect(Taking())
    with room.gradebook() as book:
        assert book.find_assignment(room.lab.name).duedate == datetime(2026, 12, 1, 12)


def test_what_is_said_of_a_time(tmp_path: Path) -> None:
    tree(tmp_path, {"hopper_LATE_2_3_lab.ipynb": notebook(), "ada.ipynb": notebook("a")})
    os.utime(tmp_path / "ada.ipynb", (DUE.timestamp() + 93_600,) * 2)
    dates = Dates(DUE, {"ada": timedelta(hours=1)}, 2.0)
    plain, trusting = taken(tmp_path), taken(tmp_path, file_times=True)
    assert dates.remark(plain["ada"]) == "no time of handing in is known: no late penalty"
    assert dates.remark(plain["hopper_2"]).endswith("though the platform marks it late")
    assert dates.remark(trusting["ada"]).startswith("late by 1 d 1 h of the extended date")
    assert Dates().remark(trusting["ada"]) == ""
