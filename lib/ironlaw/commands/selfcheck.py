"""`ironlaw selfcheck`: questions, problems with figures of one's own, and what is answered."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..errors import choice
from ..selfcheck import loader, record, table, variants
from ..selfcheck.kinds import Item


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true",
                        help="print [{id, kind, source, section, state, ...}]")
    parser.add_argument("--section", help="only this section, such as 1")


def run(args: argparse.Namespace) -> int:
    bank = list(loader.load().values())
    if args.section is not None:
        choice("section", args.section, sorted({str(i.section) for i in bank}))
        bank = [i for i in bank if str(i.section) == args.section]
    own = [p for p in variants.load().values() if args.section in (None, str(p.section))]
    if args.json:
        rows = [*map(_as_json, bank), *map(_own_as_json, own)]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    print(f"{'id':<5} {'kind':<11} {'min':>3} {'points':>6}  {'state':<13} topic")
    for item in bank:
        print(f"{item.id:<5} {item.kind:<11} {item.minutes:>3} {item.points:>6}  "
              f"{record.state(item):<13} {item.topic}")
    if own:
        print("\nProblems with figures of your own, in the notebooks to hand in "
              "(labs/selfcheck_NN):")
        for problem in own:
            print(f"{problem.id:<5} {'number':<11} {problem.minutes:>3} {problem.points:>6}  "
                  f"{'':<13} {problem.topic}")
    print(f"\n{table.ProgressTable()!r}")
    return 0


def _as_json(item: Item) -> dict[str, Any]:
    stored = record.entry(item)
    return {
        "id": item.id, "kind": item.kind, "source": item.source, "section": item.section,
        "topic": item.topic, "objective": item.objective, "difficulty": item.difficulty,
        "minutes": item.minutes, "points": item.points, "state": record.state(item),
        "points_share": record.share_in(stored), "tries": record.tries_in(stored),
    }


def _own_as_json(problem: variants.Problem) -> dict[str, Any]:
    return {
        "id": problem.id, "kind": "number", "source": "variant", "section": problem.section,
        "topic": problem.topic, "unit": problem.unit, "tolerance": problem.tolerance,
        "minutes": problem.minutes, "points": problem.points,
        "state": None, "why_no_state": "It is graded in the notebook that you hand in.",
    }
