"""How long activation functions take as operations of their own, beside a plain copy.

The functions take turns, so that a disturbance hits all of them alike. Each writes into
a buffer that exists already: on a CPU, fresh memory for every result would cost more
than the function. Chapter 2 shows a recording made with this.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InputError, IronlawError, choice, count, number
from ..results import ActivationTimings
from . import host, timing
from ._torch import torch
from .device import DTYPES, Device, find
from .origin import origin

SHAPE = (8, 1024, 3072)
"""GPT-2 small's tensor between the feed-forward products, 8 sequences of 1,024 tokens."""


def measure_activations(
    shape: Sequence[int] = SHAPE,
    dtype: str = "fp32",
    device: str | Device | None = None,
    *,
    seconds: float = 30.0,
) -> ActivationTimings:
    """Time ReLU, sigmoid, tanh, both GELUs, softmax over the last axis, and a copy.

    `seconds` is about how long all of it may take. Values are standard normal, drawn
    with a fixed seed. Raises `InputError` for a shape or dtype that cannot be timed.
    """
    here = find(device)
    sizes = [count(f"shape[{i}]", n) for i, n in enumerate(shape)]
    if not sizes:
        raise InputError("shape", shape, "at least one size")
    budget = number("seconds", seconds, low=0.1, high=600.0, unit="s")
    format_ = DTYPES[choice("dtype", dtype, DTYPES)]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(sizes, generator=generator).to(device=here.torch_device, dtype=format_)
    calls = functions(x, torch.empty_like(x))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    share = timing.processor_share() if here.type == "cpu" else None
    rounds = 10
    with torch.inference_mode():
        for _ in range(rounds):
            for name, call in calls.items():
                samples[name] += timing.sample(
                    call, here.torch_device, seconds=budget / rounds / len(calls), least=1,
                    most=10)
    # Microseconds are finer than any clock's noise here, and make short recordings.
    samples = {name: [round(t, 6 if t > 1e-3 else 9) for t in times]
               for name, times in samples.items()}
    spreads = {name: timing.spread(times) for name, times in samples.items()}
    return ActivationTimings(
        **origin(here), dtype=dtype, shape=sizes, samples=samples,
        medians={name: s.median for name, s in spreads.items()},
        spreads={name: s.interquartile for name, s in spreads.items()},
        notes=host.circumstances(here.threads, share))


def functions(x: torch.Tensor, out: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Each function by name, as a call that reads `x` and writes `out`, both of one shape."""
    aten = torch.ops.aten
    return {
        "copy": lambda: out.copy_(x),
        "ReLU": lambda: aten.clamp_min.out(x, 0, out=out),  # what relu runs; its own copies
        "sigmoid": lambda: aten.sigmoid.out(x, out=out),
        "tanh": lambda: aten.tanh.out(x, out=out),
        "GELU": lambda: aten.gelu.out(x, approximate="none", out=out),
        "GELU, tanh form": lambda: aten.gelu.out(x, approximate="tanh", out=out),
        "softmax": lambda: aten._softmax.out(x, -1, False, out=out),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print one JSON object: `python -m ironlaw.measure.activations > FILE`.

    That is how the recordings of the course were made; a quiet machine gives better ones.
    """
    parser = argparse.ArgumentParser(description="Time activation functions on this device.")
    parser.add_argument("--shape", type=int, nargs="+", default=list(SHAPE), metavar="SIZE",
                        help="the tensor's sizes (8 1024 3072)")
    parser.add_argument("--dtype", default="fp32", choices=DTYPES, help="number format (fp32)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1 or mps (default: the best)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long (30)")
    options = parser.parse_args(arguments)
    try:
        run = measure_activations(options.shape, options.dtype, options.device,
                                  seconds=options.seconds)
    except IronlawError as problem:
        print(problem, file=sys.stderr)
        return 2
    print(json.dumps(run.to_json()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
