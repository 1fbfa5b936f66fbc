"""Marking written answers from the command line, and the pages that students get afterwards."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ironlaw_autograder.build import labs
from ironlaw_autograder.build.lab_source import Lab, label
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import front
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.grading.pages import FeedbackPage
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode, v4
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

ROOT = Path(__file__).resolve().parents[2]
LAB = "lab_01_iron_law"
WHY = ("My step took about four times as long as its matrix products at full speed would. The "
       "launch of each operation costs more than its arithmetic on a model this small.")


class Room:
    """A graded class on disk, and the commands on it."""

    def __init__(self, out: Path, course: Course, desk: Desk,
                 capsys: pytest.CaptureFixture[str]) -> None:
        self.out = out
        self.classroom = Classroom(out, course, desk.lab)
        self._capsys = capsys

    def command(self, *words: str) -> tuple[int, str, str]:
        """Exit status and what was printed."""
        self._capsys.readouterr()
        status = main([words[0], str(self.out), *words[1:]])
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def mark(self, *words: str) -> Any:
        """What `mark --json` prints."""
        status, out, err = self.command("mark", *words, "--json")
        assert status == 0, err
        return json.loads(out)

    def refused(self, *words: str) -> str:
        """What `mark` says of words that it does not accept."""
        status, _, err = self.command("mark", *words)
        assert status == 2
        return err

    def by_person(self, student: str, points: float, comment: str = "") -> None:
        """A mark as the form grader gives it."""
        with self.classroom.gradebook() as book:
            grade = book.find_grade("explain", LAB, LAB, student)
            grade.manual_score, grade.needs_manual_grade = points, False
            book.find_comment("explain", LAB, LAB, student).manual_comment = comment or None
            book.db.commit()

    def marks(self) -> dict[str, tuple[float | None, bool, str | None]]:
        """Points, whether a person still has to look, and the comment, by student."""
        with self.classroom.gradebook() as book:
            found = {}
            for part in book.notebook_submissions(LAB, LAB):
                grade = next(g for g in part.grades if g.name == "explain")
                said = next(c for c in part.comments if c.name == "explain")
                found[part.student.id] = (grade.manual_score, grade.needs_manual_grade,
                                          said.manual_comment)
            return found


@pytest.fixture(scope="module")
def graded(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six students graded once: two answers the same, one alike, one other, one untouched."""
    where = tmp_path_factory.mktemp("marking")
    (where / "class").mkdir()
    escape = desk.reference({"explain": "Something else altogether, with `a < b` in it."})
    escape.cells.append(v4.new_code_cell(f"open({str(where / 'escaped')!r}, 'w').write('x')"))
    members = {"ada": desk.reference({"explain": WHY}), "boris": desk.reference({"explain": WHY}),
               "chidi": desk.reference({"explain": WHY.replace("about", "roughly")}),
               "dunya": desk.untouched(), "emre": escape}
    for name, submitted in members.items():
        (where / "class" / f"{name}.ipynb").write_text(json.dumps(submitted), encoding="utf-8")
    (where / "class" / "farah.ipynb").write_text("{", encoding="utf-8")
    assert main(["grade", str(where / "class"), "--root", str(ROOT)]) == 0
    return where / "class-graded"


