"""What an instructor sees while a class is graded: how far, how long still, and what is unusual.

On a terminal a bar with the remaining time, and one line for each submission out of the
ordinary; anywhere else one line for each submission.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from . import tables

if TYPE_CHECKING:
    from .grade import Result

_WIDTH = 110
_BAR = "{percentage:3.0f}% |{bar}| {n_fmt} of {total_fmt} graded, {remaining} left"


class Progress:
    """Tells of results as they come, on `stream` (default: the error stream)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar: Any = None

    def __call__(self, place: int, total: int, result: Result) -> None:
        """Result number `place` of `total` is there."""
        if not self._stream.isatty():
            print(line(place, total, result), file=self._stream, flush=True)
            return
        if self._bar is not None and place <= self._bar.n:  # another class begins
            self.close()
        if self._bar is None:
            # No thread of its own: workers are forked from this process.
            tqdm.monitor_interval = 0
            self._bar = tqdm(total=total, initial=place - 1, file=self._stream,
                             bar_format=_BAR, dynamic_ncols=True, smoothing=0.1)
        said = unusual(result)
        if said:
            tqdm.write(_short(f"{result.student or result.file}: {said}"), file=self._stream)
        self._bar.update(place - self._bar.n)

    def close(self) -> None:
        """Leave the finished bar standing."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def line(place: int, total: int, result: Result) -> str:
    """One result in one line."""
    passed = "waits for a person" if result.waiting else "all questions passed"
    said = tables.remarks(result) or passed
    who = result.student or result.file
    took = "kept" if result.kept else f"{result.seconds:5.1f} s"
    return (f"{place:>4}/{total}  {who:<24} {result.score:>5g}/{result.maximum:g}  "
            f"{took:>7}  {_short(said)}")


def unusual(result: Result) -> str:
    """What an instructor may want to look at, or ''; a lost point alone is nothing unusual."""
    said = [result.problem, *result.restored,
            *(event.strip().splitlines()[-1] for event in result.events if event.strip())]
    return " | ".join(" ".join(part.split()) for part in said if part)


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else text[:_WIDTH - 3] + "..."
