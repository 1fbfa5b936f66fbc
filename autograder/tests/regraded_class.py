"""A class that is graded again and again without a sandbox, and what its gradebook says."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import work
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.grading.grade import Result, grade_folder
from ironlaw_autograder.grading.work import Outcome, Task
from ironlaw_autograder.judge.engine import Graded, Score, _shown
from ironlaw_autograder.judge.limits import Limits
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode

LAB = "lab_01_iron_law"


class Strict:
    """In the place of the engine: runs nothing, and awards every check all of its points, or
    half of them in a notebook with the word HALF."""

    def grade(self, notebook: NotebookNode, stubs: dict[str, str], *ignored: Any,
              **ignored_too: Any) -> Graded:
        share = 0.5 if any("HALF" in cell.source for cell in notebook.cells) else 1.0
        scores = []
        for cell in notebook.cells:
            meta = label(cell)
            if not meta.get("grade"):
                continue
            name, most = str(meta["grade_id"]), float(meta["points"])
            if meta["solution"]:
                blank = cell.source.strip() == stubs[name].strip()
                scores.append(Score(name, 0.0 if blank else None, most, "written"))
            else:
                scores.append(Score(name, share * most, most, "judged"))
                cell.outputs = _shown(scores[-1])
        return Graded(notebook, scores, [], 0.0)


class Class:
    """Notebooks in a folder, graded again and again; `judged` are those of the last time."""

    def __init__(self, course: Course, where: Path, desk: Desk) -> None:
        self.course = course
        self.folder, self.out = where / "class", where / "out"
        self.folder.mkdir()
        self.desk = desk
        self.judged: list[str] = []
        self.fails: set[str] = set()

    def hand_in(self, name: str, **answers: str) -> None:
        text = json.dumps(self.desk.reference(answers))
        (self.folder / f"{name}.ipynb").write_text(text, encoding="utf-8")

    def grade(self, pages: bool = False, **options: Any) -> dict[str, Result]:
        self.judged = []
        _, results = grade_folder(self.course, self.folder, self.out, lab_name=LAB,
                                  runner=self._run, pages=pages, **options)
        return {result.student: result for result in results}

    def room(self) -> Classroom:
        return Classroom(self.out, self.course, self.desk.lab)

    def mark(self, student: str, question: str, points: float) -> None:
        """Give points as the form grader does."""
        with self.room().gradebook() as book:
            grade = book.find_grade(question, LAB, LAB, student)
            grade.manual_score, grade.needs_manual_grade = points, False
            book.db.commit()

    def _run(self, tasks: list[Task], course: Course, lab: str, limits: Limits, *,
             isolated: bool) -> Generator[Outcome, None, None]:
        for task in tasks:
            self.judged.append(task.student)
            if task.student in self.fails:
                yield work.failed(task, "the judge fell ill")
            else:
                judge: Any = Strict()
                yield work.judged(work.marking(course, lab), judge, task)


def gradebook(room: Classroom) -> dict[str, Any]:
    """Everything that the gradebook says of each student, without times and random ids."""
    with room.gradebook() as book:
        return {submission.student.id: (
            sorted((g.name, g.auto_score, g.manual_score, g.needs_manual_grade)
                   for part in submission.notebooks for g in part.grades),
            sorted((c.name, c.auto_comment, c.manual_comment)
                   for part in submission.notebooks for c in part.comments))
            for submission in book.assignment_submissions(LAB)}
