"""The `ironlaw` command: finds the command's module, runs it, and words its errors."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from . import __version__
from .errors import IronlawError

COMMANDS = {
    "lab": "open the course in JupyterLab, working on a copy",
    "calibrate": "measure this device into a profile",
    "train": "train GPT-2 on real text; resumable",
    "predict": "FLOPs, memory and time of a step, before it runs",
    "plan": "the largest batch that fits, or the cheapest way to make one fit",
    "measure": "FLOPs, memory and time of a step, as it really runs",
    "record": "every measurement of this device, as small JSON files",
    "compare": "a step of GPT-2: predicted, measured, and the difference",
    "figures": "the document's numbers, computed",
    "selfcheck": "the question bank and your state in it",
    "doctor": "what works here, and how to mend the rest",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (2 for an input that is refused)."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="ironlaw", description=__doc__.split(":")[0] + ".")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:])
        # Only the command that runs is imported: torch and matplotlib stay unloaded otherwise.
        if words[:1] == [name]:
            module = importlib.import_module(f".commands.{name}", __package__)
            module.add_flags(sub)
            sub.set_defaults(run=module.run)
    args = parser.parse_args(words)
    try:
        return int(args.run(args))
    except IronlawError as problem:
        print(f"ironlaw {args.command}: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nironlaw {args.command}: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
