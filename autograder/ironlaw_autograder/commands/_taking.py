"""The flags that say how a class's work is taken in."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..intake import roster
from ..intake.late import Dates
from ..intake.settle import ATTEMPTS
from ..intake.taking import Taking


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--roster", type=Path, metavar="FILE", help="the class list, a CSV file "
                        "of your own or as Canvas or Moodle export it")
    parser.add_argument("--attempt", choices=ATTEMPTS, default="last",
                        help="which of several attempts counts (default: last)")
    parser.add_argument("--due", metavar="TIME", help="when the lab was due, with its zone, such "
                        "as 2026-10-01T23:59+02:00; none takes back that of the last time")
    parser.add_argument("--extensions", type=Path, metavar="FILE",
                        help="a CSV file with the columns id and due")
    parser.add_argument("--late", metavar="COST", help="what each day late that has begun costs: "
                        "points (2), or per cent of the lab's points (10%%)")
    parser.add_argument("--file-times", action="store_true", help="take the times of the files, "
                        "or in an archive, for the times of handing in")
    parser.add_argument("--salt", metavar="WORD", help="the word that this class was given by "
                        "`release --salt`")


def taking(args: argparse.Namespace, out: Path) -> Taking:
    """What the flags say, and for class list and dates what they said the last time.

    Grading again after a corrected test must not change who is who, nor who was late, because
    a flag was forgotten. A file is read here, so that a slip in it is told at once.
    """
    kept = out / roster.FILE
    file = args.roster or (kept if kept.is_file() else None)
    if args.due is None and args.extensions is None and args.late is None:
        dates = Dates.remembered(out)
    else:
        dates = Dates.read(args.due if args.due != "none" else None, args.extensions, args.late)
    # Platforms write the times of their own place, and so do people: the one of the due date.
    zone = dates.due.tzinfo if dates.due else None
    found = roster.read(file, zone) if file else None
    return Taking(found, args.attempt, args.file_times, dates)
