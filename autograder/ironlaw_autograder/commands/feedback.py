"""`ironlaw-autograder feedback OUT`: write the students' pages afresh, marks by hand included."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ironlaw.errors import InputError, choice

from .. import course as courses
from ..build import labs
from ..grading.adapter import Classroom, GradingError
from ..marking.book import Book


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, help="the folder that `grade` filled")
    parser.add_argument("--student", action="append", metavar="ID",
                        help="only this student's page; repeat it for more")
    parser.add_argument("--lab", help="the lab (default: the only one in the gradebook)")
    parser.add_argument("--root", type=Path, help="the course's checkout (default: around here)")
    parser.add_argument("--json", action="store_true", help="print {pages, problems} as JSON")


def run(args: argparse.Namespace) -> int:
    course = courses.find(args.root)
    book = Book(args.out, args.lab)
    known = {lab.name: lab for lab in labs.labs(course)}
    room = Classroom(book.out, course, known[choice("lab", book.lab, known)])
    graded = {path.parts[-3]: path for path in
              sorted((book.out / "autograded").glob(f"*/{book.lab}/{book.lab}.ipynb"))}
    if not graded:
        raise InputError("out", str(args.out), "a folder with graded notebooks in autograded/",
                         "Grade again: it puts back what is missing.")
    chosen = list(graded) if not args.student else [
        graded[choice("student", name, graded)].parts[-3] for name in args.student]
    pages: list[str] = []
    problems: dict[str, str] = {}
    for place, student in enumerate(chosen, start=1):
        try:
            pages.append(str(room.feedback(student)))
        except GradingError as problem:  # one page must never stop the others
            problems[student] = str(problem)
        if sys.stderr.isatty():
            print(f"\r{place}/{len(chosen)}", end="", file=sys.stderr, flush=True)
    if args.json:
        print(json.dumps({"pages": pages, "problems": problems}, indent=1, ensure_ascii=False))
    else:
        print(f"{len(pages)} pages in {book.out / 'feedback'}")
        for student, why in problems.items():
            print(f"no page for {student}: {why}", file=sys.stderr)
    return 1 if problems else 0
