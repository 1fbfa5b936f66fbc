"""The instructor's page: how the class did, and which questions to look at. One file, no network.

It names nobody unless asked to, so that it can be passed on to a colleague.
"""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from . import pictures
from .cells import number, table
from .items import FEW, Item
from .marks import Book


def page(book: Book, items: Sequence[Item], *, names: bool = False) -> str:
    """The page as HTML; everything that a student could have written is escaped."""
    totals = pictures.distribution(book)
    judged = [student for student in book.students if student.judged]
    people = {"all": len(book.students), "judged": len(judged),
              "absent": sum(not student.handed_in for student in book.students)}
    people["failed"] = people["all"] - people["judged"] - people["absent"]
    environment = Environment(loader=PackageLoader(__package__, "."), autoescape=True,
                              undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("report.html.j2").render(
        book=book, items=items, totals=totals, people=people,
        who=_who(book) if names else [], few=len(judged) < FEW, few_limit=FEW,
        flagged=[item for item in items if item.flags], number=number, shown=_shown,
        percent=_percent, histogram=pictures.histogram(totals), shares=pictures.shares(items),
        shares_in_words=pictures.shares_in_words(items))


def items_csv(items: Sequence[Item]) -> str:
    """The item analysis as CSV text, a question a row."""
    header = ["question", "title", "points", "marked", "waiting", "mean", "difficulty",
              "discrimination", "chance", "upper minus lower", "group size", "left empty",
              "out of time", "commonest wrong value", "given by", "message", "not defined because",
              "look at"]
    return table(header, (
        [item.question.name, item.question.title, item.question.maximum, item.n, item.waiting,
         item.mean, item.difficulty, item.discrimination, item.chance, item.upper_lower,
         item.group, item.blank_share, item.timed_out, item.wrong, item.wrong_count, item.message,
         item.why, "; ".join(item.flags)] for item in items))


def _who(book: Book) -> list[tuple[str, list[str]]]:
    titles = {question.name: question.title for question in book.questions}
    waiting = [f"{s.id}: {', '.join(titles[name] for name in s.waiting)}"
               for s in book.students if s.judged and s.waiting]
    failed = [f"{s.id}: {s.problem or 'no marks'}" for s in book.students
              if s.handed_in and not s.judged]
    absent = [s.id for s in book.students if not s.handed_in]
    totals = [f"{s.id}: {number(s.total)}{'' if s.final else ' so far'}"
              + (f" (late: {number(s.penalty)} taken off)" if s.penalty else "")
              for s in book.students if s.judged]
    return [("Waits for a person", waiting), ("Could not be judged", failed),
            ("Handed in nothing", absent), ("Totals", totals)]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
