"""`ironlaw-autograder mark OUT`: mark written answers, those that are alike together."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ironlaw.errors import InputError, choice

from ..marking import groups, words
from ..marking.book import Answer, Book, Question
from ..marking.groups import Group


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, help="the folder that `grade` filled")
    parser.add_argument("--question", metavar="NAME", help="the written question (default: the "
                        "only one, or a list of them)")
    parser.add_argument("--lab", help="the lab (default: the only one in the gradebook)")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--group", type=int, metavar="N", help="the group to show or to mark")
    who.add_argument("--student", action="append", metavar="ID",
                     help="a student to mark alone; repeat it for more")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--points", type=float, help="the points to give; mark again to change them")
    what.add_argument("--clear", action="store_true", help="take the mark back: it waits again")
    parser.add_argument("--comment", help="a comment for the student, in Markdown; '' removes it")
    parser.add_argument("--overwrite", action="store_true",
                        help="with --group: also change marks that a person gave to one student")
    parser.add_argument("--all", action="store_true", help="show every group in full")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(args: argparse.Namespace) -> int:
    book = Book(args.out, args.lab)
    questions = book.questions()
    if not questions:
        raise InputError("lab", book.lab, "a lab with written answers",
                         "This one has none: there is nothing to mark by hand.")
    if args.question is None and len(questions) > 1:
        return _list(book, questions, args)
    name = args.question if args.question is not None else next(iter(questions))
    question = questions[choice("question", name, questions)]
    answers = book.answers(question.name)
    found = groups.groups(answers)
    if args.points is None and not args.clear:
        _refuse_alone(args)
        return _show(book, question, answers, found, args)
    return _give(book, question, answers, found, args)


def _list(book: Book, questions: dict[str, Question], args: argparse.Namespace) -> int:
    if args.points is not None or args.clear or args.group is not None or args.student:
        raise InputError("question", None, "one of " + ", ".join(map(repr, questions)))
    waiting = book.waiting()
    if args.json:
        print(json.dumps({"lab": book.lab, "questions": [
            {"question": q.name, "title": q.title, "points": q.points,
             "waiting": waiting[q.name]}
            for q in questions.values()]}, indent=1))
        return 0
    print(f"{book.lab}: written questions")
    for question in questions.values():
        print(f"  {question.name:<12} {question.points:>3g} points  {waiting[question.name]:>4} "
              f"wait  {question.title}")
    print("\nName one with --question.")
    return 0


def _show(book: Book, question: Question, answers: Sequence[Answer],
          found: Sequence[Group[Answer]], args: argparse.Namespace) -> int:
    pairs = groups.alike(found)
    book.listed(question.name, answers)
    if args.group is not None:
        found = [_numbered(found, args.group)]
    elif args.student:
        raise InputError("points", None, "points to give to the student",
                         "Without points only a --group or the whole question can be shown.")
    if args.json:
        print(json.dumps(words.as_json(question, book.lab, found, pairs), indent=1,
                         ensure_ascii=False))
    elif args.group is not None:
        print(words.one(found[0]))
    else:
        print(words.overview(question, book.lab, found, pairs, args.all))
        print(f"To mark a group: ironlaw-autograder mark {args.out} --question {question.name} "
              '--group N --points P --comment "..."')
    return 0


def _give(book: Book, question: Question, answers: Sequence[Answer],
          found: Sequence[Group[Answer]], args: argparse.Namespace) -> int:
    points = None if args.clear else _points(args.points, question)
    if args.group is not None:
        if args.group == 0:
            raise InputError("group", 0, "a group of answers that a person marks",
                             "Untouched answers are scored 0; --student marks one all the same.")
        chosen = _as_told(book, question, answers, found, args.group)
    elif args.student:
        known = {answer.student: answer for answer in answers}
        chosen = [known[choice("student", name, known)] for name in args.student]
    else:
        raise InputError("group", None, "a group, or students",
                         "Name whom to mark with --group N or --student ID.")
    given = book.give(question.name, chosen, points, args.comment,
                      group=args.group is not None, overwrite=args.overwrite)
    waiting = book.waiting()
    if args.json:
        told: dict[str, Any] = {"lab": book.lab, "question": question.name, "points": points,
                                "marked": given.marked, "kept": given.kept, "waiting": waiting}
        print(json.dumps(told, indent=1, ensure_ascii=False))
        return 0
    print(words.done(question, given, points, waiting))
    print(f"When you are done: ironlaw-autograder feedback {args.out} writes the students' pages "
          "afresh, `export` the tables to hand on; grades.csv follows when you `grade` again.")
    return 0


def _as_told(book: Book, question: Question, answers: Sequence[Answer],
             found: Sequence[Group[Answer]], number: int) -> list[Answer]:
    """The members of the group that was shown under this number, and of no other."""
    as_listed = book.still_as_listed(question.name, answers)
    if not as_listed:
        raise InputError(
            "group", number, "a number that has been shown for these answers",
            ("The answers have changed since the groups were shown" if as_listed is False
             else "The groups have not been shown yet") + ": look at them first, with the same "
            "command without --group and --points.")
    return _numbered(found, number).members


def _numbered(found: Sequence[Group[Answer]], number: int) -> Group[Answer]:
    by_number = {str(group.number): group for group in found}
    return by_number[choice("group", str(number), by_number)]


def _points(points: float, question: Question) -> float:
    if not (math.isfinite(points) and 0 <= points <= question.points):
        raise InputError("points", points, f"0 to {question.points:g}")
    return float(points)


def _refuse_alone(args: argparse.Namespace) -> None:
    for flag in ("comment", "overwrite"):
        if getattr(args, flag):
            raise InputError(flag, getattr(args, flag), "given together with --points")
