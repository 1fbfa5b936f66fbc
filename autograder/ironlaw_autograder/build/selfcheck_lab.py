"""Self-check labs: one notebook per section of the question bank, graded like any lab.

The questions' keys are public in the learner's package; their hidden tests only spare the
student a second copy of the key beside the question. Written answers are marked by a person
along the rubric. What is secret are the answers to each student's own figures
(`variant_cells`).
"""

from __future__ import annotations

from typing import Any

from ironlaw.selfcheck import forms, loader, variants
from ironlaw.selfcheck.kinds import Choice, FillIn, Item, Order, RubricLine, TrueFalse, Written
from nbformat import NotebookNode, v4

from ..grading import checklist
from . import variant_cells
from .lab_source import Lab, from_notebook

_INTRO = """# Self-check {section}: to hand in

These are the questions of chapter {section}. Answer in the cells below each question and
run the cell after it: it tells how your answer will be read, not whether it is right.
A question left empty earns nothing and costs nothing.

{secrecy}

When you are done, press **Validate**, which names what is still empty, cannot be read, or is
no possible answer. Save, and hand in this one file."""

_PUBLIC = """The key to questions {section}.1 to {section}.{last} comes with the course, for all to
read, so their points are for answering and for the reasons you give"""

_SECRET = """; only the answers
to the problems with your own figures, at the end, are secret."""

_CHECKS = """from ironlaw.lab import check
from ironlaw.selfcheck.handin import readable

check(readable("{id}"), passed="")
### BEGIN HIDDEN TESTS
from ironlaw import selfcheck


def right(student):
    verdict = selfcheck.check("{id}", student.value("{variable}"))
    student.say(f"{{verdict.message}} {{verdict.feedback}}".strip())
    student.require(verdict.points_share > 0, verdict.message)
    return verdict.points_share


check(right, points={points})
### END HIDDEN TESTS"""

_RUBRIC = """### BEGIN MARK SCHEME
**How {id} is marked**

{lines}

*A model answer:* {model}
### END MARK SCHEME"""


def labs(salt: str = variants.SALT) -> list[Lab]:
    """One lab per section that the bank holds."""
    bank = loader.load()
    return [lab(section, salt) for section in sorted({item.section for item in bank.values()})]


def lab(section: int, salt: str = variants.SALT) -> Lab:
    """The self-check lab of `section`, its students' own figures drawn from `salt`."""
    found = [item for item in loader.load().values() if item.section == section]
    own = variant_cells.cells(section, salt)
    secrecy = _PUBLIC.format(section=section, last=len(found)) + (_SECRET if own else ".")
    notebook = v4.new_notebook(cells=[_text(_INTRO.format(section=section, secrecy=secrecy))])
    for item in found:
        notebook.cells += _cells(item)
    notebook.cells += own
    notebook.metadata["ironlaw"] = {
        "title": f"Self-check {section}",
        "minutes": sum(item.minutes for item in found) + variant_cells.minutes(section),
        # One line for every kind of form: what goes where stands in the form itself.
        "stub": "# Write into the line above, and leave the name before the equals sign as it is.",
        "salt": salt if own else "",
    }
    return from_notebook(notebook, f"selfcheck_{section:02d}", f"bank/{section:02d}.toml")


def _cells(item: Item) -> list[NotebookNode]:
    name = item.id.replace(".", "-")
    form = forms.form(item)
    prompt = _text(form.prompt, grade_id=f"question-{name}", locked=True)
    if isinstance(item, Written):
        return [prompt, *_by_person(f"answer-{name}", item.id, item.model_answer, item.rubric)]
    by_person = max(1, item.points // 2) if isinstance(item, TrueFalse) else 0
    by_machine = item.points - by_person
    answer = _code(_with_solution(item, form.stub), grade_id=f"answer-{name}", solution=True)
    checks = _code(_CHECKS.format(id=item.id, variable=forms.variable(item), points=by_machine),
                   grade_id=f"check-{name}", grade=True, points=by_machine)
    cells = [prompt, answer, checks]
    if isinstance(item, TrueFalse):
        ask = _text(f"**Why?** One or two sentences, marked by a person ({by_person} of the "
                    f"{item.points} points).", grade_id=f"ask-why-{name}", locked=True)
        rubric = (RubricLine(by_person, "Gives the reason, not only the verdict.",
                             item.reason_terms),)
        cells += [ask, *_by_person(f"why-{name}", item.id, item.reason, rubric)]
    return cells


def _by_person(name: str, id: str, model: str,
               rubric: tuple[RubricLine, ...]) -> list[NotebookNode]:
    """A written answer, and below it the rubric, which only graders get to see."""
    points = sum(line.points for line in rubric)
    answer = _text(model, grade_id=name, grade=True, solution=True, points=points)
    lines = "\n".join(f"- {line.points} point{'s' if line.points > 1 else ''}: {line.text} "
                      f"{checklist.note(line.terms)}" for line in rubric)
    scheme = _text(_RUBRIC.format(id=id, lines=lines, model=model),
                   grade_id=f"rubric-{name}", locked=True)
    return [answer, scheme]


def _with_solution(item: Item, stub: str) -> str:
    """The answer cell of the source: the empty form, then the key between the marks."""
    name = forms.variable(item)
    match item:
        case Choice() | FillIn() | TrueFalse():
            key: Any = item.key
        case Order():
            key = list(item.key)
        case _:
            return stub
    form = stub.splitlines()[0]  # a reason has a cell of its own here
    return "\n".join([form, "### BEGIN SOLUTION", f"{name} = {key!r}", "### END SOLUTION"])


def _text(source: str, **meta: Any) -> NotebookNode:
    cell = v4.new_markdown_cell(source)
    if meta:
        cell.metadata["nbgrader"] = meta
    return cell


def _code(source: str, **meta: Any) -> NotebookNode:
    cell = v4.new_code_cell(source)
    if meta:
        cell.metadata["nbgrader"] = meta
    return cell
