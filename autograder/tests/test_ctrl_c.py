"""Ctrl-C stops the grader even where Python drops the exception."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import weakref
from collections.abc import Callable

import pytest
from ironlaw_autograder.grading.ctrl_c import CtrlC


class Thing:
    pass


def press(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def lost() -> None:
    """Ctrl-C inside a weak reference's callback, of which Python only prints a line."""
    thing = Thing()
    reference = weakref.ref(thing, press)
    del thing
    assert reference() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lost_ctrl_c_stops_at_the_next_check_or_at_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    done: list[str] = []
    with contextlib.suppress(KeyboardInterrupt), CtrlC() as ctrl_c:
        lost()
        done.append("went on")
        ctrl_c.check()
        done.append("never")
    with pytest.raises(KeyboardInterrupt), CtrlC():
        lost()
    assert done == ["went on"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("what", [press, lambda: None])
def test_any_other_stops_at_once_and_without_one_nothing_happens(
        what: Callable[[], None]) -> None:
    done = []
    with contextlib.suppress(KeyboardInterrupt), CtrlC() as ctrl_c:
        what()
        ctrl_c.check()
        done.append("went on")
    assert bool(done) == (what is not press)
    with contextlib.suppress(ValueError), CtrlC():
        raise ValueError  # what went wrong besides is what is told


def test_in_another_thread_signals_stay_as_they_are() -> None:
    seen: list[object] = []

    def run() -> None:
        with CtrlC() as ctrl_c:
            ctrl_c.check()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
