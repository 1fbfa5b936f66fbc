"""`ironlaw figures`: the document's numbers, computed."""

from __future__ import annotations

import argparse
import json

from .. import document


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print [{id, value, unit}]")
    parser.add_argument("--audit", action="store_true",
                        help="the figures where the document does not hold, and the right values")
    parser.add_argument("--section", type=int, choices=range(1, 9),
                        help="only this section of the document")


def run(args: argparse.Namespace) -> int:
    """Print the figures; the exit status is 1 when one differs from its reference."""
    figures = document.audited() if args.audit else document.printed()
    chosen = [f for f in figures.values() if args.section in (None, f.section)]
    wrong = [f.id for f in chosen
             if not (document.agrees(f.id) and document.rounds_as_printed(f.id))]
    if args.json:
        rows = [{"id": f.id, "value": document.value(f.id), "unit": f.unit} for f in chosen]
        print(json.dumps(rows, indent=1))
    else:
        _table(chosen, wrong, audit=args.audit)
    return 1 if wrong else 0


def _table(chosen: list[document.Printed], wrong: list[str], *, audit: bool) -> None:
    section = 0
    width = max((len(f.id) for f in chosen), default=2)
    shown = max((len(f.shown) for f in chosen), default=8)
    for f in sorted(chosen, key=lambda f: f.section):
        if f.section != section:
            section = f.section
            document_column = "" if audit else f"{'document':>{shown}}  "
            print(f"\nSection {section}\n  {'id':<{width}} {'computed':>13} {'unit':<14} "
                  f"{document_column}quantity")
        mark = "!" if f.id in wrong else " "
        where = f"{f.where}: " if audit else f"{f.shown:>{shown}}  "
        print(f"{mark} {f.id:<{width}} {document.value(f.id):>13.6g} {f.unit:<14} "
              f"{where}{f.quantity}")
    if wrong:
        print("\nThese differ from their reference values:", ", ".join(wrong))
    else:
        number = "1 figure" if len(chosen) == 1 else f"{len(chosen)} figures"
        print(f"\n{number} computed: equal to the reference value to one part in 10^9"
              + ("." if audit else ",\nand rounding to what the document prints."))
