"""`ironlaw-autograder build`: text sources to notebooks."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import course as courses
from ..build import chapters, notebook

PARTS = ("chapters",)


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, help="the course's checkout (default: around here)")
    parser.add_argument("--only", choices=PARTS, help="derive only this part")


def run(args: argparse.Namespace) -> int:
    course = courses.find(args.root)
    made = chapters.outputs(course)
    written = [path for path, content in made.items() if notebook.write_if_changed(path, content)]
    for path in written:
        print(f"wrote {path.relative_to(course.root)}")
    print(f"{len(made)} notebooks derived, {len(written)} changed")
    return 0
