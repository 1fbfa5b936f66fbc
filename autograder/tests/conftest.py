"""What the autograder's tests share: lab 1, its desk of submissions, and one engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ironlaw_autograder.build import lab_source
from ironlaw_autograder.build.lab_source import Lab
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.preprocessors import Marking
from ironlaw_autograder.judge import sandbox
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.limits import Limits
from ironlaw_autograder.simulate.submissions import Desk

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "lib" / "tests"))  # `lab_browser`, for tests in a real JupyterLab
QUICK = Limits(cell_seconds=4.0, call_seconds=2.0, grace_seconds=1.0)
STRICT = Limits(cell_seconds=2.5, call_seconds=1.0, grace_seconds=0.4)


@pytest.fixture(scope="session")
def course() -> Course:
    return Course(ROOT)


@pytest.fixture(scope="session")
def lab_01(course: Course) -> Lab:
    return lab_source.read(course.solutions / "lab_01_iron_law.py")


@pytest.fixture(scope="session")
def desk(lab_01: Lab) -> Desk:
    return Desk(lab_01)


@pytest.fixture(scope="session")
def marking(lab_01: Lab) -> Marking:
    return Marking(lab_01)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """One isolated engine for the session; tests that use it carry the mark `sandbox`."""
    yield from _isolated(QUICK)


@pytest.fixture(scope="session")
def strict() -> Iterator[Engine]:
    """Another, whose limits bite sooner."""
    yield from _isolated(STRICT)


def _isolated(limits: Limits) -> Iterator[Engine]:
    why = sandbox.problem()
    if why is not None:
        pytest.skip(why)
    made = Engine(limits)
    yield made
    made.close()
