"""Predicted against measured step time, with the prediction's evidence taken in between.

    python lib/benchmarks/step_time.py [--json] [--models nano,gpt2-124m] [--rounds 5]

Four batch-sequence shapes per model are judged. Each round calibrates as `ironlaw calibrate`
does, then takes one turn of steps of every shape and of two more, the anchors: what slows
the machine in one round slows the prediction's evidence and the steps alike. Four predictions
are compared:

- line: alpha + beta x tokens through the two anchors, as `ironlaw compare` draws it;
- sum: every operation at its roofline and its launch, added up, from the calibration alone;
- eta: FLOPs / (peak x eta), with the eta that the larger anchor reached;
- floor: FLOPs / peak, which no step can beat and which says how much eta has to explain.

The aim for the line is 20 %. This reports; it has no threshold to fail.
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
from ironlaw.results import DeviceProfile
from ironlaw.results_systems import StepOperations
from ironlaw.units import duration, percent, si

AIM = 0.2
# Two batches of one length carry the line and the eta; others are judged, half of them at
# another length.
ANCHORS = {"nano": ((2, 256), (8, 256)), "gpt2-124m": ((1, 64), (4, 64))}
JUDGED = {"nano": ((4, 256), (6, 256), (8, 128), (12, 128)),
          "gpt2-124m": ((2, 64), (3, 64), (1, 128), (2, 128))}
STEPS, WARMUP, CALIBRATION_SECONDS = 3, 1, 2.0
PREDICTIONS = ("line", "sum", "eta", "floor")


@dataclass(frozen=True)
class Shape:
    """One judged shape of one model: its median step and what was predicted, in seconds.

    `line` is None where the anchors were so noisy that the larger was the quicker.
    """

    model: str
    batch: int
    seq: int
    measured: float
    line: float | None
    sum: float
    eta: float
    floor: float

    def errors(self) -> dict[str, float | None]:
        """(predicted - measured) / measured, by prediction."""
        found = {name: getattr(self, name) for name in PREDICTIONS}
        return {name: None if value is None else value / self.measured - 1.0
                for name, value in found.items()}


@dataclass(frozen=True)
class Evidence:
    """Medians over the rounds: steps in seconds by (batch, seq), profiles one a round."""

    seconds: dict[tuple[int, int], float]
    profiles: list[DeviceProfile]

    @property
    def peak(self) -> float:
        """FLOP/s: the median, where a ceiling would take the best, so that it is of the
        same time as the steps."""
        return statistics.median(p.matmul["fp32"].flops_per_second for p in self.profiles)

    def by_operations(self, operations: StepOperations) -> float:
        """The sum over all operations, as the median round's calibration has it."""
        return statistics.median(step_time.from_operations(operations, profile, "fp32")
                                 for profile in self.profiles)


def predictions(config: RunConfig, evidence: Evidence, anchors: tuple[tuple[int, int], ...],
                judged: tuple[tuple[int, int], ...],
                operations: dict[tuple[int, int], StepOperations]) -> list[Shape]:
    """Every judged shape of `config`'s model with its predictions."""
    def floor(shape: tuple[int, int]) -> float:
        work = flops.per_token(config.shape, shape[1]) * shape[0] * shape[1]
        return step_time.from_peak(work, evidence.peak)

    small, large = anchors
    eta = floor(large) / evidence.seconds[large]
    try:
        line = step_time.through(small[0] * small[1], evidence.seconds[small],
                                 large[0] * large[1], evidence.seconds[large])
    except IronlawError:  # so noisy that the larger step was the quicker one
        line = None
    return [Shape(config.model, *shape, evidence.seconds[shape],
                  None if line is None else line.seconds(shape[0] * shape[1]),
                  evidence.by_operations(operations[shape]), floor(shape) / eta, floor(shape))
            for shape in judged]


def measure(config: RunConfig, shapes: list[tuple[int, int]], rounds: int) -> Evidence:
    """Calibrate and step in turns, `rounds` times."""
    from ironlaw.measure.calibration import calibrate
    from ironlaw.measure.step import measure_steps

    configs = [config.replace(batch=batch, seq=seq) for batch, seq in shapes]
    samples: dict[tuple[int, int], list[float]] = {shape: [] for shape in shapes}
    profiles = []
    for _ in range(rounds):
        profiles.append(calibrate("cpu", ["fp32"], CALIBRATION_SECONDS))
        turn = measure_steps(configs, steps=STEPS, warmup=WARMUP, device="cpu")
        for shape, found in zip(shapes, turn, strict=True):
            samples[shape].extend(found.samples)
    return Evidence({shape: statistics.median(taken) for shape, taken in samples.items()},
                    profiles)


def table(found: list[Shape], peaks: dict[str, float]) -> str:
    """The results for people."""
    lines = ["predicted against measured; + is predicted too long",
             f"{'model':<10} {'batch x seq':>11} {'measured':>10} "
             + " ".join(f"{name:>8}" for name in PREDICTIONS)]
    for shape in found:
        errors = ["none" if error is None else f"{error:+.0%}"
                  for error in shape.errors().values()]
        lines.append(f"{shape.model:<10} {f'{shape.batch} x {shape.seq}':>11} "
                     f"{duration(shape.measured):>10} " + " ".join(f"{e:>8}" for e in errors))
    for name, (middle, worst, number) in in_all(found).items():
        lines.append(f"{name}: median |error| {percent(middle)}, largest {percent(worst)} over "
                     f"{number} shapes" + (f" (aim: {percent(AIM)})" if name == "line" else ""))
    lines += [f"peak beside {model}: {si(peak, 'FLOP/s')}" for model, peak in peaks.items()]
    return "\n".join(lines)


def in_all(found: list[Shape]) -> dict[str, tuple[float, float, int]]:
    """Median and largest |error| of each prediction, and over how many shapes."""
    result = {}
    for name in PREDICTIONS:
        errors = [abs(e) for shape in found if (e := shape.errors()[name]) is not None]
        if errors:
            result[name] = (statistics.median(errors), max(errors), len(errors))
    return result


def main(words: list[str] | None = None) -> int:
    """Measure, predict, report; the status says only that it ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default=",".join(JUDGED), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(words)
    try:
        models = [choice("models", name, JUDGED) for name in args.models.split(",")]
        count("rounds", args.rounds)
    except IronlawError as problem:
        parser.error(str(problem))
    from ironlaw.gpt2.runtime import prepare

    prepare()  # before torch is imported
    from ironlaw.commands._attention import quickest, quickest_rows
    from ironlaw.measure.operations import count_operations

    found: list[Shape] = []
    peaks: dict[str, float] = {}
    for model in models:
        config = RunConfig(model=model, attention=quickest("cpu"), loss_rows=quickest_rows("cpu"),
                           optimizer="adamw-fused")
        anchors, judged = ANCHORS[model], JUDGED[model]
        operations = {(b, s): count_operations(config.replace(batch=b, seq=s)) for b, s in judged}
        evidence = measure(config, [*anchors, *judged], args.rounds)
        peaks[model] = evidence.peak
        found += predictions(config, evidence, anchors, judged, operations)
    if args.json:
        rows: list[dict[str, Any]] = [{**asdict(s), "errors": s.errors()} for s in found]
        print(json.dumps({
            "shapes": rows, "peaks": peaks, "load": os.getloadavg()[0], "rounds": args.rounds,
            "aim": AIM, "median": {n: middle for n, (middle, _, _) in in_all(found).items()},
            "largest": {n: worst for n, (_, worst, _) in in_all(found).items()}}, indent=1))
    else:
        print(table(found, peaks))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
