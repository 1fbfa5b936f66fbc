"""All that one submission changes in the gradebook, in one connection and one transaction.

nbgrader opens its gradebook anew in each step and commits after each cell. A grader killed in
between would leave half a submission, and the opening takes longer than the writing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import nbgrader.converters.autograde
import nbgrader.preprocessors.getgrades
import nbgrader.preprocessors.latesubmissions
import nbgrader.preprocessors.saveautogrades
from nbgrader.api import Gradebook

# The modules of nbgrader that open the gradebook while one notebook is graded or shown.
_USERS = (nbgrader.converters.autograde, nbgrader.preprocessors.getgrades,
          nbgrader.preprocessors.latesubmissions, nbgrader.preprocessors.saveautogrades)


class Transaction(Gradebook):
    """A gradebook whose users commit in vain and close in vain until `keep` and `end`."""

    def __init__(self, url: str, course: str) -> None:
        super().__init__(url, course)
        self._commit = self.db.commit
        self.db.commit = self._pass_on

    def keep(self) -> None:
        """Commit what was written since the last time."""
        self._commit()

    def end(self) -> None:
        """Close the connection; what was not kept is undone."""
        self.db.rollback()
        super().close()

    def close(self) -> None:
        """Stay open: nbgrader closes after each step."""

    def _pass_on(self) -> None:
        # Later queries see what was written, and everything is read afresh, as after a commit.
        self.db.flush()
        self.db.expire_all()


@contextmanager
def transaction(url: str, course: str) -> Iterator[Transaction]:
    """One gradebook for everything that nbgrader does inside the `with` statement."""
    book = Transaction(url, course)

    def opened(*ignored: Any, **ignored_too: Any) -> Transaction:
        return book

    with ExitStack() as stack:
        stack.callback(book.end)
        for module in _USERS:
            stack.enter_context(mock.patch.object(module, "Gradebook", opened))
        yield book
