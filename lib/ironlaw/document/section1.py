"""Section 1: the iron law, what training costs, the lighthouse."""

from __future__ import annotations

from ..predict import cost, flops, iron_law, memory, scaling
from ..units import GB
from .common import B7, B15, MIXED, PERCENT, adam, weights
from .rows import From, Row, by_id

ROWS = by_id(
    Row("intro.ratio", cost.cost_ratio, {"dear": 100e6, "cheap": 50e3}),
    Row("gpt2.tokens", iron_law.tokens_for_budget,
        {"operations": 1.5e21, "forward_flops_per_token": 3e9, "backward_over_forward": 2.0}),
    Row("gpt2.O", iron_law.training_flops, {"parameters": B15, "tokens": From("gpt2.tokens")}),
    Row("gpt3.O", iron_law.training_flops, {"parameters": 174.6e9, "tokens": 300e9}),
    Row("palm.chips", scaling.total_chips, {"pods": 2, "chips_per_pod": 3072}),
    Row("intro.w32", memory.parameter_bytes, weights(B15, 4), GB),
    Row("intro.adam", memory.moment_bytes, adam(B15), GB),
    Row("tab2.w16", memory.parameter_bytes, weights(B15, 2), GB),
    Row("def11.weights", memory.parameter_bytes, weights(B7, 2), GB),
    Row("def11.grads", memory.parameter_bytes, weights(B7, 2), GB),
    Row("def11.master", memory.parameter_bytes, weights(B7, 4), GB),
    Row("def11.adam", memory.moment_bytes, adam(B7), GB),
    Row("def11.total", memory.training_state_bytes, {"parameters": B7, **MIXED}, GB),
    Row("def11.ratio", memory.training_over_inference, {**MIXED}),
)

AUDIT = by_id(
    Row("audit.megatron", flops.mfu_from_hfu,
        {"hardware_utilisation": 0.52, "model_forwards": 3.0, "hardware_forwards": 4.0},
        PERCENT),
)
