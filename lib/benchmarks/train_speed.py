"""How fast a training step is beside other people's, in paired and interleaved rounds.

    python lib/benchmarks/train_speed.py [--json] [--rounds 9] [--models nano,gpt2-124m]
    python lib/benchmarks/train_speed.py --device cuda [--models gpt2-124m,gpt2-1558m]

Ours (as `ironlaw train` runs it, with --compile, and on a GPU with --pad-vocab, too) against an
eager step after nanoGPT's recipe and against `transformers`' GPT-2 in a default loop, on the same
shapes, in the same precision. Each competitor lives in a process of its own, with the settings
that its user would have. They run in pairs and by turns, A B A B, one at a time: whatever slows
the machine slows both. A ratio is taken within each round; the median over the rounds is reported,
above 1 when ours is faster. Beside the clock's ratio stands that of processor time, which does not
count the time in which other programs held the cores: on a busy machine it is the steadier one.
Memory is what a process held at most beyond what it held before the model was built; on a GPU,
what PyTorch allocated at most. On a GPU each of our rates also comes as a share of the data
sheet's dense peak: the MFU by PaLM's convention (model FLOPs, attention in full without a causal
half, padding not counted).

Threads that wait for each other sleep soon in all processes alike (GOMP_SPINCOUNT=1000): on a
busy machine spinning would slow down whoever does not set it, and the ratio would be about the
neighbours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from ironlaw.config import RunConfig
from ironlaw.errors import IronlawError, choice, count
from ironlaw.units import gibibytes, percent, significant

SIZES = {"nano": {"batch": 8}, "gpt2-124m": {"batch": 1, "seq": 256}}
CUDA_SIZES = {"nano": {"batch": 8}, "gpt2-124m": {"batch": 16}, "gpt2-1558m": {"batch": 4}}
"""On a GPU whole contexts; of the largest model two steps must fit side by side."""
STEPS = {"nano": 5, "gpt2-124m": 2, "gpt2-1558m": 2}
CUDA_STEPS = {"nano": 50, "gpt2-124m": 20, "gpt2-1558m": 5}
"""Steps of one turn."""
RIVALS = ("nanogpt_style", "transformers")
TARGETS = {"nano_vs_nanogpt_style": 1.0, "nano_compiled_vs_nanogpt_style": 1.1,
           "nano_vs_transformers": 1.25, "gpt2_124m_vs_nanogpt_style": 1.1,
           "gpt2_124m_vs_transformers": 1.25}
MFU_TARGETS = {"gpt2-124m": 0.50, "gpt2-1558m": 0.55}
"""What the quickest form should reach of a data-centre GPU's dense peak."""
WARMUP = 2


