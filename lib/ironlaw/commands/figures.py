"""`ironlaw figures`: the document's numbers, computed."""

from __future__ import annotations

import argparse
import json

from .. import document


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print [{id, value, unit}]")
    parser.add_argument("--section", type=int, choices=range(1, 9),
                        help="only this section of the document")


def run(args: argparse.Namespace) -> int:
    chosen = [p for p in document.printed().values()
              if p.id in document.ROWS and args.section in (None, p.section)]
    wrong = [p.id for p in chosen if not document.agrees(p.id)]
    if args.json:
        rows = [{"id": p.id, "value": document.value(p.id), "unit": p.unit} for p in chosen]
        print(json.dumps(rows, indent=1))
    else:
        _table(chosen)
        if wrong:
            print("\nThese differ from the document's reference values:", ", ".join(wrong))
    return 1 if wrong else 0


def _table(chosen: list[document.Printed]) -> None:
    section = 0
    for p in sorted(chosen, key=lambda p: p.section):
        if p.section != section:
            section = p.section
            print(f"\nSection {section}")
            print(f"  {'id':<16} {'computed':>14} {'unit':<10} {'document':>14}  quantity")
        mark = " " if document.agrees(p.id) else "!"
        print(f"{mark} {p.id:<16} {document.value(p.id):>14.6g} {p.unit:<10} "
              f"{p.shown:>14}  {p.quantity}")
