"""Attacks on the grader: each gets its fair grade and a word about it, and leaves no trace."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ironlaw_autograder import intake
from ironlaw_autograder.build import lab_source
from ironlaw_autograder.grading.work import Marking, Outcome, Task, judged
from ironlaw_autograder.judge import sandbox, slots, words
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.simulate import hostile
from ironlaw_autograder.simulate.submissions import Desk

ROOT = Path(__file__).resolve().parents[3]
DEEDS = {deed.name: deed for deed in hostile.variants(
    Desk(lab_source.read(ROOT / "solutions" / "lab_01_iron_law.py")))}
FILES = [name for name, deed in DEEDS.items() if deed.unreadable]
WORK = [name for name in DEEDS if name not in FILES]

pytestmark = pytest.mark.sandbox


def test_there_are_enough_of_them() -> None:
    assert len(WORK) >= 75
    assert len(FILES) >= 10


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_notebook_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=DEEDS[name].said):
        intake.read_notebook(DEEDS[name].content)


@pytest.mark.parametrize("name", WORK)
def test_a_deed_costs_what_it_forfeits_and_says_so(
    strict: Engine, marking: Marking, desk: Desk, name: str
) -> None:
    deed = DEEDS[name]
    want = {check: 0.0 if check in deed.lost else points
            for check, points in desk.points().items()}
    task = Task.of("mallory", desk.lab.name, intake.read_notebook(deed.content))
    outcome = judged(marking, strict, task)
    got = {score.grade_id: score.points for score in outcome.scores}
    assert {check: got[check] for check in want} == want, (outcome.events, outcome.scores)
    assert deed.said in said(outcome)
    assert is_plain(outcome)
    assert buried(strict), "a process outlived its sandbox"


def said(outcome: Outcome) -> str:
    """All words that the student or the instructor gets."""
    return " ".join([*outcome.restored, *outcome.events,
                     *(text for s in outcome.scores for text in (s.message, *s.notes))])


def is_plain(outcome: Outcome) -> bool:
    """Whether all text can be written, and none of it acts on a terminal or a page."""
    text = said(outcome)
    for cell in outcome.node().cells:
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            assert set(shown) <= {"text/plain", "text/html", "text/markdown", "image/png"}
            assert "<script" not in shown.get("text/html", "") + shown.get("image/png", "")
            text += "".join([*shown.values(), output.get("text", ""), output.get("evalue", ""),
                             *output.get("traceback", [])])
    return words.clean(text) == text


def buried(engine: Engine) -> bool:
    """Whether, after a moment, no process runs as the sandbox's own user."""
    user = sandbox.identity(engine.slot).uid
    until = time.monotonic() + 5
    while os.getuid() == 0 and user is not None and slots.running(user):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
