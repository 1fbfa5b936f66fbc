"""The `ironlaw` command: finds the command's module, runs it, and words its errors."""

from __future__ import annotations

import argparse
import errno
import importlib
import sys
from collections.abc import Sequence

from . import __version__
from .errors import IronlawError

_DESCRIPTION = ("Predict what a training step of GPT-2 takes in FLOPs, memory and time, measure it "
                "on the device\nyou have, and explain the difference: the course's tools, "
                "one command each.")

COMMANDS = {
    "the course": {
        "lab": "open the course in JupyterLab, working on a copy",
        "selfcheck": "the question bank and your state in it",
        "figures": "the document's numbers, computed",
        "doctor": "what works here, and how to mend the rest",
    },
    "before a run": {
        "predict": "FLOPs, memory and time of a step, before it runs",
        "plan": "the largest batch that fits, or the cheapest way to make one fit",
    },
    "on this device": {
        "calibrate": "measure this device into a profile (first: MFU needs it)",
        "train": "train GPT-2 on real text; resumable",
        "measure": "FLOPs, memory and time of a step, as it really runs",
        "compare": "a step of GPT-2: predicted, measured, and the difference",
        "record": "every measurement of this device, as small JSON files",
    },
}
"""Name and summary of every command, in groups."""

# What a disk or its owner says, and what to do about it. Any other error of the system is a slip
# of this program, and its traceback is wanted.
_SPACE = "Free some space and run the same command again"
_RIGHTS = "Choose a place that you may read and write"
_DISK = {errno.ENOSPC: _SPACE, errno.EDQUOT: _SPACE, errno.EROFS: _RIGHTS, errno.EACCES: _RIGHTS,
         errno.EPERM: _RIGHTS, errno.ENOTDIR: "A file stands where a folder should: choose another "
         "place", errno.EISDIR: "A folder stands where a file should: choose another place"}

_EPILOG = "`ironlaw COMMAND --help` explains a command and its flags. Start with: ironlaw doctor"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (2 for an input that is refused)."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="ironlaw", description=f"{_DESCRIPTION}\n\n{_listing()}", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True,
                                     help="one of the commands above")
    for name, summary in (pair for group in COMMANDS.values() for pair in group.items()):
        # Without `help`, argparse leaves the names out of its own list: they stand in groups.
        sub = commands.add_parser(name, description=summary[0].upper() + summary[1:] + ".")
        # Only the command that runs is imported: torch and matplotlib stay unloaded otherwise.
        if words[:1] == [name]:
            module = importlib.import_module(f".commands.{name}", __package__)
            module.add_flags(sub)
            sub.set_defaults(run=module.run)
    if not words:
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(words)
    return finish("ironlaw", args)


def finish(program: str, args: argparse.Namespace) -> int:
    """Run the parsed command; its exit status, 2 for what it or a disk refuses, said in words."""
    try:
        return int(args.run(args))
    except IronlawError as problem:
        print(f"{program} {args.command}: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{program} {args.command}: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except OSError as problem:
        if problem.errno not in _DISK:
            raise
        where = f"{problem.filename}: " if problem.filename else ""
        print(f"{program} {args.command}: {where}{problem.strerror}. {_DISK[problem.errno]}.",
              file=sys.stderr)
        return 2


def _listing() -> str:
    """All commands with their summaries, group by group."""
    width = max(len(name) for group in COMMANDS.values() for name in group)
    return "\n\n".join("\n".join([f"{title}:", *(f"  {name:<{width}}  {summary}"
                                               for name, summary in group.items())])
                       for title, group in COMMANDS.items())


if __name__ == "__main__":
    raise SystemExit(main())
