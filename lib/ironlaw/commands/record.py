"""`ironlaw record`: the course's measurements on this device, as small JSON files."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from .. import results, workspace
from ..results_systems import RecordingIndex


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ironlaw record`."""
    parser.add_argument("--minutes", type=float, default=8.0,
                        help="about how long it may take (default: 8)")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="the folder that gets a folder named after the device "
                             "(default: the learner's own)")
    parser.add_argument("--only", metavar="NAMES", help="instruments to run, by commas "
                        "(default: all; a wrong name lists them)")
    parser.add_argument("--again", action="store_true", help="measure what is fresh, too")
    parser.add_argument("--device", help="cpu, cuda, cuda:N or mps (default: the best there is)")
    parser.add_argument("--show", action="store_true",
                        help="print each instrument's result as a table, too")
    parser.add_argument("--json", action="store_true", help="print the index as JSON")


def run(args: argparse.Namespace) -> int:
    """Record and print what came of it; the status is 1 when nothing could be recorded."""
    from ..gpt2.runtime import prepare

    prepare()  # has an effect only before torch comes in
    from ..measure.record import record

    began = time.perf_counter()

    def say(line: str) -> None:
        print(f"[{time.perf_counter() - began:5.1f} s] {line}", file=sys.stderr, flush=True)

    out = args.out or workspace.home() / "recordings"
    only = [name.strip() for name in args.only.split(",")] if args.only else None
    index = record(out, minutes=args.minutes, only=only, again=args.again, device=args.device,
                   say=say)
    if args.json:
        print(json.dumps(index.to_json(), indent=1))
    else:
        _print(index, out)
        if args.show:
            _show(index, out, only)
    return 0 if index.instruments else 1


def _print(index: RecordingIndex, out: Path) -> None:
    print(f"{index.name}: {index.device} ({index.device_type}), {index.threads} CPU threads")
    for name, entry in index.instruments.items():
        print(f"  {name:<22}{entry.kind:<20}{entry.seconds:>7.1f} s")
    for name, why in index.reasons.items():
        print(f"  {name:<22}not recorded: {why}")
    for text in index.notes.values():
        print(f"\n{text}")
    print(f"\nSaved to {out / index.name}.")


def _show(index: RecordingIndex, out: Path, only: list[str] | None) -> None:
    for name, entry in index.instruments.items():
        if only is None or name in only:
            held = results.load((out / index.name / entry.file).read_text(encoding="utf-8"))
            print(f"\n{name}\n{held}")
