"""A class through the whole chain: folder in; gradebook, table, feedback out."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ironlaw.errors import UnavailableError
from ironlaw_autograder.build import labs, selfcheck_lab
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import contents
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.judge import sandbox
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import v4

pytestmark = pytest.mark.sandbox


def sealed(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def graded(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Five students graded once by the command itself."""
    where = tmp_path_factory.mktemp("class")
    folder = where / "handed in"
    folder.mkdir()
    markup = ("Because <script>alert(1)</script> "
              "<img src=https://example.org/x.png onerror=x> it is.")
    submissions: dict[str, bytes] = {
        "right, with a comma": text(desk.reference({"explain": markup})),
        "wrong": text(desk.reference({"mfu": "def mfu(*a):\n    return 0.5"})),
        "untouched": text(desk.untouched()),
        "=cmd|' /C calc'!A0": text(desk.reference({"residual": "import os\nos._exit(1)"})),
        "broken": b"{",
    }
    for name, content in submissions.items():
        if name == "untouched":
            (folder / name).mkdir()
            (folder / name / "from my laptop.ipynb").write_bytes(content)
        else:
            (folder / f"{name.replace('/', '_')}.ipynb").write_bytes(content)
    before = sealed(folder)
    out = where / "out"
    assert main(["grade", str(folder), "--out", str(out), "--root",
                 str(Path(__file__).resolve().parents[2])]) == 0
    assert sealed(folder) == before
    data = json.loads((out / "grades.json").read_text(encoding="utf-8"))
    return {"out": out, "folder": folder, "lab": data["lab"],
            "by_name": {r["student"]: r for r in data["results"]}}


def text(notebook: nbformat.NotebookNode) -> bytes:
    return json.dumps(notebook).encode()


def test_each_student_gets_the_fair_score_and_a_reason(graded: dict[str, Any]) -> None:
    found = graded["by_name"]
    scores = {name: (r["score"], r["waiting"]) for name, r in found.items()}
    assert graded["lab"] == "lab_01_iron_law"
    assert scores == {"right, with a comma": (18, 2), "wrong": (16, 2), "untouched": (0, 0),
                      "=cmd_' _C calc'!A0": (16, 2), "broken": (0, 0)}
    reasons = {name: " ".join(q["message"] for q in r["questions"]) for name, r in found.items()}
    assert "mfu(9_437_184, 7_000, 200e9) is 0.5" in reasons["wrong"]
    assert "No answer yet" in reasons["untouched"]
    assert "cut off" in found["broken"]["problem"]
    assert any("ended the Python process" in e for e in found["=cmd_' _C calc'!A0"]["events"])


def test_the_table_survives_commas_and_starts_no_formula(graded: dict[str, Any]) -> None:
    raw = (graded["out"] / "grades.csv").read_text(encoding="utf-8-sig")
    rows = {row["student"]: row for row in csv.DictReader(raw.splitlines())}
    assert rows["right, with a comma"]["score"] == "18"
    assert rows["right, with a comma"]["explain"] == "to be marked"
    assert rows["wrong"]["check-mfu"] == "0"
    assert "'=cmd_' _C calc'!A0" in rows


def test_feedback_tells_the_student_and_tells_no_secret(graded: dict[str, Any]) -> None:
    pages = {p.parts[-3]: p.read_text(encoding="utf-8")
             for p in (graded["out"] / "feedback").rglob("*.html")}
    assert set(pages) == {"right, with a comma", "wrong", "untouched", "=cmd_' _C calc'!A0"}
    for page in pages.values():
        assert "def hidden" not in page
        assert "takes the largest residual of the student" not in page
        assert "src=\"http" not in page.replace("'", '"')
    assert "The number that I can defend" not in pages["untouched"]
    assert "<script>alert" not in pages["right, with a comma"]
    assert not re.search(r"<[^>]*\bonerror", pages["right, with a comma"])
    assert "Because" in pages["right, with a comma"]
    assert "it should be 0.33030" in pages["wrong"]
    assert "Graded: 16 of 20 points, and up to 2 more wait for a person." in pages["wrong"]


