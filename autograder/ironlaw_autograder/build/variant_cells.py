"""The part of a self-check lab whose figures differ from student to student.

The figures are not in the notebook: a cell asks for the student's id, and each problem is
drawn from it when its cell runs. Answers are judged by the instructor's side alone.
"""

from __future__ import annotations

import re

from ironlaw.errors import InputError
from ironlaw.selfcheck import variants
from ironlaw.selfcheck.text import to_markdown
from nbformat import NotebookNode, v4

from ..variants import right

_SALT = re.compile(r"[A-Za-z0-9.-]{1,40}")

REFERENCE = "reference"
"""The id under which the source's own solution is worked out."""

_INTRO = """## Your own figures

The problems below have figures drawn from your id, so your neighbour's numbers will not help
you. You may compute in extra cells, by hand, or with `ironlaw.predict`. An answer is a plain
number in the unit asked for, greater than zero; 1 GB is 10⁹ bytes and 1 TFLOP 10¹² FLOP.

First say who you are: write your id between the quotes, the user name or e-mail address
by which your course lists you, and run the cell. On JupyterHub, leave it empty and run it: your
user name is filled in. What stands between the quotes counts; only where nothing stands there
is JupyterHub's name taken. The id stays in this notebook, so that it is asked for once."""

_ID = f"""from ironlaw.selfcheck import variants

STUDENT_ID = ""
### BEGIN SOLUTION
STUDENT_ID = "{REFERENCE}"
### END SOLUTION
STUDENT_ID = variants.sign_in(STUDENT_ID)"""

_SHOW = """variants.show("{id}", STUDENT_ID{salt})"""

_ANSWER = """{variable} = None  # in place of None, a number, in {unit}
### BEGIN SOLUTION
{variable} = {value!r}
### END SOLUTION"""

_CHECK = """from ironlaw.lab import check
from ironlaw.selfcheck.handin import readable

check(readable("{id}"), passed="")
### BEGIN HIDDEN TESTS
from ironlaw_autograder.variants import judge

check(lambda student: judge(student, "{id}"{salt}), points={points})
### END HIDDEN TESTS"""


def cells(section: int, salt: str = variants.SALT) -> list[NotebookNode]:
    """The cells of one chapter's problems, none where it has none.

    A class's own salt stands in the cells that show and judge the figures, so that the
    notebook needs no other file to draw them.
    """
    problems = variants.in_section(section)
    words = "" if salt == variants.SALT else f', salt="{valid(salt)}"'
    if not problems:
        return []
    made = [_locked(v4.new_markdown_cell(_INTRO), f"own-figures-{section}"),
            _labelled(v4.new_code_cell(_ID), grade_id="your-id", solution=True)]
    for problem in problems:
        name = problem.id.replace(".", "-").lower()
        heading = (f"### {problem.id} · {to_markdown(problem.topic)}\n\n"
                   f"*{_points(problem.points)} · about {problem.minutes} min*\n\n"
                   "Run the next cell to see it with your figures.")
        value = right(variants.variant(problem.id, REFERENCE, salt))
        variable = variants.variable(problem.id)
        answer = _ANSWER.format(variable=variable, unit=problem.unit, value=value)
        check = _CHECK.format(id=problem.id, points=problem.points, salt=words)
        made += [
            _locked(v4.new_markdown_cell(heading), f"problem-{name}"),
            _locked(v4.new_code_cell(_SHOW.format(id=problem.id, salt=words)), f"figures-{name}"),
            _labelled(v4.new_code_cell(answer), grade_id=f"answer-{name}", solution=True),
            _labelled(v4.new_code_cell(check), grade_id=f"check-{name}", grade=True,
                      points=problem.points)]
    return made


def valid(salt: str) -> str:
    """`salt` when it can stand in a notebook's code as it is, else `InputError`."""
    if not _SALT.fullmatch(salt):
        raise InputError("salt", salt, "1 to 40 letters (a to z), digits, dots and dashes",
                         "Take a word that says class and year, such as autumn-2026.")
    return salt


def minutes(section: int) -> int:
    """Working time of one chapter's problems."""
    return sum(problem.minutes for problem in variants.in_section(section))


def _locked(cell: NotebookNode, name: str) -> NotebookNode:
    return _labelled(cell, grade_id=name, locked=True)


def _labelled(cell: NotebookNode, **meta: object) -> NotebookNode:
    cell.metadata["nbgrader"] = meta
    return cell


def _points(number: int) -> str:
    return f"{number} point" if number == 1 else f"{number} points"
