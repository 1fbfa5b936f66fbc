"""What an instructor sees while a class is graded."""

from __future__ import annotations

import io
import re

from ironlaw_autograder.grading.grade import Result
from ironlaw_autograder.grading.progress import Progress, line, unusual
from ironlaw_autograder.judge.engine import Score


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def result(name: str, **more: object) -> Result:
    made = Result(name, f"{name}.ipynb", 16, 20, 2, [Score("mfu", 0, 2, "mfu(1) is 2.")],
                  seconds=0.4)
    for key, value in more.items():
        setattr(made, key, value)
    return made


ODD = result("boris", problem="the file is empty", restored=["The cell x was missing."],
             events=["", "Traceback (most recent call last):\n  ...\nOSError: full"])


def test_away_from_a_terminal_each_submission_has_a_line() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    for place, found in enumerate((result("ada"), ODD), start=1):
        progress(place, 2, found)
    progress.close()
    assert stream.getvalue().splitlines() == [
        "   1/2  ada                         16/20    0.4 s  mfu: mfu(1) is 2.",
        "   2/2  boris                       16/20    0.4 s  the file is empty | The cell x was "
        "missing. | mfu: mfu(1) is 2."]


def test_a_terminal_gets_a_bar_with_the_time_that_is_left_and_the_unusual_by_name() -> None:
    stream = Terminal()
    progress = Progress(stream)
    progress(1, 40, result("ada"))
    for place in range(2, 31):
        progress(place, 40, ODD if place == 20 else result(f"s{place}"))
    progress.close()
    said = stream.getvalue()
    assert "0 of 40 graded, ? left" in said  # nothing is known yet
    assert re.search(r" 75% \|.*\| 30 of 40 graded, 00:\d\d left", said)
    assert "boris: the file is empty | The cell x was missing. | OSError: full" in said
    assert "ada" not in said  # a lost point is nothing unusual


def test_what_was_judged_in_an_earlier_run_shows_no_time() -> None:
    assert line(1, 2, result("ada", kept=True)) == (
        "   1/2  ada                         16/20     kept  mfu: mfu(1) is 2.")
    assert "kept" not in result("ada", kept=True).to_json()


def test_a_long_remark_is_cut_and_an_ordinary_result_has_none() -> None:
    assert line(1, 9, result("ada", problem="x" * 300)).endswith("x...")
    assert len(line(1, 9, result("ada", problem="x" * 300))) < 170
    assert unusual(result("ada")) == ""
