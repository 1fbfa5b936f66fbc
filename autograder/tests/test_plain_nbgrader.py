"""The same notebooks under nbgrader alone: its own execution, its own defaults."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from ironlaw_autograder.build import labs
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.adapter import Classroom, at_peace
from ironlaw_autograder.mutants import load
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader


def test_plain_autograde_gives_the_same_points(
    course: Course, desk: Desk, tmp_path: Path
) -> None:
    wrong = next(m for m in load(desk.lab.name) if m.name == "forgets the output head")
    handed_in: dict[str, NotebookNode] = {
        "right": desk.reference(), "wrong": desk.mutant(wrong), "untouched": desk.untouched()}
    assert main(["build", "--plain", str(tmp_path), "--root", str(course.root)]) == 0
    config = Config(PyFileConfigLoader("nbgrader_config.py", str(tmp_path)).load_config())
    config.CourseDirectory.root = str(tmp_path)  # as nbgrader does where it is started
    config.CourseDirectory.assignment_id = desk.lab.name
    log = logging.getLogger("plain")
    log.setLevel(logging.CRITICAL)
    with at_peace():
        GenerateAssignment(coursedir=CourseDirectory(config=config), config=config,
                           log=log).start()
    for name, notebook in handed_in.items():
        folder = tmp_path / "submitted" / name / desk.lab.name
        folder.mkdir(parents=True)
        (folder / f"{desk.lab.name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with at_peace():
        Autograde(coursedir=CourseDirectory(config=config), config=config, log=log).start()
    room = Classroom(tmp_path, course, desk.lab)
    lost = sum(desk.points()[check] for check in wrong.refused)
    assert {name: room.totals(name)[:2] for name in handed_in} == {
        "right": (18.0, 20.0), "wrong": (18.0 - lost, 20.0), "untouched": (0.0, 20.0)}
    assert room.totals("right")[2] is True


def test_a_plain_tree_holds_every_lab_and_replaces_nobodys_settings(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["build", "--root", str(course.root), "--plain"]
    for _ in range(2):
        assert main([*words, str(tmp_path / "plain")]) == 0
    source = tmp_path / "plain" / "source"
    assert sorted(p.name for p in source.iterdir()) == sorted(
        lab.name for lab in labs.labs(course))
    own = tmp_path / "own" / "nbgrader_config.py"
    own.parent.mkdir()
    own.write_text("c = get_config()\n", encoding="utf-8")
    assert main([*words, str(own.parent)]) == 2
    assert main([*words, str(own)]) == 2
    assert main([*words, str(course.root / "plain")]) == 2
    assert "outside the course's checkout" in capsys.readouterr().err
    assert [p.name for p in own.parent.iterdir()] == [own.name]
    assert not (course.root / "plain").exists()


def test_validate_tells_a_student_which_checks_fail(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbgrader.validator import Validator

    monkeypatch.chdir(tmp_path)
    doubled = "def mfu(flops_of_a_token, tokens_per_second, peak):\n    return 2.0"
    for name, notebook in (("right", desk.reference()),
                           ("wrong", desk.reference({"mfu": doubled}))):
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    found = {name: Validator().validate(f"{name}.ipynb") for name in ("right", "wrong")}
    assert "failed" not in found["right"]
    (failed,) = found["wrong"]["failed"]
    assert "it should be 0.33030" in failed["error"]