@dataclass(frozen=True)
class Pair:
    """Ours against one rival: (seconds, processor seconds) of each turn, peak bytes of each."""

    name: str
    tokens: int
    turns: tuple[list[tuple[float, float]], list[tuple[float, float]]]
    peaks: tuple[float, float]
    options: dict[str, dict[str, str]]
    mfu: float | None = None
    """Ours over the device's peak; None where it is not known or not asked for."""
    mfu_target: float | None = None
    mfu_reason: str = ""

    @property
    def ratios(self) -> list[float]:
        """Our rate over theirs, per round."""
        return [theirs[0] / ours[0] for ours, theirs in zip(*self.turns, strict=True)]

    @property
    def processor_ratios(self) -> list[float]:
        """Processor time that theirs took over that of ours, per round."""
        return [theirs[1] / ours[1] for ours, theirs in zip(*self.turns, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Everything, with medians and quartiles of the ratios."""
        low, middle, high = quartiles(self.ratios)
        return {"ratio": middle, "ratio_quartiles": [low, high], "rounds": len(self.ratios),
                "target": TARGETS.get(self.name), "options": self.options,
                "processor_time_ratio": statistics.median(self.processor_ratios),
                "tokens_per_second": [statistics.median(self.tokens / seconds
                                                        for seconds, _ in side)
                                      for side in self.turns],
                "turns": [list(side) for side in self.turns], "peak_bytes": list(self.peaks),
                "memory_ratio": self.peaks[0] / self.peaks[1], "mfu": self.mfu,
                "mfu_target": self.mfu_target, "mfu_reason": self.mfu_reason}


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """First quartile, median and third; one value stands for all three."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


class Competitor:
    """A process that builds one step and runs it on demand. Use as a context."""

    def __init__(self, rival: str, config: RunConfig, device: str, threads: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "GOMP_SPINCOUNT": "1000",
                       "TOKENIZERS_PARALLELISM": "false"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", rival, "--device", device,
             "--config", json.dumps(config.to_json())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.rival = rival
        self.options: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.options = self.ask("warm up")
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def turn(self, steps: int) -> tuple[float, float]:
        """Seconds, and seconds of processor time, that `steps` steps took."""
        took = self.ask(f"run {steps}")
        return float(took["seconds"]), float(took["processor"])

    def peak(self) -> float:
        """The most bytes it has held beyond what it held before the model."""
        return float(self.ask("peak")["bytes"])

    def ask(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.rival} ended during {command!r}, with status "
                               f"{self.process.wait()}; what it said stands above.")
        answer: dict[str, Any] = json.loads(line)
        return answer


def compete(name: str, mine: str, rival: str, config: RunConfig, *, rounds: int, device: str,
            threads: int, steps: int) -> Pair:
    """`rounds` rounds of `mine` and `rival` by turns, each of `steps` steps."""
    with (Competitor(mine, config, device, threads) as a,
          Competitor(rival, config, device, threads) as b):
        turns: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
        for _ in range(rounds):
            for side, found in zip((a, b), turns, strict=True):
                found.append(side.turn(steps))
        return Pair(name, steps * config.tokens_per_step, turns, (a.peak(), b.peak()),
                    {mine: a.options, rival: b.options})


def contests(models: list[str], device: str = "cpu") -> list[tuple[str, str, str, str]]:
    """(name of the ratio, model, ours, rival) in the order in which they are run."""
    on_gpu = device.startswith("cuda")
    found = []
    for model in models:
        short = model.replace("-", "_")
        found += [(f"{short}_vs_{rival}", model, "ours", rival) for rival in RIVALS]
        found.append((f"{short}_compiled_vs_nanogpt_style", model, "ours_compiled",
                      "nanogpt_style"))
        if on_gpu:
            found.append((f"{short}_fastest_vs_nanogpt_style", model, "ours_fastest",
                          "nanogpt_style"))
    return found


def with_mfu(pair: Pair, config: RunConfig, mine: str, device: str) -> Pair:
    """`pair` with the MFU of our median rate on a GPU, or why there is none.

    The peak is the data sheet's for the format of the products, else the one that was
    calibrated here. Only the quickest form has an aim.
    """
    from ironlaw import workspace
    from ironlaw.measure import flops
    from ironlaw.measure.device import find
    from ironlaw.measure.step import dtypes_used, peak_for, share_of_peak

    here = find(device)
    peak, why = peak_for(here, workspace.profile(),
                         dtypes_used(config.precision, here.torch_device))
    rate = statistics.median(pair.tokens / seconds for seconds, _ in pair.turns[0])
    mfu, why = share_of_peak(flops.count(config).per_token * rate, peak, why)
    target = MFU_TARGETS.get(config.model) if mine == "ours_fastest" else None
    return replace(pair, mfu=mfu, mfu_target=target, mfu_reason=why)


def worker(rival: str, config: RunConfig, device: str) -> None:
    """Obey commands from stdin; each answer is one line of JSON."""
    if rival.startswith("ours"):
        from ironlaw.gpt2.runtime import keep_freed_memory

        keep_freed_memory()  # before torch is imported, as `ironlaw train` does
    import torch
    from ironlaw.measure import timing
    from speed_rivals import RIVALS as BUILDERS

    where = torch.device(device)
    before = resident_bytes()
    call, options = BUILDERS[rival](config, device)
    about = {"precision": config.precision, "threads": str(torch.get_num_threads())}
    for line in sys.stdin:
        command, _, number = line.strip().partition(" ")
        answer: dict[str, Any] = {}
        if command == "peak":
            answer = {"bytes": torch.cuda.max_memory_allocated(where) if where.type == "cuda"
                      else peak_resident_bytes() - before}
        else:
            began, spent = time.perf_counter(), time.process_time()
            for _ in range(int(number) if command == "run" else WARMUP):
                call()
            timing.synchronise(where)
            answer = {**about, **options}
            if command == "run":
                answer = {"seconds": time.perf_counter() - began,
                          "processor": time.process_time() - spent}
        print(json.dumps(answer), flush=True)


def resident_bytes() -> float:
    """Bytes of this process in memory now."""
    import psutil

    return float(psutil.Process().memory_info().rss)


def peak_resident_bytes() -> float:
    """The most bytes of this process that were ever in memory."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def show(pair: Pair) -> None:
    """Two lines of results and the options, for people."""
    values = pair.to_json()
    low, high = values["ratio_quartiles"]
    target = f", aim {values['target']:.2f}" if values["target"] else ""
    print(f"{pair.name}: {values['ratio']:.2f} (quartiles {low:.2f} to {high:.2f}, "
          f"{values['rounds']} rounds{target}); processor time "
          f"{values['processor_time_ratio']:.2f}")
    if pair.mfu is not None:
        aim = f", aim {percent(pair.mfu_target)}" if pair.mfu_target else ""
        print(f"  MFU of ours {percent(pair.mfu)}{aim}")
    elif pair.mfu_reason:
        print(f"  MFU of ours unknown: {pair.mfu_reason}")
    for (rival, options), rate, peak in zip(
            pair.options.items(), values["tokens_per_second"], pair.peaks, strict=True):
        print(f"  {rival:<14} {significant(rate)} tokens/s, {gibibytes(peak)}; "
              + ", ".join(f"{name} {value}" for name, value in options.items()))


def main(words: list[str] | None = None) -> int:
    """Run the contests; 0 also when a ratio misses its aim, which the output says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--models", help="by commas (default: all that suit the device): "
        + ", ".join(CUDA_SIZES) + "; the last on a GPU only")
    add("--rounds", type=int, default=9, help="turns of each side (default: 9)")
    add("--steps", type=int, help="steps of one turn (default: by the model and the device)")
    add("--only", default="", help="run only the ratios whose name contains this")
    add("--precision", choices=("fp32", "amp-bf16"),
        help="default: fp32 on a CPU, amp-bf16 on a GPU")
    add("--threads", type=int, default=min(2, os.cpu_count() or 1))
    add("--device", default="cpu", help="cpu or cuda")
    add("--batch", type=int, help="sequences (default: by the model and the device)")
    add("--seq", type=int, help="tokens in a sequence (default: the context; 256 for gpt2-124m "
        "on a CPU)")
    add("--json", action="store_true", help="print one JSON object")
    add("--worker", help=argparse.SUPPRESS)
    add("--config", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    try:
        if args.worker:
            worker(args.worker, RunConfig.from_json(json.loads(args.config)), args.device)
            return 0
        on_gpu = args.device.startswith("cuda")
        defaults, turns = (CUDA_SIZES, CUDA_STEPS) if on_gpu else (SIZES, STEPS)
        models = [choice("models", name, defaults)
                  for name in (args.models.split(",") if args.models else defaults)]
        precision = args.precision or ("amp-bf16" if on_gpu else "fp32")
        count("rounds", args.rounds)
        sizes = {name: getattr(args, name) for name in ("batch", "seq") if getattr(args, name)}
        configs = {model: RunConfig(model=model, precision=precision,
                                    **{**defaults[model], **sizes}) for model in models}
    except IronlawError as problem:
        parser.error(str(problem))
    pairs = []
    for name, model, mine, rival in contests(models, args.device):
        if args.only in name:
            pairs.append(compete(name, mine, rival, configs[model], rounds=args.rounds,
                                 device=args.device, threads=args.threads,
                                 steps=args.steps or turns[model]))
            if on_gpu:
                pairs[-1] = with_mfu(pairs[-1], configs[model], mine, args.device)
            if not args.json:
                show(pairs[-1])
    if args.json:
        def each(what: str) -> dict[str, float]:
            return {pair.name: pair.to_json()[what] for pair in pairs}

        print(json.dumps({"ratios": each("ratio"), "memory_ratios": each("memory_ratio"),
                          "processor_time_ratios": each("processor_time_ratio"),
                          "device": args.device, "load": os.getloadavg()[0],
                          "configs": {m: c.to_json() for m, c in configs.items()},
                          "pairs": {p.name: p.to_json() for p in pairs}}, indent=1))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    raise SystemExit(main())
