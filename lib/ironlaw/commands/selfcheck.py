"""`ironlaw selfcheck`: the question bank, and what is answered so far."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..errors import choice
from ..selfcheck import loader, record, table
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
    if args.json:
        print(json.dumps([_as_json(item) for item in bank], indent=1, ensure_ascii=False))
        return 0
    print(f"{'id':<5} {'kind':<11} {'min':>3} {'points':>6}  {'state':<13} topic")
    for item in bank:
        print(f"{item.id:<5} {item.kind:<11} {item.minutes:>3} {item.points:>6}  "
              f"{record.state(item):<13} {item.topic}")
    print(f"\n{table.ProgressTable()!r}")
    return 0


def _as_json(item: Item) -> dict[str, Any]:
    stored = record.entry(item)
    return {
        "id": item.id, "kind": item.kind, "source": item.source, "section": item.section,
        "topic": item.topic, "objective": item.objective, "difficulty": item.difficulty,
        "minutes": item.minutes, "points": item.points, "state": record.state(item),
        "points_share": float(stored.get("points_share", 0.0)),
        "tries": int(stored.get("tries", 0)),
    }
