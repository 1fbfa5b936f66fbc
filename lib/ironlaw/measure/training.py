"""A training run on the device that is here, with its MFU.

`ironlaw.gpt2.train` trains and knows no peak. Here the device is found, the fast and
exact form of FP32 products is chosen, and FLOPs (counted on `meta`) are set against the
peak, as for a single step.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

from ..gpt2.settings import TrainSettings
from ..gpt2.train import Progress, Trainer
from ..results import DeviceProfile, TrainingResult
from . import flops, matmul
from ._torch import torch
from .device import Device, find
from .step import dtypes_used, peak_for


def train(
    settings: TrainSettings,
    out: str | Path,
    *,
    resume: bool = False,
    device: str | Device | None = None,
    threads: int | None = None,
    profile: DeviceProfile | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda line: None,
) -> TrainingResult:
    """Train as `settings` say in folder `out`; `device` as in `device.find`.

    The MFU takes the median speed after warm-up; where no peak is known it is None with
    the reason. See `ironlaw.gpt2.train.Trainer` for resuming and for the errors.
    """
    here = find(device)
    with exact_float32_products(here.torch_device) as mode:
        trainer = Trainer(settings, Path(out), resume=resume, device=here.torch_device,
                          threads=threads, say=say)
        saved = trainer.run(on_progress)
        result = trainer.result(saved)
        dtypes = dtypes_used(settings.run.precision, here.torch_device)
    # Described again: resuming may have changed the number of threads.
    here = find(here.torch_device)
    peak, reason = peak_for(here, profile, dtypes)
    mfu = None
    if peak is not None:
        per_token = flops.count(settings.run).per_token
        mfu = per_token * result.tokens_per_second / peak.flops_per_second
        if mfu > 1.0:
            reason, mfu = (f"{mfu:.2f} of {peak.source} is impossible: the machine was busier "
                           "when that peak was measured. Run `ironlaw calibrate` again."), None
    reasons = {name: why for name, why in result.reasons.items() if name != "mfu"}
    return dataclasses.replace(
        result, device=here.name, peak=peak, mfu=mfu,
        reasons={**reasons, **({"mfu": reason} if mfu is None else {})},
        notes={**result.notes, "float32_matmul": mode})


@contextlib.contextmanager
def exact_float32_products(device: torch.device) -> Iterator[str]:
    """The faster library for FP32 products on a CPU, if it is as exact; yields its name.

    PyTorch's precision "medium" sends them to oneDNN, which is often quicker. On some
    processors it then rounds to BF16: a probe decides, and "highest" stays in that case.
    Nothing is changed on an accelerator, where "fp32" shall mean FP32.
    """
    if device.type != "cpu":
        yield torch.get_float32_matmul_precision()
        return
    with matmul.float32_mode("medium"):
        mode = "medium" if matmul.float32_is_exact(device) else "highest"
    with matmul.float32_mode(mode):
        yield mode
