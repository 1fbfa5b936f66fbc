"""`ironlaw-autograder release DIR`: a tree for students, without solutions and autograder."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import check, release
from .. import course as courses
from ..build import labs, variant_cells
from .build import derived


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="a new or empty folder for the student tree")
    parser.add_argument("--salt", metavar="WORD", help="a word of this class's own, from which "
                        "its students' figures are drawn: last year's answers do not fit then. "
                        "Students can see it")
    parser.add_argument("--root", type=Path, help="the course's checkout (default: around here)")


def run(args: argparse.Namespace) -> int:
    where = courses.find(args.root)
    if args.salt is not None:
        variant_cells.valid(args.salt)
    found = check.course(where, derived(where), labs.labs(where))
    salted = {} if args.salt is None else release.salted(where, args.salt)
    if found:
        print("Nothing was released; `ironlaw-autograder check` finds:")
        for finding in found:
            print(f"  {finding}")
        return 1
    count = release.write(where, args.folder, salted)
    print(f"{count} files in {args.folder}, ready for students")
    if args.salt is not None:
        print(f"figures drawn from the salt {args.salt!r}: grade with --salt {args.salt}")
    return 0
