"""`ironlaw-autograder key`: one student's figures and right answers."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ironlaw.errors import choice
from ironlaw.selfcheck import variants
from ironlaw.selfcheck.text import to_plain

from .. import variants as answers


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--student", required=True, metavar="ID",
                        help="the student's id, as in the notebook or the gradebook")
    parser.add_argument("--chapter", metavar="N", help="only this chapter, such as 1")
    parser.add_argument("--salt", default=variants.SALT, metavar="WORD",
                        help="the salt that the class was given by `release --salt`")
    parser.add_argument("--json", action="store_true",
                        help="print [{id, student, prompt, given, answer, unit, tolerance, wrong}]")


def run(args: argparse.Namespace) -> int:
    problems = list(variants.load().values())
    if args.chapter is not None:
        choice("chapter", args.chapter, sorted({str(p.section) for p in problems}))
        problems = [p for p in problems if str(p.section) == args.chapter]
    drawn = [variants.variant(problem.id, args.student, args.salt) for problem in problems]
    if args.json:
        print(json.dumps([_as_json(each) for each in drawn], indent=1, ensure_ascii=False))
        return 0
    print(f"Key of {drawn[0].student}\n")
    for each in drawn:
        problem = each.problem
        print(f"{problem.id}  {answers.right(each):.6g} {problem.unit} ({problem.precision})")
        print(f"      {to_plain(each.prompt)}\n")
    return 0


def _as_json(each: variants.Variant) -> dict[str, Any]:
    problem, right = each.problem, answers.right(each)
    return {
        "id": problem.id, "student": each.student, "prompt": to_plain(each.prompt),
        "given": vars(each.given), "answer": right, "unit": problem.unit,
        "tolerance": problem.tolerance,
        "wrong": {slip.words: slip.value(each.given, right)
                  for slip in answers.ANSWERS[problem.id].slips},
    }
