"""`ironlaw-autograder simulate`: grade a synthetic class whose grades are known."""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import Any

from ironlaw.errors import InputError, count

from .. import course as courses
from ..grading.progress import Progress
from ..simulate.classroom import write
from ..simulate.report import class_of, simulate


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--students", type=int, default=12, help="members of the class (12)")
    parser.add_argument("--hostile", type=int, default=4, help="how many of them attack (4)")
    parser.add_argument("--lab", default="lab_01_iron_law", help="the lab that they hand in")
    parser.add_argument("--keep", type=Path, help="leave class, gradebook and feedback here")
    parser.add_argument("--write", type=Path, metavar="FOLDER",
                        help="only write the class here, one .ipynb per student")
    parser.add_argument("--workers", type=int, help="submissions judged at once (default: one "
                        "for each processor core)")
    parser.add_argument("--root", type=Path, help="the course's checkout (default: around here)")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(args: argparse.Namespace) -> int:
    if args.write:
        if args.write.exists() and (not args.write.is_dir() or any(args.write.iterdir())):
            raise InputError("write", str(args.write), "a new or empty folder",
                             "Name another one: this may hold a real class. Nothing was written.")
        found = class_of(courses.find(args.root), args.lab, args.students, args.hostile)
        write(args.write, found)
        print(f"{len(found)} submissions in {args.write}")
        return 0
    workers = None if args.workers is None else count("workers", args.workers)
    with contextlib.closing(Progress()) as progress:
        data = simulate(courses.find(args.root), args.lab, args.students, args.hostile, args.keep,
                        workers, progress)
    if args.json:
        print(json.dumps(data, indent=1))
    else:
        _table(data)
    return 0 if data["honest_grades_equal"] and data["as_expected"] else 1


def _table(data: dict[str, Any]) -> None:
    print(f"{data['lab']}: {data['students']} students, {data['hostile']} of them hostile\n")
    for row in data["results"]:
        mark = "  " if row["as_expected"] else "! "
        print(f"{mark}{row['student']:<16} {row['score']:>5g} of {row['expected']:<5g} "
              f"{row['seconds']:>5.1f} s  {row['deed']}")
    equal = "equal" if data["honest_grades_equal"] else "DIFFERENT"
    print(f"\nhonest grades with and without the hostile members: {equal}")
    print(f"{data['submissions_per_minute']:g} submissions per minute")