@pytest.fixture
def room(graded: Path, course: Course, desk: Desk, capsys: pytest.CaptureFixture[str],
         monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """The class with no mark given by hand, whatever an earlier test did."""
    monkeypatch.chdir(ROOT)
    made = Room(graded, course, desk, capsys)
    yield made
    with made.classroom.gradebook() as book:
        for part in book.notebook_submissions(LAB, LAB):
            for grade in part.grades:
                grade.manual_score, grade.needs_manual_grade = None, grade.auto_score is None
            for comment in part.comments:
                comment.manual_comment = None
        book.db.commit()
    (graded / "marking" / f"{LAB}.json").unlink(missing_ok=True)


@pytest.mark.sandbox
def test_the_list_shows_groups_rubric_and_what_waits(room: Room) -> None:
    told = room.mark("--question", "explain")
    assert [(g["group"], g["kind"], g["waiting"], [m["student"] for m in g["members"]])
            for g in told["groups"]] == [
        (1, "alike", 3, ["ada", "boris", "chidi"]), (2, "single", 1, ["emre"]),
        (0, "untouched", 0, ["dunya"])]
    assert (told["answers"], told["waiting"], told["points"]) == (5, 4, 2)
    assert told["groups"][0]["members"][2]["differences"] == ['"about" → "roughly"']
    assert told["groups"][1]["shown"]["text"].endswith("with `a < b` in it.")
    assert "How 4 is marked" in told["rubric"]
    _, said, _ = room.command("mark")
    assert "untouched: scored 0" in said
    assert "4 wait for a person" in said
    assert 'chidi, 96 %: "about" → "roughly"' in said or '"about" → "roughly"' in said
    assert room.marks()["dunya"] == (None, False, None)


@pytest.mark.sandbox
def test_a_mark_for_a_group_reaches_all_its_members_and_can_be_changed(room: Room) -> None:
    room.mark("--question", "explain")
    done = room.mark("--group", "1", "--points", "1.5", "--comment", "Name the *number*.")
    assert (done["marked"], done["kept"]) == (["ada", "boris", "chidi"], [])
    assert done["waiting"] == {"explain": 1}
    for student in ("ada", "boris", "chidi"):
        assert room.marks()[student] == (1.5, False, "Name the *number*.")
        assert room.classroom.totals(student) == (19.5, 20.0, False)
    assert room.marks()["emre"] == (None, True, None)
    room.mark("--group", "1", "--points", "2")  # and again: no second look at the list needed
    assert room.marks()["boris"] == (2, False, "Name the *number*.")
    done = room.mark("--group", "1", "--clear", "--comment", "")
    assert done["waiting"] == {"explain": 4}
    assert room.marks()["ada"] == (None, True, None)


@pytest.mark.sandbox
def test_what_a_person_gave_to_one_student_stays_unless_asked(room: Room) -> None:
    room.mark("--question", "explain")
    room.by_person("boris", 0.5, "We talked about this.")
    done = room.mark("--group", "1", "--points", "2", "--comment", "Good.")
    assert (done["marked"], done["kept"]) == (["ada", "chidi"], ["boris"])
    assert room.marks()["boris"] == (0.5, False, "We talked about this.")
    room.by_person("ada", 1.0, "Good.")  # changed in the form grader after the group was marked
    room.mark("--student", "chidi", "--points", "0")
    done = room.mark("--group", "1", "--points", "2")
    assert (done["marked"], done["kept"]) == ([], ["ada", "boris", "chidi"])
    who = {m["student"]: m["by"] for m in room.mark("--group", "1")["groups"][0]["members"]}
    assert who == {"ada": "person", "boris": "person", "chidi": "person"}
    done = room.mark("--group", "1", "--points", "2", "--comment", "All.", "--overwrite")
    assert done["kept"] == []
    assert {room.marks()[name] for name in ("ada", "boris", "chidi")} == {(2, False, "All.")}


@pytest.mark.sandbox
def test_a_comment_that_a_person_wrote_before_marking_stays(room: Room) -> None:
    room.mark("--question", "explain")
    with room.classroom.gradebook() as book:
        book.find_comment("explain", LAB, LAB, "ada").manual_comment = "Mine."
        book.db.commit()
    room.mark("--group", "1", "--points", "1", "--comment", "Ours.")
    assert room.marks()["ada"] == (1, False, "Mine.")
    assert room.marks()["boris"] == (1, False, "Ours.")


@pytest.mark.sandbox
def test_an_untouched_answer_has_its_zero_and_can_be_marked_alone(room: Room) -> None:
    room.mark("--question", "explain")
    assert "Untouched answers are scored 0" in room.refused("--group", "0", "--points", "1")
    room.mark("--student", "dunya", "--points", "1", "--comment", "Handed in on paper.")
    assert room.classroom.totals("dunya") == (1.0, 20.0, False)
    with room.classroom.gradebook() as book:  # as after a change in what the machine says
        book.find_grade("explain", LAB, LAB, "dunya").needs_manual_grade = True
        book.db.commit()
    told = room.mark("--question", "explain")["groups"][-1]
    assert (told["group"], told["kind"], told["waiting"]) == (0, "untouched", 1)


@pytest.mark.sandbox
def test_what_cannot_be_marked_is_refused_with_the_next_step(room: Room, tmp_path: Path) -> None:
    assert "have not been shown yet" in room.refused("--group", "1", "--points", "1")
    room.mark("--question", "explain")
    assert "Did you mean 'explain'" in room.refused("--question", "explian")
    assert "0 to 2" in room.refused("--group", "1", "--points", "2.5")
    assert "0 to 2" in room.refused("--group", "1", "--points", "nan")
    assert "group" in room.refused("--group", "7", "--points", "1")
    assert "Did you mean 'emre'" in room.refused("--student", "emree", "--points", "1")
    assert "--group N or --student ID" in room.refused("--points", "1")
    assert "--points" in room.refused("--group", "1", "--comment", "x")
    assert "lab" in room.refused("--lab", "lab_09")
    assert main(["mark", str(tmp_path)]) == 2
    assert room.marks()["ada"] == (None, True, None)


@pytest.mark.sandbox
def test_numbers_of_groups_count_only_for_the_answers_that_were_shown(room: Room) -> None:
    room.mark("--question", "explain")
    path = room.classroom.graded("emre")
    kept = path.read_bytes()
    changed = nbformat.reads(kept.decode(), as_version=4)
    next(c for c in changed.cells if c.get("id") == "explain").source = WHY
    path.chmod(0o644)
    try:
        nbformat.write(changed, path)
        assert "have changed since" in room.refused("--group", "1", "--points", "1")
        assert room.mark("--question", "explain")["groups"][0]["size"] == 4
        assert "emre" in room.mark("--group", "1", "--points", "1")["marked"]
    finally:
        path.write_bytes(kept)


@pytest.mark.sandbox
def test_pages_written_afresh_carry_marks_comments_and_lateness(room: Room) -> None:
    before = room.classroom.page("emre").read_bytes()
    room.mark("--question", "explain")
    room.mark("--group", "1", "--points", "1.5", "--comment", "Name the *number* <script>x")
    with room.classroom.gradebook() as book:
        due = datetime(2030, 1, 1)
        book.find_assignment(LAB).duedate = due
        late = book.find_submission(LAB, "boris")
        late.timestamp = due + timedelta(days=1)
        late.notebooks[0].late_submission_penalty = 2.0
        book.db.commit()
    status, said, _ = room.command("feedback", "--student", "ada", "--student", "boris")
    assert status == 0
    assert "2 pages" in said
    page = room.classroom.page("ada").read_text(encoding="utf-8")
    assert "<strong>Graded: 19.5 of 20 points.</strong>" in page
    assert "Name the <em>number</em>" in page
    assert "Score: 1.5 / 2.0" in page
    assert re.search(r"<script|src=[\"']http|<link|@import", page) is None
    assert "default-src 'none'" in page
    late_page = room.classroom.page("boris").read_text(encoding="utf-8")
    assert "Graded: 17.5 of 20 points, after 2 taken off for lateness." in late_page
    assert "Late submission penalty (Score: -2.0)" in late_page
    assert room.classroom.page("emre").read_bytes() == before
    assert "1 more" not in page
    assert "up to 2 more wait for a person" in before.decode()
    status, _, err = room.command("feedback", "--student", "nobody")
    assert status == 2
    assert "nobody" in err


@pytest.mark.sandbox
def test_nbgraders_own_command_writes_the_same_page(room: Room) -> None:
    assert room.command("feedback", "--student", "emre")[0] == 0
    ours = room.classroom.page("emre").read_bytes()
    room.classroom.page("emre").unlink()
    ran = subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_feedback", LAB, "--student=emre", "--force"],
        cwd=room.out, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert room.classroom.page("emre").read_bytes() == ours


@pytest.mark.sandbox
def test_the_form_graders_button_grades_in_the_sandbox(room: Room) -> None:
    config = PyFileConfigLoader(front.FILE, str(room.out)).load_config()
    config.NbGrader.log_level = 50
    told = NbGraderAPI(CourseDirectory(config=config), config=config).autograde(LAB, "emre")
    assert told["success"], told
    assert room.classroom.totals("emre") == (18.0, 20.0, True)
    stored = room.classroom.graded("emre").read_text(encoding="utf-8")
    assert "escaped" in stored  # the cell is there, and ran where its file reached nobody
    assert not (room.out.parent / "escaped").exists()


@pytest.mark.sandbox
def test_nothing_but_notebooks_lies_where_the_form_grader_serves_files(room: Room) -> None:
    served = [path for path in (room.out / "autograded").rglob("*") if path.is_file()]
    assert {path.name for path in served} == {f"{LAB}.ipynb"}


def test_a_settings_file_that_somebody_made_their_own_stays(tmp_path: Path) -> None:
    path = front.write(tmp_path, ROOT)
    assert str(ROOT) in path.read_text(encoding="utf-8")
    own = path.read_text(encoding="utf-8").split("\n", 1)[1] + "c.Exchange.root = 'x'\n"
    path.write_text(own, encoding="utf-8")
    front.write(tmp_path, ROOT)
    assert path.read_text(encoding="utf-8") == own


def test_no_page_of_any_lab_holds_a_hidden_test_or_a_rubric(course: Course) -> None:
    known = labs.labs(course)
    assert len(known) >= 11
    for lab in known:
        secret, page = secrets(lab), shown(lab, front.FEEDBACK)
        assert secret, lab.name
        assert [line for line in secret if line in page] == [], lab.name
    page = shown(known[0], [name for name in front.FEEDBACK if "Clear" not in name])
    assert [line for line in secrets(known[0]) if line not in page] == []


def secrets(lab: Lab) -> set[str]:
    """Lines of hidden tests and rubrics that the student's notebook does not hold."""
    hidden: set[str] = set()
    for cell in lab.source.cells:
        inside = False
        for line in cell.source.splitlines():
            if re.search("BEGIN (HIDDEN TESTS|MARK SCHEME)", line):
                inside = True
            elif re.search("END (HIDDEN TESTS|MARK SCHEME)", line):
                inside = False
            elif inside and len(line.strip()) > 15 and "<!--" not in line:
                hidden.add(plain(line.strip().lstrip("-* ")))
    open_text = plain("\n".join(cell.source for cell in labs.release(lab).cells))
    return {line for line in hidden if line and line not in open_text}


def shown(lab: Lab, steps: list[str]) -> str:
    """The words of a feedback page made by these steps, but for the one that needs a gradebook."""
    book: NotebookNode = labs.template(lab)
    for cell in book.cells:
        if label(cell):
            cell.metadata.nbgrader.update(score=0.0, comment="")
    told: dict[str, Any] = {"nbgrader": {"notebook": lab.name, "score": 0.0, "max_score": 1.0,
                                         "late_penalty": 0.0}}
    config = Config()
    front.feedback(config)
    from nbgrader.converters import GenerateFeedback
    exporter = FeedbackPage(config=GenerateFeedback(config=config).config)
    exporter._preprocessors = []
    for name in steps:
        module, _, kind = name.rpartition(".")
        if kind != "Marks":
            exporter.register_preprocessor(getattr(import_module(module), kind), enabled=True)
    page, _ = exporter.from_notebook_node(book, told)
    return plain(html.unescape(re.sub(r"<[^>]+>", "", page.split("<body>", 1)[1])))


def plain(text: str) -> str:
    """Text without what Markdown and line breaks do to it."""
    return " ".join(re.sub(r"[`*_\\]", "", text).split())
