"""The synthetic class has the grades it should have, and no member harms another."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from ironlaw_autograder.build import lab_source
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course
from ironlaw_autograder.simulate import hostile
from ironlaw_autograder.simulate.classroom import FIRST, members
from ironlaw_autograder.simulate.submissions import Desk

ROOT = str(Path(__file__).resolve().parents[2])


@pytest.mark.sandbox
def test_a_small_mixed_class_gets_every_expected_score(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["simulate", "--students", "4", "--hostile", "1", "--json", "--root", ROOT,
             "--keep", str(tmp_path / "kept")]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["honest_grades_equal"] is True
    assert data["as_expected"] is True
    assert [row["honest"] for row in data["results"]] == [True, True, True, False]
    assert data["submissions_per_minute"] > 0
    assert (tmp_path / "kept" / "class-graded" / "gradebook.db").is_file()


def test_a_class_is_the_same_each_time_and_holds_all_kinds(desk: Desk) -> None:
    first, second = (members(desk, 12, 4) for _ in range(2))
    assert first == second
    assert len({m.name for m in first}) == 12
    totals = [m.total for m in first if m.honest]
    assert max(totals) == 18
    assert min(totals) == 0
    assert any(0 < total < 18 for total in totals)


def test_there_are_forty_deeds_and_each_has_a_name(desk: Desk) -> None:
    deeds = hostile.variants(desk)
    assert len({deed.name for deed in deeds}) == len(deeds) >= 40


@pytest.mark.parametrize("lab", ["lab_01_iron_law", "lab_02_memory", "lab_03_roofline"])
def test_forty_hostile_members_do_deeds_of_every_kind(course: Course, lab: str) -> None:
    made = Desk(lab_source.read(course.solutions / f"{lab}.py"))
    every = hostile.variants(made)
    kind = {deed.name: deed.kind for deed in every}
    done = [member.deed for member in members(made, 60, 40)[20:]]
    assert tuple(done[:6]) == FIRST
    assert set(kind.values()) == {"file", "shape", "answers", "limits", "machinery", "reach"}
    assert min(Counter(kind[name] for name in done).values()) >= 5
    assert len(set(done)) == 40
    assert len([deed for deed in every if deed.name in done[:12] and deed.said == "limit of"]) == 1
    assert {m.deed for m in members(made, len(every), len(every))} == set(kind)


def test_a_class_is_only_written_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--write", str(tmp_path / "class12"), "--root", ROOT]) == 0
    assert len(list((tmp_path / "class12").glob("*.ipynb"))) == 12
    real = tmp_path / "real"
    real.mkdir()
    (real / "Ada 001.ipynb").write_text("a student's", encoding="utf-8")
    assert main(["simulate", "--write", str(real), "--root", ROOT]) == 2
    assert "may hold a real class" in capsys.readouterr().err
    assert [f.read_text(encoding="utf-8") for f in real.iterdir()] == ["a student's"]
    assert main(["simulate", "--hostile", "13", "--root", ROOT]) == 2
    assert "at most the number of students" in capsys.readouterr().err


def test_a_self_check_has_honest_members_and_no_attacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", "--lab", "selfcheck_02", "--students", "4", "--root", ROOT]
    assert main([*words, "--hostile", "0", "--write", str(tmp_path / "four")]) == 0
    assert len(list((tmp_path / "four").glob("*.ipynb"))) == 4
    assert main([*words, "--hostile", "1", "--write", str(tmp_path / "none")]) == 2
    assert "selfcheck_02, which asks for no function" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
