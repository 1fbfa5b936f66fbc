"""`ironlaw-autograder export OUT`: grades for a learning platform, and a report on the class."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ironlaw.errors import InputError
from ironlaw.units import counted

from ..build import notebook
from ..exports import canvas, items, marks, moodle, pictures, report, scores
from ..exports.filling import Filled, Wishes, settled
from ..intake import roster as rosters

_SHOWN = 20


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Tables are UTF-8 with a byte-order mark. Ids such as 007 keep their zeros in the file; a "
        "spreadsheet shows them only when it imports that column as text. An apostrophe before "
        "= + - @ keeps a cell from running as a formula.")
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder that `grade` wrote")
    parser.add_argument("--canvas", type=Path, metavar="TEMPLATE.csv",
                        help="fill in the gradebook that Canvas exported")
    parser.add_argument("--column", metavar="NAME",
                        help="Canvas: the assignment's column, by heading, title or id")
    parser.add_argument("--moodle", type=Path, metavar="WORKSHEET.csv",
                        help="fill in the grading worksheet that Moodle gave out")
    parser.add_argument("--roster", type=Path, metavar="ROSTER.csv",
                        help="the class list, with the ids by which the platform knows each "
                        "student (default: the one that `grade` was given)")
    parser.add_argument("--partial", action="store_true",
                        help="hand on totals that still wait for a person, as they stand")
    parser.add_argument("--scale", action="store_true",
                        help="convert totals to the platform's maximum where it differs")
    parser.add_argument("--absent-zero", action="store_true",
                        help="0 for students who handed in nothing (default: left empty)")
    parser.add_argument("--ignore-case", action="store_true",
                        help="ids agree apart from capital letters")
    parser.add_argument("--names", action="store_true",
                        help="name students in report.html too (default: nobody)")
    parser.add_argument("--to", type=Path, metavar="FOLDER",
                        help="where the files go (default: OUT/exports)")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def run(args: argparse.Namespace) -> int:
    if args.column is not None and args.canvas is None:
        raise InputError("column", args.column, "given together with --canvas TEMPLATE.csv",
                         "Leave it out, or name Canvas's export with --canvas.")
    wishes = Wishes(args.partial, args.scale, args.absent_zero, args.ignore_case)
    book = marks.read(args.out)
    kept = args.out / rosters.FILE  # what `grade` was told about the class
    file = args.roster or (kept if kept.is_file() else None)
    ids = rosters.read(file).ids() if file is not None else {}
    to = args.to or args.out / "exports"
    # Everything is made before anything is written: a template that is refused leaves no
    # half of an export behind.
    found = items.analyse(book)
    texts = {"scores.csv": scores.scores_csv(book, wishes), "items.csv": report.items_csv(found),
             "report.html": report.page(book, found, names=args.names)}
    filled: dict[str, Filled] = {}
    if args.canvas is not None:
        texts["canvas.csv"], filled["canvas"] = canvas.fill(book, args.canvas, wishes,
                                                            column=args.column, roster=ids)
    if args.moodle is not None:
        texts["moodle.csv"], filled["moodle"] = moodle.fill(book, args.moodle, wishes, roster=ids)
    templates = {path.resolve() for path in (args.canvas, args.moodle) if path is not None}
    for name in texts:
        if (to / name).resolve() in templates:
            raise InputError("to", str(to), "a folder that does not hold the template itself",
                             f"{name} would overwrite it: move the template, or name another "
                             "folder.")
    for name, text in texts.items():
        notebook.write_if_changed(to / name, text)
    for platform, done in filled.items():
        done.file = str(to / f"{platform}.csv")
    if args.json:
        print(json.dumps(_as_json(book, wishes, found, filled, to, list(texts)), indent=1,
                         ensure_ascii=False))
    else:
        _tell(book, wishes, found, filled, to)
    return 0


def _as_json(book: marks.Book, wishes: Wishes, found: list[items.Item],
             filled: dict[str, Filled], to: Path, names: list[str]) -> dict[str, Any]:
    totals = pictures.distribution(book)
    return {
        "lab": book.lab, "maximum": book.maximum,
        "files": {name: str(to / name) for name in names},
        "nameless": list(book.nameless),
        "students": [{"student": s.id, "score": settled(s, wishes), "so_far": s.total,
                      "late_penalty": s.penalty, "state": scores.state(s),
                      "waiting": list(s.waiting)} for s in book.students],
        "distribution": {"n": len(totals.settled) + len(totals.so_far),
                         "waiting": len(totals.so_far), "mean": totals.mean,
                         "quartiles": totals.quartiles},
        "items": [item.to_json() for item in found],
        **{platform: done.to_json() for platform, done in filled.items()},
    }


def _tell(book: marks.Book, wishes: Wishes, found: list[items.Item], filled: dict[str, Filled],
          to: Path) -> None:
    final = sum(1 for student in book.students if student.final and student.handed_in)
    print(f"{book.lab}: {counted(len(book.students), 'student')}, {final} with a final total")
    states = [(s.id, scores.state(s)) for s in book.students if not s.final]
    _list("not final yet" + (", handed on as they stand" if wishes.partial else ", left empty"),
          [f"{name}: {said}" for name, said in states if said != "handed in nothing"])
    _list("0 points, for the notebook could not be read",
          [f"{s.id}: {s.problem}" for s in book.students
           if s.final and s.problem and s.handed_in])
    _list("handed in nothing" + (", 0 points" if wishes.absent_zero else ", left empty"),
          [s.id for s in book.students if not s.handed_in])
    _list("files of which nobody knows whose they are: no grade", list(book.nameless))
    _list("look at", [f"{item.question.title}: {'; '.join(item.flags)}"
                      for item in found if item.flags])
    for platform, done in filled.items():
        print(f"\n{platform}: {counted(done.filled, 'grade')} in the column {done.column}, "
              f"{len(done.changed)} of them in place of another one")
        _list("another grade stood there", done.changed)
        _list("left as they were", [f"{name}: {why}" for name, why in done.kept.items()])
        _list("in the file, no grade here: left as they were", done.empty)
        _list("in the file, waits for a person: left as they were", done.waiting)
        _list("graded, not in the file",
              [name + (f" (the file has {done.nearly[name]}: --ignore-case)"
                       if name in done.nearly else "") for name in done.not_in_file])
        _list("not clear whose row it is: left out",
              [f"{name}: {why}" for name, why in done.unclear.items()])
    print(f"\ntotals    {to / 'scores.csv'}\nquestions {to / 'items.csv'}\n"
          f"report    {to / 'report.html'}")
    for platform, done in filled.items():
        print(f"{platform:<10}{done.file}")


def _list(heading: str, lines: list[str]) -> None:
    if not lines:
        return
    print(f"  {heading} ({len(lines)}):")
    for line in lines[:_SHOWN]:
        print(f"    {line}")
    if len(lines) > _SHOWN:
        print(f"    ... and {len(lines) - _SHOWN} more (all of them: --json)")
