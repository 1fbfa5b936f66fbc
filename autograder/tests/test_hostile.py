"""Attacks on the grader: each gets the fair grade, and leaves nothing behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ironlaw_autograder import intake
from ironlaw_autograder.build import lab_source
from ironlaw_autograder.grading.preprocessors import Marking
from ironlaw_autograder.judge import sandbox
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.restore import restore
from ironlaw_autograder.simulate import hostile
from ironlaw_autograder.simulate.submissions import Desk

ROOT = Path(__file__).resolve().parents[2]
DEEDS = {deed.name: deed for deed in hostile.variants(
    Desk(lab_source.read(ROOT / "solutions" / "lab_01_iron_law.py")))}

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize("name", DEEDS)
def test_a_deed_costs_what_it_forfeits_and_says_so(
    engine: Engine, marking: Marking, desk: Desk, name: str
) -> None:
    deed = DEEDS[name]
    want = {check: 0.0 if check in deed.lost else points
            for check, points in desk.points().items()}
    if deed.unreadable:
        unreadable(deed)
        return
    restored = restore(marking.template, intake.read_notebook(deed.content))
    graded = engine.grade(restored.notebook, marking.stubs, marking.lab.blocked)
    got = {score.grade_id: score.points for score in graded.scores}
    assert {check: got[check] for check in want} == want, graded.events
    said = [*restored.notes, *(text for s in graded.scores for text in (s.message, *s.notes))]
    assert deed.said in " ".join(said)
    until = time.monotonic() + 5
    while left_behind(engine) and time.monotonic() < until:  # burying them takes a moment
        time.sleep(0.05)
    assert not left_behind(engine), "a process outlived its sandbox"


def unreadable(deed: hostile.Hostile) -> None:
    with pytest.raises(ValueError, match=deed.said):
        intake.read_notebook(deed.content)


def left_behind(engine: Engine) -> list[str]:
    """Command lines of processes that still run as the sandbox's own user."""
    if os.getuid() != 0:
        return []
    user = sandbox.identity(engine.slot).uid
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == user:
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found
