"""The course's first page: where the learner stands, and how to carry that somewhere else.

    from ironlaw import start
    start.show()          # on the first page
    start.mark_read(1)    # at the end of chapter 1: marks it as read

One row per chapter (read, self-check, lab), marks to set, and a panel that saves the
learner's state to one file, brings it back, or empties it.
"""

from __future__ import annotations

from .marks import mark_read

__all__ = ["mark_read", "show"]


def show() -> None:
    """Display the page's table and its controls; without ipywidgets, the table alone."""
    from . import page

    page.show()
