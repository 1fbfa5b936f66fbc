"""`ironlaw-autograder build`: text sources to notebooks."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import course as courses
from ..build import notebook

PARTS = ("chapters", "labs")


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, help="the course's checkout (default: around here)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--only", choices=PARTS, help="derive only this part")
    what.add_argument("--plain", type=Path, metavar="FOLDER",
                      help="derive nothing; write the labs' sources, solutions included, and "
                      "settings into FOLDER, for grading with nbgrader alone")


def run(args: argparse.Namespace) -> int:
    course = courses.find(args.root)
    if args.plain is not None:
        from ..build import labs  # nbgrader takes seconds to import

        for path in labs.write_plain(course, args.plain):
            print(f"wrote {path}")
        return 0
    made = derived(course, args.only)
    written = [path for path, content in made.items() if notebook.write_if_changed(path, content)]
    for path in written:
        print(f"wrote {path.relative_to(course.root)}")
    print(f"{len(made)} notebooks derived, {len(written)} changed")
    return 0


def derived(course: courses.Course, only: str | None = None) -> dict[Path, str]:
    """Every derived file and the text it must hold; `only` limits it to one part."""
    made: dict[Path, str] = {}
    if only in (None, "chapters"):
        from ..build import chapters

        made |= chapters.outputs(course)
    if only in (None, "labs"):
        from ..build import labs  # nbgrader takes seconds to import

        made |= labs.outputs(course)
    return made
