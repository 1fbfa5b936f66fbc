"""The gradebook on a PostgreSQL server: the same grades, early errors, and no password shown."""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from ironlaw.errors import InputError, UnavailableError
from ironlaw_autograder.cli import main
from ironlaw_autograder.commands import mark
from ironlaw_autograder.course import Course
from ironlaw_autograder.exports import marks
from ironlaw_autograder.grading import database, front
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.simulate.submissions import Desk
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from postgres_server import Server
from sqlalchemy.exc import OperationalError
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[2]
SECRET = "s3cr:et/@"
QUOTED = "s3cr%3Aet%2F%40"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if postgres_server.programs() is None:
        pytest.skip(postgres_server.ABSENT)
    made = Server()
    try:
        made.run(f"CREATE ROLE locked LOGIN PASSWORD '{SECRET}'")
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def handed_in(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of four: right, wrong, untouched and unreadable."""
    folder = tmp_path_factory.mktemp("class") / "four"
    folder.mkdir()
    wrong = desk.reference({"mfu": "def mfu(*a):\n    return 0.5"})
    for name, content in {"ada": json.dumps(desk.reference()), "Zoë Ω": json.dumps(wrong),
                          "untouched": json.dumps(desk.untouched()), "broken": "{"}.items():
        (folder / f"{name}.ipynb").write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def both(server: Server, handed_in: Path,
         tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The class graded into a file, and from there once more into a server."""
    out = tmp_path_factory.mktemp("graded") / "out"
    server.run("CREATE DATABASE grades OWNER locked")
    given = server.url("grades", "locked", QUOTED)
    found: dict[str, Any] = {"out": out, "url": given}
    for name, words in (("file", []), ("server", ["--database", given])):
        assert main(["grade", str(handed_in), "--out", str(out), "--root", str(ROOT),
                     *words]) == 0
        found[name] = (out / "grades.csv").read_bytes()
    return found


@pytest.mark.sandbox
def test_the_same_grades_stand_in_a_file_and_on_a_server(
    both: dict[str, Any], server: Server
) -> None:
    assert both["file"] == both["server"]
    assert both["file"].count(b"\n") == 5
    query = ("SELECT s.student_id, c.name, g.auto_score, g.needs_manual_grade FROM grade g "
             "JOIN base_cell c ON c.id = g.cell_id "
             "JOIN submitted_notebook n ON n.id = g.notebook_id "
             "JOIN submitted_assignment s ON s.id = n.assignment_id")
    with sqlite3.connect(both["out"] / "gradebook.db") as file:
        kept = file.execute(query).fetchall()
    assert len(kept) > 20
    assert sorted((*row[:3], bool(row[3])) for row in kept) == sorted(server.run(query, "grades"))


@pytest.mark.sandbox
def test_a_mark_by_hand_on_the_server_counts_and_survives_grading_again(
    both: dict[str, Any], handed_in: Path, course: Course, desk: Desk,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # From here on as an instructor works: in the folder, the password in the environment.
    monkeypatch.setenv("PGPASSWORD", SECRET)
    config = Config()
    front.configure(config, str(both["out"] / front.FILE), str(ROOT))
    form_grader = NbGraderAPI(CourseDirectory(config=config), config=config)
    lab = desk.lab.name
    with form_grader.gradebook as book:
        assert book.engine.dialect.name == "postgresql"
        grade = book.find_grade("explain", lab, lab, "ada")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.db.commit()
    (assignment,) = form_grader.get_assignments()
    shown = {row["student"]: row for row in form_grader.get_submissions(lab)}
    assert assignment["num_submissions"] == 3  # one cannot be read: it has no notebook to show
    assert (shown["ada"]["score"], shown["ada"]["needs_manual_grade"]) == (19.5, False)
    assert (shown["Zoë Ω"]["score"], shown["Zoë Ω"]["needs_manual_grade"]) == (16.0, True)
    assert len(form_grader.get_notebook_submissions(lab, lab)) == 3

    assert main(["grade", str(handed_in), "--out", str(both["out"]), "--root", str(ROOT),
                 "--json"]) == 0
    scores = {r["student"]: r["score"] for r in json.loads(capsys.readouterr().out)["results"]}
    assert scores == {"ada": 19.5, "Zoë Ω": 16.0, "untouched": 0.0, "broken": 0.0}

    page = Classroom(both["out"], course, desk.lab).feedback("ada")
    assert "19.5" in page.read_text(encoding="utf-8")
    shutil.rmtree(both["out"] / "feedback" / "ada")
    done = subprocess.run([sys.executable, "-m", "nbgrader", "generate_feedback", lab],
                          cwd=both["out"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "19.5" in page.read_text(encoding="utf-8")


@pytest.mark.sandbox
def test_exports_read_the_server(both: dict[str, Any], tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    for name in ("database.json", "grades.json"):  # and no gradebook in a file
        shutil.copy(both["out"] / name, tmp_path)
    found = {student.id: student for student in marks.read(tmp_path).students}
    assert {name: student.judged for name, student in found.items()} == {
        "ada": True, "Zoë Ω": True, "untouched": True, "broken": False}
    assert (found["Zoë Ω"].earned, found["Zoë Ω"].waiting) == (16.0, ("explain",))


@pytest.mark.sandbox
def test_no_password_is_left_in_the_graded_folder(both: dict[str, Any]) -> None:
    written = [path for path in both["out"].rglob("*") if path.is_file()]
    assert len(written) > 10
    for path in written:
        content = path.read_bytes()
        assert SECRET.encode() not in content, path
        assert QUOTED.encode() not in content, path
    assert "locked@/grades" in database.of(both["out"])


def test_another_database_starts_without_what_the_first_one_knew(tmp_path: Path) -> None:
    first = f"sqlite:///{tmp_path / 'one.db'}"
    assert database.place(tmp_path, database.default(tmp_path)) == ""
    assert database.settle(tmp_path, first) == first
    assert database.settle(tmp_path, None) == first == database.of(tmp_path)
    assert database.place(tmp_path, first) == first
    assert database.settle(tmp_path, database.default(tmp_path)) == database.of(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == []


def refused(url: str) -> str:
    """What is said about `url`; it must name the argument, and hide a password."""
    with pytest.raises(InputError) as problem:
        database.check(url)
    said = str(problem.value)
    assert said.startswith("database = ")
    assert "secret" not in said
    return said


def test_a_server_that_refuses_is_told_apart(server: Server) -> None:
    with pytest.raises(InputError) as problem:
        database.check(server.url("postgres", "locked", "secret"))
    assert "password authentication failed" in str(problem.value)
    assert "~/.pgpass" in problem.value.next_step
    assert "secret" not in str(problem.value)
    assert "PGPASSWORD" in refused(server.url("postgres", "locked"))
    assert "createdb" in refused(server.url("nowhere"))
    assert "createuser" in refused(server.url("postgres", "whoever"))


def test_a_database_that_cannot_take_grades_is_found_at_once(server: Server) -> None:
    server.run("CREATE ROLE guest LOGIN")
    server.create("closed")
    said = refused(server.url("closed", "guest"))
    assert "in which this user may make tables" in said
    assert "GRANT CREATE" in said
    server.run("CREATE DATABASE narrow TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    assert "This one has LATIN1" in refused(server.url("narrow"))
    url = database.check(server.create("open"))
    assert url.startswith("postgresql+psycopg://grader@/open")
    assert database.check(url.replace("postgresql+psycopg", "postgres")) == url


@pytest.mark.parametrize(("url", "told"), [
    ("grades", "postgresql://USER@HOST:PORT/DATABASE"),
    ("", "postgresql://USER@HOST:PORT/DATABASE"),
    ("mysql://ada:secret@host/grades", "postgresql://USER@HOST:PORT/DATABASE"),
    ("postgresql://ada:secret@host:port/grades", "postgresql://USER@HOST:PORT/DATABASE"),
    ("postgresql://ada:secret@host", "Add the database's name"),
    ("postgresql+asyncpg://ada:secret@host/grades", "Leave the driver's name out"),
    ("postgresql://ada:secret@127.0.0.1:1/grades", "Start the server"),
    ("postgresql://ada@127.0.0.1:1/grades?password=secret", "Start the server"),
    ("postgresql://ada:secret@/grades?host=/nowhere", "Start the server"),
    ("postgresql://ada:secret@127.0.0.1/grades?colour=red", 'invalid connection option "colour"'),
    ("sqlite:///here.db", "Four slashes begin a full path"),
    ("sqlite://", "Four slashes begin a full path"),
    ("sqlite:////nowhere/grades.db", "Make the folder /nowhere first"),
])
def test_a_url_that_cannot_serve_is_refused_with_the_form_that_can(url: str, told: str) -> None:
    assert told in refused(url)


def test_without_the_driver_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"pip install 'psycopg\[binary\]'"):
        database.check("postgresql://ada:secret@host/grades")
    with pytest.raises(UnavailableError, match="pip install 'psycopg2-binary'"):
        database.check("postgresql+psycopg2://ada:secret@host/grades")


def test_grading_names_a_bad_database_before_it_judges(
    handed_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", str(handed_in), "--out", str(tmp_path / "out"), "--root", str(ROOT),
                 "--database", "postgresql://ada:secret@127.0.0.1:1/grades"]) == 2
    said = capsys.readouterr().err
    assert "postgresql://ada:***@127.0.0.1:1/grades" in said
    assert "secret" not in said
    assert not (tmp_path / "out").exists()


def test_a_server_that_has_gone_is_named_when_marking_goes_on(
    tmp_path: Path, course: Course, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    database.remember(tmp_path, "postgresql+psycopg://ada:secret@127.0.0.1:1/grades")
    with pytest.raises(InputError, match="Start the server"):
        Classroom(tmp_path, course, desk.lab)
    for words in (["feedback", str(tmp_path), "--root", str(ROOT)], ["mark", str(tmp_path)]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "postgresql://ada@127.0.0.1:1/grades" in said
        assert "Start the server" in said


def test_a_damaged_memory_of_the_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "database.json").write_text("{}")
    with pytest.raises(InputError, match="Grade again with --database"):
        database.of(tmp_path)


def test_a_gradebook_that_cannot_be_written_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(args: argparse.Namespace) -> int:
        raise OperationalError("UPDATE grade", {"score": 1}, Exception("database or disk is full"))

    monkeypatch.setattr(mark, "run", run)
    assert main(["mark", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "the gradebook cannot be read or written: database or disk is full. Make room" in said
    assert "UPDATE" not in said
