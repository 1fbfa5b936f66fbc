"""`ironlaw-autograder check`: fails on anything stale or leaked, naming file, cell and what."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import check
from .. import course as courses
from ..build import labs
from .build import derived


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, help="the course's checkout (default: around here)")


def run(args: argparse.Namespace) -> int:
    where = courses.find(args.root)
    wanted = derived(where)
    found = check.course(where, wanted, labs.labs(where))
    for finding in found:
        print(finding)
    if not found:
        print(f"{len(wanted)} derived notebooks are up to date, and nothing has leaked into labs/")
    return 1 if found else 0
