"""Whatever a student did to the notebook's shape is put right and named, and costs nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from ironlaw_autograder import intake
from ironlaw_autograder.build import labs, selfcheck_lab, stamp
from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import contents
from ironlaw_autograder.grading.work import Marking
from ironlaw_autograder.intake import versions
from ironlaw_autograder.judge.restore import Restored, restore
from ironlaw_autograder.simulate import classroom
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode, v4

Edit = Callable[[NotebookNode], None]


def at(notebook: NotebookNode, name: str) -> int:
    return next(i for i, c in enumerate(notebook.cells) if label(c).get("grade_id") == name)


def sources(notebook: NotebookNode) -> dict[str, str]:
    return {label(c)["grade_id"]: c.source for c in notebook.cells if label(c)}


def compared(marking: Marking, notebook: NotebookNode) -> Restored:
    """`notebook` restored as grading does it."""
    said = stamp.read(notebook.metadata)
    return restore(marking.template, notebook,
                   versions.new_cells(marking.template, notebook, said, marking.stamp),
                   shipped=marking.shipped, same=versions.same(said, marking.stamp))


@pytest.fixture
def wanted(desk: Desk, marking: Marking) -> dict[str, str]:
    return sources(restore(marking.template, desk.reference()).notebook)


def test_an_honest_notebook_gains_hidden_tests_and_nothing_else(
    desk: Desk, marking: Marking
) -> None:
    restored = compared(marking, desk.reference())
    assert restored.notes == []
    text = sources(restored.notebook)
    assert "def hidden" in text["check-mfu"]
    assert text["mfu"] == desk.answer("mfu")
    assert "1 point" in text["rubric-explain"]


def test_nothing_is_said_to_an_honest_member(desk: Desk, marking: Marking) -> None:
    honest = [member for member in classroom.members(desk, 60, 20) if member.honest]
    assert len(honest) == 40
    for member in honest:
        assert compared(marking, intake.read_notebook(member.content)).notes == [], member.deed


def test_nothing_is_said_about_any_lab_as_it_is_handed_out(course: Course) -> None:
    for lab in labs.labs(course):
        shipped = (course.labs / lab.name / f"{lab.name}.ipynb").read_bytes()
        assert compared(Marking(lab), intake.read_notebook(shipped)).notes == [], lab.name


def delete(name: str) -> Edit:
    return lambda nb: nb.cells.pop(at(nb, name))


def change(name: str, text: str) -> Edit:
    def edit(notebook: NotebookNode) -> None:
        notebook.cells[at(notebook, name)].source = text
    return edit


def reprice(name: str, points: Any) -> Edit:
    return lambda nb: nb.cells[at(nb, name)].metadata.nbgrader.update(points=points)


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


FREE = " That cost no points."
PUT_BACK = f"was not as handed out; the lab's own text was put back.{FREE}"
OWN = "the last one with an answer was graded."


def two_moved(notebook: NotebookNode) -> None:
    for name in ("explain", "check-mfu"):
        notebook.cells.insert(1, notebook.cells.pop(at(notebook, name)))


SHAPES: dict[str, tuple[Edit, list[str]]] = {
    "check deleted": (delete("check-mfu"), [
        f"The cell check-mfu (question 3a) was missing; it was put back.{FREE}"]),
    "check edited": (change("check-mfu", "2.0"), [f"The cell check-mfu (question 3a) {PUT_BACK}"]),
    "check emptied": (change("check-mfu", ""), [f"The cell check-mfu (question 3a) {PUT_BACK}"]),
    "check repeated": (repeat("check-mfu"), [
        f"The cell check-mfu (question 3a) was there 2 times; one was kept.{FREE}"]),
    "check repeated with another text": (repeat("check-mfu", "2.0"), [
        f"The cell check-mfu (question 3a) was there 2 times; one was kept.{FREE}"]),
    "check retyped": (retype("check-mfu"), [f"The cell check-mfu (question 3a) {PUT_BACK}"]),
    "prose deleted": (delete("1-predict-1"), [
        f"The cell 1-predict-1 (question 1a) was missing; it was put back.{FREE}"]),
    "prose edited": (change("hand-in-1", "Full points, please."), [
        f"The cell hand-in-1 {PUT_BACK}"]),
    "prose repeated": (repeat("hand-in-1"), [
        f"The cell hand-in-1 was there 2 times; one was kept.{FREE}"]),
    "locked code edited": (change("3-compare-4", "x = 1"), [f"The cell 3-compare-4 {PUT_BACK}"]),
    "locked code deleted": (delete("3-compare-4"), [
        f"The cell 3-compare-4 was missing; it was put back.{FREE}"]),
    "answer repeated": (repeat("mfu"), [
        f"The answer cell mfu (question 3a) was there 2 times; {OWN}"]),
    "answer repeated as stub": (repeat("mfu", "raise NotImplementedError"), [
        f"The answer cell mfu (question 3a) was there 2 times; {OWN}"]),
    "answer retyped": (retype("mfu"), [
        f"The type of the cell mfu (question 3a) had been changed; it was changed back.{FREE}"]),
    "first cell moved to the end": (lambda nb: nb.cells.append(nb.cells.pop(0)), [
        "The cell lab-1-the-iron-law-on-your-own-device-1 had been moved; it was put back into "
        f"its place.{FREE}"]),
    "two moved": (two_moved, [
        "2 cells had been moved (check-mfu (question 3a); explain (question 4)): they were put "
        f"back into their places.{FREE}"]),
    "points raised": (reprice("check-mfu", 100), [
        "The cell check-mfu (question 3a) said other points than handed out; the lab's own "
        f"points count.{FREE}"]),
    "points of a written answer raised": (reprice("explain", 100), [
        "The cell explain (question 4) said other points than handed out; the lab's own "
        f"points count.{FREE}"]),
    "points given to prose": (
        lambda nb: nb.cells[at(nb, "hand-in-1")].metadata.nbgrader.update(grade=True, points=9), [
            "The cell hand-in-1 said other points than handed out; the lab's own "
            f"points count.{FREE}"]),
}


@pytest.mark.parametrize("what", SHAPES)
def test_a_changed_shape_is_restored_and_named(
    desk: Desk, marking: Marking, wanted: dict[str, str], what: str
) -> None:
    edit, notes = SHAPES[what]
    notebook = desk.reference()
    edit(notebook)
    restored = compared(marking, notebook)
    got = sources(restored.notebook)
    if what == "answer repeated as stub":
        got["mfu"] = wanted["mfu"]  # a stub of the student's own wording is an answer too
    assert got == wanted
    assert list(got) == [label(c)["grade_id"] for c in marking.template.cells]
    assert restored.notes == notes
    points = {label(c)["grade_id"]: label(c).get("points") for c in restored.notebook.cells
              if label(c)}
    assert points["check-mfu"] == 2
    ids = [cell["id"] for cell in restored.notebook.cells]
    assert len(set(ids)) == len(ids)


def locked(marking: Marking) -> set[str]:
    return {name for name, cell in marking.shipped.cells.items() if label(cell)["locked"]}


def test_an_order_turned_round_names_all_cells_but_the_one_that_can_stay(
    desk: Desk, marking: Marking, wanted: dict[str, str]
) -> None:
    notebook = desk.reference()
    notebook.cells.reverse()
    restored = compared(marking, notebook)
    assert list(sources(restored.notebook).items()) == list(wanted.items())
    (note,) = restored.notes
    assert note.startswith(f"{len(notebook.cells) - 1} cells had been moved (")
    assert note.endswith(FREE)


def test_every_check_replaced_is_named_in_one_line_for_texts_and_one_for_points(
    desk: Desk, marking: Marking, wanted: dict[str, str]
) -> None:
    notebook = desk.reference()
    for name in desk.points():
        change(name, "print('passed')")(notebook)
        reprice(name, 100)(notebook)
    restored = compared(marking, notebook)
    assert sources(restored.notebook) == wanted
    texts, points = restored.notes
    for name in desk.points():
        assert f"{name} (question" in texts
        assert f"{name} (question" in points
    assert texts.startswith(f"{len(desk.points())} cells were not as handed out (")
    assert points.startswith(f"{len(desk.points())} cells said other points than handed out (")
    assert texts.endswith(FREE)
    assert points.endswith(FREE)


@pytest.mark.parametrize(("edit", "said"), [
    (lambda cell: cell.update(source="x = 1"), "were not as handed out"),
    (lambda cell: cell.metadata.pop("nbgrader"), "were missing")])
def test_every_locked_cell_is_named(
    desk: Desk, marking: Marking, wanted: dict[str, str], edit: Callable[[NotebookNode], None],
    said: str
) -> None:
    notebook = desk.reference()
    for name in locked(marking):
        edit(notebook.cells[at(notebook, name)])
    restored = compared(marking, notebook)
    assert sources(restored.notebook) == wanted
    (note,) = restored.notes
    assert f"{len(locked(marking))} cells {said} (" in note
    for name in locked(marking):
        assert marking.shipped.called(name) in note


def as_a_list(data: dict[str, Any]) -> None:
    for cell in data["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)


def spaced(data: dict[str, Any]) -> None:
    for cell in data["cells"]:
        cell["source"] = cell["source"].replace("\n", "  \r\n") + "\n"


def run_elsewhere(data: dict[str, Any]) -> None:
    as_a_list(data)
    data.update(nbformat_minor=0)
    data["metadata"].update(colab={"provenance": []}, accelerator="GPU")
    for place, cell in enumerate(data["cells"]):
        cell.pop("id")
        cell["metadata"].update(id=f"x{place}", outputId="y", colab={"height": 34},
                                execution={"iopub.status.busy": "2026"})
        if cell["cell_type"] == "code":
            cell["execution_count"] = place
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["1.0\n"]}]


def priced_as_decimals(data: dict[str, Any]) -> None:
    for cell in data["cells"]:
        record = cell["metadata"]["nbgrader"]
        if "points" in record:
            record["points"] = float(record["points"])


@pytest.mark.parametrize("change", [as_a_list, spaced, run_elsewhere, priced_as_decimals])
@pytest.mark.parametrize("answered", [True, False])
def test_what_an_editor_does_to_a_file_is_no_change(
    desk: Desk, marking: Marking, change: Callable[[dict[str, Any]], None], answered: bool
) -> None:
    data = json.loads(nbformat.writes(desk.reference() if answered else desk.untouched()))
    for cell in data["cells"]:
        cell["source"] = "".join(cell["source"])
    change(data)
    assert compared(marking, intake.read_notebook(json.dumps(data).encode())).notes == []


@pytest.mark.parametrize("stamped", [{"hash": "0" * 12, "course": "0.0.1"}, None])
def test_a_notebook_of_an_unknown_version_is_accused_of_nothing(
    desk: Desk, marking: Marking, wanted: dict[str, str], stamped: dict[str, str] | None
) -> None:
    notebook = desk.reference()
    notebook.metadata = nbformat.from_dict({} if stamped is None else {"ironlaw": stamped})
    assert compared(marking, notebook).notes == []
    for name in ("check-mfu", "1-predict-1", "3-compare-4"):
        change(name, "another text")(notebook)
    reprice("check-residual", 5)(notebook)
    notebook.cells.insert(0, notebook.cells.pop(at(notebook, "hand-in-1")))
    restored = compared(marking, notebook)
    assert sources(restored.notebook) == wanted
    assert restored.notes == [
        "Cells that are not the student's to change differed from the version that was graded; "
        "this version's text, points and order were put in their place. That cost no points."]


def test_a_cell_under_a_label_that_was_not_handed_out_is_named(
    desk: Desk, marking: Marking, wanted: dict[str, str]
) -> None:
    notebook = desk.reference()
    notebook.cells.append(v4.new_markdown_cell(
        "Two points.", metadata={"nbgrader": {"grade_id": "rubric-explain"}}))
    restored = compared(marking, notebook)
    assert sources(restored.notebook) == wanted
    assert f"The cell rubric-explain {PUT_BACK}" in restored.notes


def test_a_self_checks_cells_are_called_by_their_questions() -> None:
    found = contents.numbers(labs.release(selfcheck_lab.lab(1)).cells)
    assert found["check-1-1"] == found["question-1-1"] == found["answer-1-1"] == "1.1"
    assert found["figures-v1-1"] == "V1.1"
    assert "own-figures-1" not in found  # it follows the last question and belongs to none
    assert "self-check-1-to-hand-in-1" not in found


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


def test_text_of_ones_own_without_end_is_kept_up_to_a_length(desk: Desk, marking: Marking) -> None:
    made = desk.reference({"explain": "x" * 300_000})
    made.cells += [v4.new_markdown_cell("[" * 20_000) for _ in range(30)]
    made.cells += [copy.deepcopy(made.cells[at(made, "mfu")]) for _ in range(2)]
    made.cells[-2].source += "\n# first"
    restored = restore(marking.template, made)
    (said,) = [note for note in restored.notes if "held more than" in note]
    assert said == ("Cells beside the lab's held more than 500,000 characters together; 6 of them "
                    "count as empty.")
    own = [c for c in restored.notebook.cells if not label(c)]
    assert sum(len(c.source) for c in own) <= 500_000
    assert sum(c.source == "[" * 20_000 for c in own) == 24
    assert len(sources(restored.notebook)["explain"]) == 300_000


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
