"""`ironlaw-autograder sandbox`: make a sandbox as grading does, and say whether it works."""

from __future__ import annotations

import argparse
import json

from ..judge import sandbox


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print {works, reason, next_step}")


def run(args: argparse.Namespace) -> int:
    reason = sandbox.problem()
    if args.json:
        print(json.dumps({"works": reason is None, "reason": reason or "",
                          "next_step": sandbox.next_step(reason) if reason else ""}))
        return 0 if reason is None else 2
    sandbox.require()
    print("The sandbox works: student code can run in isolation here.")
    return 0
