"""The plain table of totals: one row per student, for a spreadsheet or any other program."""

from __future__ import annotations

from .cells import table
from .filling import Wishes, settled
from .marks import Book, Student


def scores_csv(book: Book, wishes: Wishes) -> str:
    """CSV text; `score` is empty where the total is not final, unless `wishes.partial`.

    Marks given by hand count. `late penalty` is already taken off the score.
    """
    header = ["student", "score", "maximum", "late penalty", "state",
              *(question.name for question in book.questions)]
    rows = []
    for student in book.students:
        marks = [student.marks[q.name].points if q.name in student.marks else None
                 for q in book.questions]
        rows.append([student.id, settled(student, wishes), book.maximum, student.penalty,
                     state(student), *marks])
    return table(header, rows)


def state(student: Student) -> str:
    """Where a student's total stands, in a few words."""
    if not student.handed_in:
        return "handed in nothing"
    if not student.marks or (student.problem and not student.final):
        return "not judged: waits for a person"
    if student.waiting:
        return "waits for a person"
    return "final, but the notebook could not be read" if student.problem else "final"
