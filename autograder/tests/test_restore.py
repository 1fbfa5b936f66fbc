"""Whatever a student did to the notebook's shape is put right and named, and costs nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.grading.preprocessors import Marking
from ironlaw_autograder.judge.restore import restore
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode, v4

Edit = Callable[[NotebookNode], None]


def at(notebook: NotebookNode, name: str) -> int:
    return next(i for i, c in enumerate(notebook.cells) if label(c).get("grade_id") == name)


def sources(notebook: NotebookNode) -> dict[str, str]:
    return {label(c)["grade_id"]: c.source for c in notebook.cells if label(c)}


@pytest.fixture
def wanted(desk: Desk, marking: Marking) -> dict[str, str]:
    return sources(restore(marking.template, desk.reference()).notebook)


def test_an_honest_notebook_gains_hidden_tests_and_nothing_else(
    desk: Desk, marking: Marking
) -> None:
    restored = restore(marking.template, desk.reference())
    assert restored.notes == []
    text = sources(restored.notebook)
    assert "def hidden" in text["check-mfu"]
    assert text["mfu"] == desk.answer("mfu")
    assert "1 point" in text["rubric-explain"]


def delete(name: str) -> Edit:
    return lambda nb: nb.cells.pop(at(nb, name))


def change(name: str, text: str) -> Edit:
    def edit(notebook: NotebookNode) -> None:
        notebook.cells[at(notebook, name)].source = text
    return edit


def repeat(name: str, text: str | None = None) -> Edit:
    def edit(notebook: NotebookNode) -> None:
        twin = copy.deepcopy(notebook.cells[at(notebook, name)])
        twin.source = twin.source if text is None else text
        notebook.cells.append(twin)
    return edit


def retype(name: str) -> Edit:
    def edit(notebook: NotebookNode) -> None:
        place = at(notebook, name)
        cell = notebook.cells[place]
        notebook.cells[place] = v4.new_markdown_cell(cell.source, metadata=cell.metadata)
    return edit


SHAPES: dict[str, tuple[Edit, str]] = {
    "check deleted": (delete("check-mfu"), "check-mfu was missing"),
    "check edited": (change("check-mfu", "2.0"), ""),
    "check repeated": (repeat("check-mfu"), "check-mfu was there 2 times"),
    "prose deleted": (delete("1-predict-1"), ""),
    "answer repeated": (repeat("mfu"), "mfu was there 2 times"),
    "answer repeated as stub": (repeat("mfu", "raise NotImplementedError"), "2 times"),
    "answer retyped": (retype("mfu"), "type of the cell mfu"),
    "everything moved": (lambda nb: nb.cells.reverse(), "had been moved"),
    "points raised": (lambda nb: nb.cells[at(nb, "check-mfu")].metadata.nbgrader.update(
        points=100), ""),
}


@pytest.mark.parametrize("what", SHAPES)
def test_a_changed_shape_is_restored_and_named(
    desk: Desk, marking: Marking, wanted: dict[str, str], what: str
) -> None:
    edit, note = SHAPES[what]
    notebook = desk.reference()
    edit(notebook)
    restored = restore(marking.template, notebook)
    got = sources(restored.notebook)
    if what == "answer repeated as stub":
        got["mfu"] = wanted["mfu"]  # a stub of the student's own wording is an answer too
    assert got == wanted
    assert list(got) == [label(c)["grade_id"] for c in marking.template.cells]
    assert note in " ".join(restored.notes)
    points = {label(c)["grade_id"]: label(c).get("points") for c in restored.notebook.cells
              if label(c)}
    assert points["check-mfu"] == 2
    ids = [cell["id"] for cell in restored.notebook.cells]
    assert len(set(ids)) == len(ids)


def test_a_repeated_stub_never_hides_the_answer(desk: Desk, marking: Marking) -> None:
    notebook = desk.reference()
    repeat("mfu", marking.stubs["mfu"])(notebook)
    restored = restore(marking.template, notebook)
    assert sources(restored.notebook)["mfu"] == desk.answer("mfu")


def test_own_cells_stay_behind_the_cell_they_followed(desk: Desk, marking: Marking) -> None:
    notebook = desk.reference()
    notebook.cells.insert(at(notebook, "mfu"), v4.new_code_cell("helper = 1"))
    notebook.cells.insert(0, v4.new_code_cell("first = 1"))
    restored = restore(marking.template, notebook).notebook
    texts = [cell.source for cell in restored.cells]
    assert texts[0] == "first = 1"
    assert texts.index("helper = 1") < texts.index(desk.answer("mfu"))
    assert [c["id"] for c in restored.cells if not label(c)] == ["own-1", "own-2"]


def test_a_missing_answer_counts_as_empty_and_foreign_labels_are_ordinary_cells(
    desk: Desk, marking: Marking
) -> None:
    notebook = desk.reference()
    delete("mfu")(notebook)
    stranger = v4.new_code_cell("x = 1", metadata={"nbgrader": {"grade_id": "of-another-lab"}})
    notebook.cells.append(stranger)
    restored = restore(marking.template, notebook)
    assert sources(restored.notebook)["mfu"] == marking.stubs["mfu"]
    assert any("mfu was missing" in note for note in restored.notes)
    assert restored.notebook.cells[-1].source == "x = 1"
    assert not label(restored.notebook.cells[-1])
