"""Self-check questions: one bank, one set of checks, cards for the notebook.

    from ironlaw import selfcheck
    selfcheck.show("1.1")     # one card
    selfcheck.show("1")       # all cards of section 1
    selfcheck.progress()      # what is answered so far

Importing this package loads neither ipywidgets nor the bank; the first call does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checks import Verdict
    from .kinds import Item
    from .table import ProgressTable

__all__ = ["check", "item", "items", "progress", "read_back", "show"]


def show(what: str | int | float) -> None:
    """Show a question as a card ("2.3"), or all questions of a section ("2").

    Where ipywidgets is missing, or the page has no kernel, the question is shown to read.
    Raises `InputError` for an id that the bank does not hold.
    """
    from . import cards

    cards.show(items(what))


def progress() -> ProgressTable:
    """What is answered so far, one row per chapter; displays as a table."""
    from . import table

    return table.ProgressTable()


def check(id: str, answer: Any) -> Verdict:
    """Judge any object as the answer to question `id`; never raises for the answer's sake.

    Raises `InputError` for an id that the bank does not hold.
    """
    from . import checks

    return checks.check(item(id), answer)


def read_back(id: str, answer: Any) -> None:
    """Print how an answer will be read, without saying whether it is right."""
    from . import checks

    print(f"{id}: {checks.read_back(item(id), answer)}")


def item(id: str | float) -> Item:
    """The question called `id`, or `InputError` with the nearest id."""
    from ..errors import choice
    from . import loader

    bank = loader.load()
    return bank[choice("id", str(id), bank)]


def items(what: str | int | float) -> list[Item]:
    """The question with that id, or all questions of that section, in order."""
    from ..errors import InputError
    from . import loader

    bank = loader.load()
    name = str(what).strip()
    if name in bank:
        return [bank[name]]
    found = [i for i in bank.values() if str(i.section) == name]
    if not found:
        sections = sorted({i.section for i in bank.values()})
        raise InputError("what", what, f"a question such as {next(iter(bank))!r}, or a section "
                         f"({', '.join(map(str, sections))})",
                         "`ironlaw selfcheck` lists every question.")
    return found
