"""How far well-known rules of thumb for training memory are off, beside this course's.

    python lib/benchmarks/memory_agreement.py --out memory.jsonl
    python lib/benchmarks/predictors.py --truth memory.jsonl [--json]

Reads the tracked peaks that `memory_agreement` wrote and holds every estimate against
them: the median and the worst ratio of estimate to truth, per model.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from ironlaw.config import RunConfig
from ironlaw.predict import peak
from memory_agreement import done

OURS = "ironlaw predict"


def ratios(lines: list[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Estimate over truth, by estimate and model."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        config = RunConfig.from_json(line["config"])
        said = {OURS: peak.step_memory(config).peak, **peak.common_estimates(config)}
        for name, size in said.items():
            found.setdefault(name, {}).setdefault(config.model, []).append(
                size / line["tracked"])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--truth", type=Path, required=True, help="results of memory_agreement")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    lines = done(args.truth)
    if not lines:
        parser.error(f"{args.truth} holds no results: run memory_agreement.py first")
    found = ratios(lines)
    summary = {name: {model: {"median": statistics.median(r), "least": min(r), "most": max(r),
                              "configurations": len(r)} for model, r in models.items()}
               for name, models in found.items()}
    if args.json:
        print(json.dumps(summary, indent=1))
        return 0
    print("estimate / tracked peak (1.00 is right)")
    print(f"{'estimate':<24} {'model':<12} {'median':>8} {'least':>8} {'most':>8} {'of':>5}")
    for name, models in summary.items():
        for model, r in models.items():
            print(f"{name:<24} {model:<12} {r['median']:>8.3f} {r['least']:>8.3f} "
                  f"{r['most']:>8.3f} {r['configurations']:>5}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
