"""How well predicted peaks agree with PyTorch's MemTracker, over many configurations.

    python lib/benchmarks/memory_agreement.py --out memory.jsonl [--models nano,gpt2-124m]
    python lib/benchmarks/memory_agreement.py --out memory.jsonl --report

The truth comes from fake tensors: shapes without contents, on a CPU, in seconds. One
line of JSON per configuration is appended as it is found, and a configuration that is
already in the file is not tracked again: stop and go on as you like.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ironlaw.config import RunConfig
from ironlaw.predict import peak
from ironlaw.units import memory

BATCH = {"nano": 8, "gpt2-124m": 8, "gpt2-350m": 4, "gpt2-774m": 4, "gpt2-1558m": 2}


def configurations(models: list[str]) -> Iterator[RunConfig]:
    """Model x precision x attention x recompute x accumulate x loss x optimizer, small first."""
    # Named kernels only: plain "adamw" means another implementation on a CPU.
    axes = (("fp32", "amp-bf16", "amp-fp16", "pure-bf16"), ("flash", "materialised"),
            ("none", "every-block", "every-2"), (1, 4), (0, 512),
            ("adamw-foreach", "adamw-fused", "sgd"))
    for model in models:
        for precision, attention, recompute, accumulate, rows, rule in itertools.product(*axes):
            yield RunConfig(model=model, batch=BATCH[model], precision=precision,
                            attention=attention, recompute=recompute, accumulate=accumulate,
                            loss_rows=rows, optimizer=rule)


def tracked_peak(config: RunConfig) -> float:
    """Peak bytes of a settled step (the second) of `config`, by MemTracker on fake tensors."""
    import torch
    from ironlaw.gpt2 import optimizers, precision, step
    from ironlaw.gpt2.model import GPT
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    formats = precision.of(config.precision, "cpu")
    with FakeTensorMode(allow_non_fake_inputs=True):
        # Built in their format at once: fake parameters cannot be converted afterwards.
        torch.set_default_dtype(formats.parameter_dtype)
        try:
            model = GPT(config.shape, attention=config.attention, recompute=config.recompute,
                        loss_rows=config.loss_rows)
        finally:
            torch.set_default_dtype(torch.float32)
        rule = optimizers.make(model, config.optimizer, 1e-3)
        run = step.TrainingStep(model, rule, formats, config.accumulate)
        size, vocab = (config.batch, config.sequence), config.shape.vocab
        batches = [(torch.randint(vocab, size), torch.randint(vocab, size))
                   for _ in range(config.accumulate)]
        tracker = MemTracker()
        tracker.track_external(model, rule)
        plain = model.loss

        def loss(tokens: Any, targets: Any) -> Any:
            tracker.reset_mod_stats()  # it follows one forward pass at a time
            return plain(tokens, targets)

        model.loss = loss  # type: ignore[method-assign]  # the tracker needs the hook
        # One micro-batch suffices to bring the moments about; the second step is the real one.
        first = step.TrainingStep(model, rule, formats, 1)
        with tracker:
            for one, given in ((first, batches[:1]), (run, batches)):
                one.backward(given)
                # `update` would ask a float16 scaler for a value, which fake tensors lack.
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                rule.step()
                rule.zero_grad(set_to_none=True)
    return float(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])


def measure(config: RunConfig) -> dict[str, Any]:
    """One line of the results: truth, prediction and the rules of thumb, in bytes."""
    begin = time.perf_counter()
    truth = tracked_peak(config)
    found = peak.step_memory(config)
    return {"config": config.to_json(), "tracked": truth, "predicted": found.peak,
            "moment": found.moment, "estimates": peak.common_estimates(config),
            "seconds": time.perf_counter() - begin}


def done(file: Path) -> list[dict[str, Any]]:
    """The lines of the file that are whole; a line cut off by a stop is measured again."""
    found = []
    for line in file.read_text("utf-8").splitlines() if file.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            print(f"skipping a line that is not whole: {line[:60]}...", file=sys.stderr)
    return found


def error(line: dict[str, Any]) -> float:
    """Relative error of the prediction, computed afresh so that old lines stay useful."""
    return peak.step_memory(RunConfig.from_json(line["config"])).peak / line["tracked"] - 1.0


def report(lines: list[dict[str, Any]]) -> int:
    """Print the agreement by model; the exit status is 1 beyond one percent."""
    if not lines:
        print("Nothing measured yet.")
        return 1
    print(f"{'model':<12} {'configurations':>15} {'median |error|':>15} {'largest |error|':>16}")
    worst = 0.0
    for model in dict.fromkeys(line["config"]["model"] for line in lines):
        errors = [abs(error(line)) for line in lines if line["config"]["model"] == model]
        worst = max(worst, *errors)
        print(f"{model:<12} {len(errors):>15} {statistics.median(errors):>14.4%} "
              f"{max(errors):>15.4%}")
    bad = [line for line in lines if abs(error(line)) > 0.01]
    for line in bad:
        print(f"  {error(line):+.2%}", memory(line["tracked"]), line["config"])
    moments = dict.fromkeys(line["moment"] for line in lines)
    print("fullest moments seen:", ", ".join(moments))
    print(f"{len(lines)} configurations, largest error {worst:.3%}; "
          f"{len(bad)} beyond one percent")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="file of results, JSON lines")
    parser.add_argument("--models", default=",".join(BATCH), help="presets, comma-separated")
    parser.add_argument("--every", type=int, default=1, help="take only every n-th configuration")
    parser.add_argument("--report", action="store_true", help="measure nothing; read the file")
    args = parser.parse_args()
    lines = done(args.out)
    if not args.report:
        known = {json.dumps(line["config"], sort_keys=True) for line in lines}
        wanted = list(configurations(args.models.split(",")))[::args.every]
        for number, config in enumerate(wanted, start=1):
            if json.dumps(config.to_json(), sort_keys=True) in known:
                continue
            line = measure(config)
            lines.append(line)
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{number}/{len(wanted)} {error(line):+.3%} {memory(line['tracked'])} "
                  f"{line['seconds']:.1f} s  {config.model} {config.precision} "
                  f"{config.attention} {config.recompute} x{config.accumulate} "
                  f"rows {config.loss_rows} {config.optimizer}", flush=True)
    return report(lines)


if __name__ == "__main__":
    raise SystemExit(main())
