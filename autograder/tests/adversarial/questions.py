"""Small notebooks of one question, for tests of one limit or one trick at a time."""

from __future__ import annotations

from typing import Any

from ironlaw_autograder.judge.engine import Engine, Graded
from nbformat import NotebookNode, v4


def cell(source: str, name: str, **meta: Any) -> NotebookNode:
    """A labelled code cell."""
    record = {"grade_id": name, "schema_version": 3, "task": False, "grade": False,
              "solution": False, "locked": True, "points": 0, **meta}
    made = v4.new_code_cell(source, metadata={"nbgrader": record})
    made["id"] = name
    return made


def question(source: str, body: str = "student.value('x')", points: float = 2,
             name: str = "check") -> list[NotebookNode]:
    """An answer and its check, whose test has `body`."""
    lines = "\n".join("    " + line for line in body.splitlines())
    return [cell(source, f"answer-{name}", solution=True, locked=False),
            cell(f"def t(student):\n{lines}\n\ncheck(t)", name, grade=True, points=points)]


def grade(engine: Engine, *cells: NotebookNode, **how: Any) -> Graded:
    """The graded notebook."""
    return engine.grade(v4.new_notebook(cells=list(cells)), {}, **how)


def words(graded: Graded) -> str:
    """Everything that is said, and everything shown in the notebook."""
    said = [*graded.events, *(text for s in graded.scores for text in (s.message, *s.notes))]
    return " ".join([*said, *(str(o) for c in graded.notebook.cells for o in c.outputs)])
