"""The `ironlaw-autograder` command: finds the command's module, runs it, words its errors."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from ironlaw.cli import finish

from . import __version__

COMMANDS = {
    "build": "derive the notebooks of chapters and labs from their sources",
    "check": "fail on derived files that are stale or give something away",
    "release": "write a tree for students, without solutions and autograder",
    "grade": "grade a folder of submissions in isolation",
    "mark": "mark written answers by hand, those that are alike together",
    "feedback": "write the students' pages afresh, marks given by hand included",
    "export": "totals for Canvas, Moodle or a spreadsheet, and a report on the class",
    "simulate": "grade a synthetic class whose grades are known",
    "sandbox": "say whether student code can run in isolation here",
    "key": "print one student's figures and right answers",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (2 for an input that is refused)."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="ironlaw-autograder",
        description="Build the course's notebooks and grade what students hand in.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:])
        if words[:1] == [name]:  # nbgrader takes seconds to import: only the command that runs
            _skip_grammar()
            module = importlib.import_module(f".commands.{name}", __package__)
            module.add_flags(sub)
            sub.set_defaults(run=module.run)
    args = parser.parse_args(words)
    try:
        return finish("ironlaw-autograder", args)
    except Exception as problem:
        raised = sys.modules.get("sqlalchemy.exc")  # a command without a gradebook has not got it
        if raised is None or not isinstance(problem, raised.OperationalError):
            raise
        print(f"ironlaw-autograder {args.command}: the gradebook cannot be read or written: "
              f"{problem.orig}. Make room, or see that you may write there and that the server "
              "runs; then run the same command again.", file=sys.stderr)
        return 2


def _skip_grammar() -> None:
    """Spare a second at the start: jsonschema, when imported, builds a parser for the syntax of
    web addresses if it finds one, and checking a notebook against its schema never asks for it.
    """
    if not {"jsonschema", "rfc3987_syntax"} & sys.modules.keys():
        sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # "not found"
        try:
            importlib.import_module("jsonschema")
        finally:
            del sys.modules["rfc3987_syntax"]


if __name__ == "__main__":
    raise SystemExit(main())
