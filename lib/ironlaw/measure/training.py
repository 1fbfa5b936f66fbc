"""A training run on the device that is here, with its MFU.

`ironlaw.gpt2.train` trains and knows no peak. Here the device is found, the fast and
exact form of FP32 products is chosen, and FLOPs (counted on `meta`) are set against the
peak, as for a single step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from ..gpt2.settings import TrainSettings
from ..gpt2.train import Progress, Trainer
from ..results import DeviceProfile, TrainingResult
from . import flops, matmul
from .device import Device, find
from .step import dtypes_used, peak_for, share_of_peak


def train(
    settings: TrainSettings,
    out: str | Path,
    *,
    resume: bool = False,
    device: str | Device | None = None,
    threads: int | None = None,
    loader_workers: int = 0,
    profile: DeviceProfile | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda line: None,
) -> TrainingResult:
    """Train as `settings` say in folder `out`; `device` as in `device.find`.

    The MFU takes the median speed after warm-up; where no peak is known it is None with
    the reason. See `ironlaw.gpt2.train.Trainer` for resuming and for the errors.
    """
    here = find(device)
    with matmul.exact_float32_products(here.torch_device) as mode:
        trainer = Trainer(settings, Path(out), resume=resume, device=here.torch_device,
                          threads=threads, loader_workers=loader_workers, say=say)
        saved = trainer.run(on_progress)
        result = trainer.result(saved)
        dtypes = dtypes_used(settings.run.precision, here.torch_device)
    # Described again: resuming may have changed the number of threads.
    here = find(here.torch_device)
    peak, reason = peak_for(here, profile, dtypes)
    achieved = flops.count(settings.run).per_token * result.tokens_per_second
    mfu, reason = share_of_peak(achieved, peak, reason)
    reasons = {name: why for name, why in result.reasons.items() if name != "mfu"}
    return dataclasses.replace(
        result, device=here.name, peak=peak, mfu=mfu,
        reasons={**reasons, **({"mfu": reason} if mfu is None else {})},
        notes={**result.notes, "float32_matmul": mode})