def test_the_contents_of_a_feedback_page_name_the_questions(graded: dict[str, Any]) -> None:
    page = (graded["out"] / "feedback" / "untouched" / graded["lab"] / f"{graded['lab']}.html")
    listed = re.findall(r'<a href="#([^"]+)">([^<]+)</a>', page.read_text(encoding="utf-8")
                        .split('<div id="toc">')[1].split("</div>")[0])
    entries = dict(listed)
    assert len(entries) == len(listed)
    assert entries["check-training-seconds"] == "1a · training seconds"
    assert entries["check-refusal"] == "1b · refusal"
    assert entries["check-long-run"] == "3c · long run"
    assert entries["explain"] == "4 · explain (in writing)"
    assert entries["comment-explain"] == "Comment on 4"
    assert [said for said in entries.values() if "Test cell" in said or said == "Comment"] == []


def test_a_self_check_names_its_questions_and_an_extra_cell_names_none() -> None:
    notebook = labs.release(selfcheck_lab.lab(1))
    notebook.cells.insert(0, v4.new_markdown_cell("### 9.9 · Made up"))
    named = contents.questions(notebook.cells)
    assert named["check-1-1"] == ("1.1", "Where to spend the next month")
    assert named["why-1-4"] == ("1.4", "Is every large model compute-bound? (in writing)")
    assert named["check-v1-2"] == ("V1.2", "MFU from a stopwatch")
    assert "9.9" not in {number for number, _ in named.values()}


def test_a_folder_that_is_not_there_is_named_before_any_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "problem", lambda: "bubblewrap (`bwrap`) is not installed.")
    root = str(Path(__file__).resolve().parents[2])
    assert main(["grade", "/nope", "--root", root]) == 2
    said = capsys.readouterr().err
    assert "/nope" in said
    assert "Nothing has this name" in said
    assert "bubblewrap" not in said


def test_written_answers_wait_in_the_gradebook_with_their_rubric(
    graded: dict[str, Any], course: Course, desk: Desk
) -> None:
    room = Classroom(graded["out"], course, desk.lab)
    assert room.totals("right, with a comma") == (18.0, 20.0, True)
    assert room.totals("untouched") == (0.0, 20.0, False)
    assert room.totals("broken") == (0.0, 20.0, False)
    shown = graded["out"] / "autograded" / "wrong" / graded["lab"] / f"{graded['lab']}.ipynb"
    assert "How 4 is marked" in shown.read_text(encoding="utf-8")
    with room.gradebook() as book:
        grade = book.find_grade("explain", graded["lab"], graded["lab"], "wrong")
        grade.manual_score = 1.5
        grade.needs_manual_grade = False
        book.db.commit()
    assert room.totals("wrong") == (17.5, 20.0, False)


def test_grading_twice_gives_the_same_grades(
    graded: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "again"
    one.mkdir()
    name = "wrong.ipynb"
    (one / name).write_bytes((graded["folder"] / name).read_bytes())
    root = str(Path(__file__).resolve().parents[2])
    for _ in range(2):
        assert main(["grade", str(one), "--json", "--root", root,
                     "--out", str(tmp_path / "out")]) == 0
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert result["questions"] == graded["by_name"]["wrong"]["questions"]
        assert (result["score"], result["waiting"]) == (16, 2)


def test_without_a_sandbox_grading_refuses_unless_the_risk_is_accepted(
    monkeypatch: pytest.MonkeyPatch, desk: Desk, tmp_path: Path,
    capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "problem", lambda: "bubblewrap (`bwrap`) is not installed.")
    with pytest.raises(UnavailableError, match="apt-get install bubblewrap"):
        Engine()
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "ada.ipynb").write_bytes(text(desk.reference()))
    root = str(Path(__file__).resolve().parents[2])
    words = ["grade", str(tmp_path / "class"), "--root", root, "--json"]
    assert main(words) == 2
    assert "--accept-risk" in capsys.readouterr().err
    assert main([*words, "--accept-risk"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["score"] == 18
