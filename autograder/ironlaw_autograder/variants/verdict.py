"""Judges a numeric answer: against whose figures, within which tolerance, and what went wrong.

The figures are those of the id that owns the submission. Where the notebook was worked on
under another id, an answer that is right for those figures counts as well, and the
mismatch is named: a misspelt name must cost nobody points, and a copied notebook must not
go unseen.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

from ironlaw.lab.student import Student, StudentFault
from ironlaw.selfcheck import variants

from .registry import ANSWERS, right

_MISMATCH = "This notebook was worked on as"


def judge(student: Student, id: str, salt: str = variants.SALT) -> None:
    """Pass when the answer to problem `id` is right, else fail with the reason.

    `salt` is the word from which the class's figures are drawn.
    """
    problem = variants.load()[id]
    answer = student.value(variants.variable(id))
    if answer is None:
        student.fail(f"{id} has no answer yet.")
    found = student.number(id, answer)
    owner, claimed = owner_of(student), claimed_by(student)
    if not owner and not claimed:
        student.fail(f"{id} cannot be checked: the notebook does not say whose figures it shows. "
                     "STUDENT_ID is empty.")
    ids = list(dict.fromkeys(who for who in (owner, claimed) if who))
    for who in ids:
        if close(found, right(variants.variant(id, who, salt)), problem.tolerance):
            if owner and who != owner:
                student.say(_mismatch(claimed, owner))
                student.say(f"The answer is right for the figures of “{claimed}”.")
            return
    if owner and claimed and owner != claimed:
        student.say(_mismatch(claimed, owner))
        student.say("The answer fits the figures of neither.")
    if variants.impossible(found):
        student.fail(f"{found:.6g} {problem.unit} is not right. {variants.impossible(found)}",
                     got=found)
    # What the student saw is what was reckoned with.
    slip = slip_in(found, variants.variant(id, ids[-1], salt))
    student.fail(f"{found:.6g} {problem.unit} is not right." + (f" {slip}" if slip else ""),
                 got=found)


def mismatches(notes: Iterable[str]) -> list[str]:
    """The remarks among these notes that name a mismatch of ids, each once."""
    return sorted({note for note in notes if note.startswith(_MISMATCH)})


def _mismatch(claimed: str, owner: str) -> str:
    return f"{_MISMATCH} “{claimed}” and handed in by “{owner}”."


def close(found: float, wanted: float, tolerance: float) -> bool:
    """Whether two numbers agree; a tolerance of 0 asks for the exact number."""
    return math.isclose(found, wanted, rel_tol=tolerance or 1e-9)


def slip_in(found: float, variant: variants.Variant) -> str:
    """The mistake that leads to this number, in a sentence, or ''."""
    wanted = right(variant)
    for slip in ANSWERS[variant.problem.id].slips:
        if close(found, slip.value(variant.given, wanted), variant.problem.tolerance):
            return f"That is what comes out {slip.words}."
    return ""


def owner_of(student: Student) -> str:
    """The id that owns the submission, '' where nobody knows it.

    The judge is told; plain nbgrader runs a notebook in `autograded/STUDENT/LAB`.
    """
    told = variants.canonical(student.owner)
    here = Path.cwd()
    if not told and os.environ.get("NBGRADER_EXECUTION") == "autograde" \
            and here.parent.parent.name == "autograded":
        told = variants.canonical(here.parent.name)
    return told


def claimed_by(student: Student) -> str:
    """The id that the notebook itself states, '' when it states none that can be read."""
    try:
        return variants.canonical(student.value("STUDENT_ID"))
    except StudentFault:
        return ""
