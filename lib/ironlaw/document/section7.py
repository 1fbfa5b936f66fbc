"""Sections 7 and 8: fallacies, pitfalls, takeaways."""

from __future__ import annotations

from ..predict import accumulation, memory, optimizers, ratios, scaling
from ..units import GB, MINUTE
from .common import B7, B20, MIXED, PERCENT, adam, weights
from .rows import From, Row, by_id

ROWS = by_id(
    Row("fal.20b", memory.training_state_bytes, {"parameters": B20, **MIXED}, GB),
    Row("fal.20b.w", memory.parameter_bytes, weights(B20, 2), GB),
    Row("fal.20b.g", memory.parameter_bytes, weights(B20, 2), GB),
    Row("fal.20b.master", memory.parameter_bytes, weights(B20, 4), GB),
    Row("fal.20b.adam", memory.moment_bytes, adam(B20), GB),
    Row("fal.speedlo", scaling.speedup_with_waiting, {"accelerators": 8, "waiting_share": 0.5}),
    Row("fal.speedhi", scaling.speedup_with_waiting, {"accelerators": 8, "waiting_share": 0.3}),
    Row("fal.lr", optimizers.linear_learning_rate,
        {"reference_rate": 0.1, "reference_batch": 512, "batch": 4096}),
    Row("fal.memx", accumulation.activation_reduction,
        {"effective_batch": 512, "micro_batch": 64}),
    Row("fal.bytes", memory.bytes_per_parameter, {**MIXED}),
    Row("fal.prefetch", ratios.saved_share,
        {"before": 105 * MINUTE, "after": 55 * MINUTE}, PERCENT),
    # Weights, gradients, moments and 6 P D are all linear in P.
    Row("sc7.ratio", ratios.ratio, {"value": B20, "baseline": B7}),
    Row("take.ckpt", ratios.ratio,
        {"value": From("nap13.act"), "baseline": From("nap16.actckpt")}),
)
