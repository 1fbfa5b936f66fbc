"""`check`: run checks on the answers above, and say in words what was wrong.

In a notebook it works on the notebook's own names, with or without nbgrader (and so on
Colab). While a notebook is graded in isolation, the autograder puts its own session in
place and the same cell runs there, far from the student's code.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from .student import LocalStudent, Student, StudentFault

Test = Callable[[Student], float | None]


class Session(Protocol):
    """Whoever runs checks in place of the notebook."""

    def run(self, test: Test) -> None:
        """Run one check and keep its outcome."""


session: ContextVar[Session | None] = ContextVar("ironlaw_check_session", default=None)


class CheckError(AssertionError):
    """The message of a failed check, shown without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"Not yet: {self}"]


def check(test: Test, points: float | None = None,
          passed: str = "All checks passed.") -> float | None:
    """Run `test(student)` on this notebook; raises `CheckError` with the reason.

    A test passes by returning None, or a share in [0, 1] of the cell's `points`; then the
    points earned are returned, which is how nbgrader reads partial credit.
    """
    running = session.get()
    if running is not None:
        running.run(test)
        return None
    student = LocalStudent(_names_of_the_notebook())
    try:
        share = share_of(test(student))
    except AssertionError as problem:
        raise CheckError(str(problem) or "a check did not hold") from None
    except StudentFault as fault:
        raise CheckError(fault.message) from None
    finally:
        for note in student.notes:
            print(note)
    if share < 1:
        print(f"Partly right: {share:.0%} of the points.")
        return None if points is None else share * points
    if passed:
        print(passed)
    return None


def share_of(outcome: Any) -> float:
    """What a test returned as a share of its points; None is all of them."""
    if outcome is None:
        return 1.0
    plain = isinstance(outcome, int | float) and not isinstance(outcome, bool)
    share = float(outcome) if plain else math.nan
    if not 0 <= share <= 1:
        raise ValueError(f"a test returned {outcome!r}; it must return None or a share in [0, 1]")
    return share


def _names_of_the_notebook() -> dict[str, Any]:
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive else None
    if shell is not None:
        return shell.user_ns
    frame = sys._getframe(2)
    return frame.f_globals
