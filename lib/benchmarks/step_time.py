"""Predicted against measured step time, with the prediction's evidence taken in between.

    python lib/benchmarks/step_time.py [--json] [--models nano,gpt2-124m] [--rounds 5]

Four batch-sequence shapes per model. Each round measures the peak of the matrix products as
`ironlaw calibrate` does, then one turn of steps of every shape: what slows the machine in one
round slows the prediction's evidence and the steps alike. Three predictions are compared:

- line: alpha + beta x tokens through the smallest and the largest batch of the same length,
  as `ironlaw compare` draws it (the shapes it goes through are not judged by it);
- eta: FLOPs / (peak x eta), with the eta that the largest batch of that length reached;
- floor: FLOPs / peak, which no step can beat and which says how much eta has to explain.

It reports; it has no threshold to fail.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from ironlaw.config import RunConfig
from ironlaw.errors import IronlawError, choice, count
from ironlaw.predict import flops, step_time
from ironlaw.units import duration, percent, si

# Three batches at one length, the outer two of which carry the line, and one at another.
SHAPES = {"nano": ((2, 256), (4, 256), (8, 256), (8, 128)),
          "gpt2-124m": ((1, 64), (2, 64), (4, 64), (2, 128))}
STEPS, WARMUP, CALIBRATION_SECONDS = 3, 1, 1.5


@dataclass(frozen=True)
class Shape:
    """One shape of one model: its median step and what was predicted, in seconds.

    A prediction is None where the shape itself was the evidence for it.
    """

    model: str
    batch: int
    seq: int
    measured: float
    line: float | None
    eta: float | None
    floor: float

    def errors(self) -> dict[str, float | None]:
        """(predicted - measured) / measured, by prediction."""
        return {name: None if value is None else value / self.measured - 1.0
                for name, value in (("line", self.line), ("eta", self.eta),
                                    ("floor", self.floor))}


def predictions(config: RunConfig, shapes: list[tuple[int, int]], measured: list[float],
                peak: float) -> list[Shape]:
    """All shapes of `config`'s model with their predictions; `peak` in FLOP/s.

    The first and the last shape of the most frequent length are the evidence.
    """
    work = [flops.per_token(config.shape, seq) * batch * seq for batch, seq in shapes]
    length = statistics.mode(seq for _, seq in shapes)
    alike = sorted((batch, place) for place, (batch, seq) in enumerate(shapes) if seq == length)
    small, large = alike[0][1], alike[-1][1]
    floors = [step_time.from_peak(flop, peak) for flop in work]
    eta = floors[large] / measured[large]
    try:
        line = step_time.through(shapes[small][0] * length, measured[small],
                                 shapes[large][0] * length, measured[large])
    except IronlawError:  # so noisy that the larger step was the quicker one
        line = None
    found = []
    for place, (batch, seq) in enumerate(shapes):
        by_line = (None if line is None or place in (small, large)
                   else line.seconds(batch * seq))
        found.append(Shape(config.model, batch, seq, measured[place], by_line,
                           None if place == large else floors[place] / eta, floors[place]))
    return found


def measure(config: RunConfig, shapes: list[tuple[int, int]], rounds: int
            ) -> tuple[list[float], float]:
    """Median seconds of a step per shape over `rounds` rounds, and the best peak in FLOP/s."""
    from ironlaw.measure.calibration import calibrate
    from ironlaw.measure.step import measure_steps

    configs = [config.replace(batch=batch, seq=seq) for batch, seq in shapes]
    samples: list[list[float]] = [[] for _ in shapes]
    peaks = []
    for _ in range(rounds):
        profile = calibrate("cpu", ["fp32"], CALIBRATION_SECONDS)
        peaks.append(profile.matmul["fp32"].flops_per_second)
        turn = measure_steps(configs, steps=STEPS, warmup=WARMUP, device="cpu")
        for kept, found in zip(samples, turn, strict=True):
            kept.extend(found.samples)
    # The median, where a ceiling would take the best: it shall be of the same time as the steps.
    return [statistics.median(kept) for kept in samples], statistics.median(peaks)


def table(found: list[Shape], peaks: dict[str, float]) -> str:
    """The results for people."""
    lines = ["predicted against measured; + is predicted too long, evidence is not judged",
             f"{'model':<10} {'batch x seq':>11} {'measured':>10} {'line':>10} {'eta':>10} "
             f"{'floor':>10}"]
    for shape in found:
        errors = ["evidence" if error is None else f"{error:+.0%}"
                  for error in shape.errors().values()]
        lines.append(f"{shape.model:<10} {f'{shape.batch} x {shape.seq}':>11} "
                     f"{duration(shape.measured):>10} " + " ".join(f"{e:>10}" for e in errors))
    lines += [f"{name}: largest |error| {percent(worst)} over {number} shapes"
              for name, (worst, number) in largest(found).items()]
    lines += [f"peak beside {model}: {si(peak, 'FLOP/s')}" for model, peak in peaks.items()]
    return "\n".join(lines)


def largest(found: list[Shape]) -> dict[str, tuple[float, int]]:
    """The largest |error| of each prediction, and over how many shapes."""
    result = {}
    for name in ("line", "eta", "floor"):
        errors = [abs(e) for shape in found if (e := shape.errors()[name]) is not None]
        if errors:
            result[name] = (max(errors), len(errors))
    return result


def main(words: list[str] | None = None) -> int:
    """Measure, predict, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default=",".join(SHAPES), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(words)
    try:
        models = [choice("models", name, SHAPES) for name in args.models.split(",")]
        count("rounds", args.rounds)
    except IronlawError as problem:
        parser.error(str(problem))
    from ironlaw.gpt2.runtime import prepare

    prepare()  # before torch is imported
    from ironlaw.commands._attention import quickest

    found: list[Shape] = []
    peaks: dict[str, float] = {}
    for model in models:
        config = RunConfig(model=model, attention=quickest("cpu"), optimizer="adamw-fused")
        shapes = list(SHAPES[model])
        measured, peaks[model] = measure(config, shapes, args.rounds)
        found += predictions(config, shapes, measured, peaks[model])
    if args.json:
        rows: list[dict[str, Any]] = [{**asdict(s), "errors": s.errors()} for s in found]
        print(json.dumps({"shapes": rows, "peaks": peaks, "load": os.getloadavg()[0],
                          "rounds": args.rounds,
                          "largest": {n: worst for n, (worst, _) in largest(found).items()}},
                         indent=1))
    else:
        print(table(found, peaks))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
