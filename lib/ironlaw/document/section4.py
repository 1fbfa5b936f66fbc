"""Section 4: model FLOP utilisation and a starved accelerator."""

from __future__ import annotations

from ..predict import iron_law, pipeline
from .common import A100_BF16, B7, PERCENT
from .rows import Row, by_id

_MFU = {"parameters": B7, "tokens": 1024, "seconds": 1.2, "peak_flops_per_second": A100_BF16}

ROWS = by_id(
    Row("def14.mfu", iron_law.mfu, {**_MFU}, PERCENT),
    Row("def14.rest", iron_law.uncredited_share, {**_MFU}, PERCENT),
    Row("ex12.gil", pipeline.serial_utilisation,
        {"compute_seconds": 0.012, "waiting_seconds": 0.250}, PERCENT),
)

AUDIT = by_id(
    Row("audit.ex12.over", pipeline.overlapped_utilisation,
        {"compute_seconds": 0.012, "preparation_seconds": 0.250}, PERCENT),
)
