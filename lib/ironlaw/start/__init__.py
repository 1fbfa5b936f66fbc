"""The course's first page: where the learner stands, and how to carry that somewhere else.

    from ironlaw import start
    start.show()

One row per chapter (read, self-check, lab), marks to set, and a panel that saves the
learner's state to one file, brings it back, or empties it.
"""

from __future__ import annotations

__all__ = ["show"]


def show() -> None:
    """Display the page's table and its controls; without ipywidgets, the table alone."""
    from . import page

    page.show()
