"""What a notebook to hand in says of an answer: how it will be read, never if it is right."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import checks, forms, loader, variants

if TYPE_CHECKING:
    from ..lab.student import Student


def readable(id: str) -> Callable[[Student], None]:
    """A check for `ironlaw.lab.check`: fails when the answer to `id` cannot be read.

    An answer that is still missing, or a number that no figures lead to, is only mentioned,
    so that a notebook can be run from top to bottom; nbgrader's Validate, which looks for
    such things, gets it as a failure.
    """

    def as_a_reader(student: Student) -> None:
        said, amiss = _number(student, id) if id in variants.load() else _question(student, id)
        if amiss and os.environ.get("NBGRADER_EXECUTION") == "validate":
            student.fail(f"{id}: {said}")
        student.say(f"{id}: {said}")

    return as_a_reader


def _question(student: Student, id: str) -> tuple[str, bool]:
    item = loader.load()[id]
    answer = student.value(forms.variable(item))
    state = checks.check(item, answer).state
    said = checks.read_back(item, answer)
    if state == "unreadable":
        student.fail(f"{id}: {said}")
    return said, state == "blank"


def _number(student: Student, id: str) -> tuple[str, bool]:
    answer = student.value(variants.variable(id))
    if answer is None:
        return f"No answer yet. Give a number, in {variants.load()[id].unit}.", True
    found = student.number(id, answer)
    return variants.read_back(id, found), bool(variants.impossible(found))
