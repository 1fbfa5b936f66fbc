"""The road of a notebook on a JupyterHub: released, fetched, submitted, collected, taken in."""

from __future__ import annotations

import json
import logging
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ironlaw_autograder import intake
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.adapter import at_peace
from ironlaw_autograder.simulate.submissions import Desk
from nbgrader.auth import Authenticator
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import (
    ExchangeCollect,
    ExchangeFetchAssignment,
    ExchangeReleaseAssignment,
    ExchangeSubmit,
)
from traitlets.config import Config

COURSE, STUDENT = "training-systems", "linh"


@pytest.fixture
def hub(course: Course, desk: Desk, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path]:
    """Runs one of nbgrader's exchange tools in a folder; the instructor's folder beside it."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    log = logging.getLogger("exchange under test")
    log.setLevel(logging.CRITICAL)

    def run(tool: Any, place: Path) -> None:
        config = Config()
        config.CourseDirectory.course_id = COURSE
        config.CourseDirectory.root = str(place)
        config.CourseDirectory.release_directory = "labs"
        config.CourseDirectory.assignment_id = desk.lab.name
        if tool is ExchangeSubmit:
            config.CourseDirectory.student_id = STUDENT
        config.Exchange.root = str(exchange)
        config.Exchange.assignment_dir = str(place)
        monkeypatch.chdir(place)
        with at_peace():
            tool(coursedir=CourseDirectory(config=config), config=config, log=log,
                 authenticator=Authenticator()).start()

    teacher = tmp_path / "teacher"
    shutil.copytree(course.labs, teacher / "labs")
    return run, teacher


def test_a_notebook_comes_back_from_the_exchange_with_name_and_time(
    hub: tuple[Any, Path], course: Course, desk: Desk, tmp_path: Path
) -> None:
    run, teacher = hub
    run(ExchangeReleaseAssignment, teacher)
    home = tmp_path / "student"
    home.mkdir()
    run(ExchangeFetchAssignment, home)
    file = home / desk.lab.name / f"{desk.lab.name}.ipynb"
    assert file.read_bytes() == (course.labs / desk.lab.name / file.name).read_bytes()
    file.write_text(json.dumps(desk.reference()), encoding="utf-8")
    run(ExchangeSubmit, home)
    run(ExchangeCollect, teacher)

    for place in (teacher / "submitted", tmp_path / "exchange" / COURSE / "inbound"):
        (taken,) = intake.settle(intake.collect(place, [desk.lab.name]), desk.lab.name)
        assert (taken.student, taken.problem) == (STUDENT, "")
        assert taken.submitted is not None
        assert datetime.now(UTC) - taken.submitted < timedelta(minutes=10)
        assert taken.notebook is not None
        assert intake.labels(taken.notebook) == intake.labels(desk.reference())
