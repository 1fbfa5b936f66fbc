"""The words that help whoever marks: seen in a good answer, absent from none, worth nothing."""

from __future__ import annotations

import pytest
from ironlaw.selfcheck import loader
from ironlaw.selfcheck.kinds import Item, TrueFalse, Written
from ironlaw_autograder.build import labs, selfcheck_lab
from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.grading import checklist
from ironlaw_autograder.grading.preprocessors import Marking
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.restore import restore

BY_PERSON = [i for i in loader.load().values() if isinstance(i, Written | TrueFalse)]


def lines_of(item: Item) -> list[tuple[str, ...]]:
    if isinstance(item, Written):
        return [line.terms for line in item.rubric]
    assert isinstance(item, TrueFalse)
    return [item.reason_terms]


def model_of(item: Item) -> str:
    return item.model_answer if isinstance(item, Written) else getattr(item, "reason", "")


@pytest.mark.parametrize("item", BY_PERSON, ids=lambda i: i.id)
def test_the_model_answer_holds_the_words_of_every_rubric_line(item: Item) -> None:
    """A term that not even the model holds would mislead; an empty answer holds none."""
    for terms in lines_of(item):
        assert terms
        assert not [term for term in terms if not checklist.holds(model_of(item), term)]
        assert not any(checklist.holds(text, term) for term in terms
                       for text in ("", labs.TEXT_STUB, "I do not know."))


@pytest.mark.parametrize(("answer", "term", "found"), [
    ("The copies are HIDDEN.", "hid|overlap", True), ("It over-\nlaps", "over laps", True),
    ("unhidden", "hid", False), ("24.5 GB", "24.5", True), ("124.5 GB", "24.5", False),
    ("Page-locked memory", "page locked", True), ("a + b", "a + b", True), ("x", "|", False),
    ("café", "cafe", True)])
def test_words_are_found_by_their_beginnings(answer: str, term: str, found: bool) -> None:
    assert checklist.holds(answer, term) is found


def test_a_note_becomes_ticks_and_other_text_stays() -> None:
    scheme = f"- 1 point: says why {checklist.note(['hid|overlap', 'batch'])}\n- 1 point: other"
    assert checklist.ticked(scheme, "All of it overlaps.") == (
        "- 1 point: says why (words found, no points: ☑ hid / overlap, ☐ batch)\n"
        "- 1 point: other")
    assert checklist.note([]) == ""


@pytest.mark.sandbox
def test_a_grader_sees_the_ticks_and_the_points_still_wait(engine: Engine) -> None:
    lab = selfcheck_lab.lab(8)
    marking = Marking(lab)
    notebook = labs.release(lab)
    for cell in notebook.cells:
        assert "terms:" not in cell.source, "a hint for graders was handed out"
        if label(cell)["grade_id"] == "answer-8-2":
            cell.source = "Time halves, since η doubles at the same peak."
    graded = engine.grade(restore(marking.template, notebook).notebook, marking.stubs, owner="ada")
    checklist.fill(graded.notebook)
    scheme = next(c.source for c in graded.notebook.cells
                  if label(c).get("grade_id") == "rubric-answer-8-2")
    assert "☑ half / halv / twice as fast / 15" in scheme
    assert "☐ energy / kWh / power" in scheme
    score = next(s for s in graded.scores if s.grade_id == "answer-8-2")
    assert score.points is None
