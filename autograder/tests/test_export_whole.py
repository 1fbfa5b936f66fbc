"""From notebooks to files: a class is graded, a written answer marked, and everything exported."""

from __future__ import annotations

import json
from typing import Any

import lms_readers
import pytest
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.simulate.classroom import NAMES
from ironlaw_autograder.simulate.submissions import Desk

pytestmark = pytest.mark.sandbox
ADA, BORIS, CHIDI, DUNYA = NAMES[:4]
WRONG = {"mfu": "def mfu(*a):\n    return 0.5"}


@pytest.fixture(scope="module")
def exported(course: Course, desk: Desk, tmp_path_factory: pytest.TempPathFactory,
             ) -> dict[str, Any]:
    where = tmp_path_factory.mktemp("whole")
    folder, out = where / "class", where / "graded"
    folder.mkdir()
    for name, notebook in ((ADA, desk.reference()), (BORIS, desk.reference(WRONG)),
                           (CHIDI, desk.reference(WRONG)), (DUNYA, desk.untouched())):
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    assert main(["grade", str(folder), "--out", str(out), "--root", str(course.root)]) == 0
    with Classroom(out, course, desk.lab).gradebook() as book:
        grade = book.find_grade("explain", desk.lab.name, desk.lab.name, ADA)
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.db.commit()
    template = where / "canvas.csv"
    template.write_text(f"Student,ID,SIS Login ID,Section,{desk.lab.title} (9)\n"
                        "    Points Possible,,,,20\n"
                        + "".join(f'"{name}",{place},{name},S1,\n'
                                  for place, name in enumerate((ADA, BORIS, CHIDI, DUNYA))))
    assert main(["export", str(out), "--canvas", str(template)]) == 0
    return {"to": out / "exports", "desk": desk}


def test_marks_by_hand_count_and_what_waits_stays_empty(exported: dict[str, Any]) -> None:
    text = (exported["to"] / "canvas.csv").read_text(encoding="utf-8")
    (scores,) = lms_readers.canvas_import(text)["scores"].values()
    assert scores == {"0": "19.5", "1": "", "2": "", "3": "0"}


def test_questions_come_in_the_labs_order_with_their_numbers(exported: dict[str, Any]) -> None:
    _, rows = lms_readers.table((exported["to"] / "items.csv").read_bytes())
    assert [row["question"] for row in rows] == [*exported["desk"].points(),
                                                 *exported["desk"].written()]
    assert rows[0]["title"] == "1a · training seconds"
    page = (exported["to"] / "report.html").read_text(encoding="utf-8")
    assert "<h1>How the class did: Lab 1 · The iron law on your own device</h1>" in page
    assert not any(name in page for name in (ADA, BORIS, CHIDI, DUNYA))


def test_the_commonest_wrong_value_is_found_with_what_was_said(exported: dict[str, Any]) -> None:
    _, rows = lms_readers.table((exported["to"] / "items.csv").read_bytes())
    row = next(row for row in rows if row["question"] == "check-mfu")
    assert (row["commonest wrong value"], row["given by"]) == ("0.50000", "2")
    assert "is 0.50000; it should be 0.33030" in row["message"]
    assert (row["marked"], row["difficulty"], row["left empty"]) == ("4", "0.25", "0.25")
    written = rows[-1]
    assert (written["waiting"], written["marked"]) == ("2", "2")
