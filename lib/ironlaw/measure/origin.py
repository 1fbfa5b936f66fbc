"""What every recording says about itself, and small helpers that several instruments share."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

from torch.autograd.graph import saved_tensors_hooks

from ..errors import UnavailableError
from ..results_instruments import Timing
from . import calibration, timing
from ._torch import torch
from .device import Device


def origin(here: Device) -> dict[str, Any]:
    """The fields of `results_instruments.Measured`: device, software, and the time now."""
    return {
        "device": here.name, "device_type": here.type, "threads": here.threads,
        **software(here)}


def software(here: Device | None = None) -> dict[str, Any]:
    """The software and the time now, for a result that names its device itself or has none."""
    return {"versions": calibration.versions(here),
            "measured_on": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}


def timed(name: str, samples: list[float]) -> Timing:
    """`samples` under `name`, with their median and interquartile range."""
    took = timing.spread(samples)
    return Timing(name=name, samples=samples, seconds=took.median,
                  spread_seconds=took.interquartile)


def refusal(problem: Exception) -> str:
    """Why PyTorch would not run something, in one line."""
    if isinstance(problem, UnavailableError):
        return str(problem)
    text = str(problem).strip() or type(problem).__name__
    return f"PyTorch refused: {text.splitlines()[0]}"


def saved_bytes(call: Callable[[], Any], without: Iterable[torch.Tensor] = ()) -> float:
    """Bytes that `call` leaves for a backward pass: each storage once, `without` left out."""
    left_out = {id(t.untyped_storage()) for t in without}
    seen: dict[int, Any] = {}  # keeps each storage alive, so that no id is given away again

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if id(storage) not in left_out:
            seen[id(storage)] = storage
        return tensor

    with saved_tensors_hooks(keep, lambda kept: kept):
        result = call()
    total = float(sum(storage.nbytes() for storage in seen.values()))
    del result
    return total


def relative_error(found: Iterable[torch.Tensor], wanted: Iterable[torch.Tensor]) -> float:
    """Largest absolute difference over the largest absolute value of `wanted`."""
    worst = largest = 0.0
    for ours, theirs in zip(found, wanted, strict=True):
        exact = theirs.detach().cpu().double()
        worst = max(worst, float((ours.detach().cpu().double() - exact).abs().max()))
        largest = max(largest, float(exact.abs().max()))
    return worst / largest if largest else worst
