"""An engine with limits short enough that a suite of hangs stays short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ironlaw_autograder.judge import sandbox
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.limits import Limits

SHORT = Limits(cell_seconds=2.5, call_seconds=1.0, grace_seconds=0.4)


@pytest.fixture(scope="session")
def strict() -> Iterator[Engine]:
    """One isolated engine for the session."""
    why = sandbox.problem()
    if why is not None:
        pytest.skip(why)
    made = Engine(SHORT)
    yield made
    made.close()
