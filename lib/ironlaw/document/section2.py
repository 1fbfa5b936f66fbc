"""Section 2: FLOPs of a layer, optimizers, activation memory, arithmetic intensity."""

from __future__ import annotations

from ..predict import (
    activations,
    attention,
    flops,
    iron_law,
    memory,
    optimizers,
    ratios,
    roofline,
)
from ..units import GB, GIGA, MB, PETA, TERA
from .common import (
    A100_BANDWIDTH,
    A100_BF16,
    B7,
    B15,
    FULL,
    GPT2_XL,
    MIXED,
    PERCENT,
    V100_FP16,
    adam,
    weights,
)
from .rows import From, Row, by_id

_BLOCK32 = {"batch": 32, **GPT2_XL}
_BLOCK4 = {"batch": 4, **GPT2_XL}
_HEADS32 = {"batch": 32, "heads": 25, "seq": 1024, "head_width": 64}
_STEP = {"operations": From("nap11.step"), "peak_flops_per_second": V100_FP16,
         "utilisation": 1.0}

ROWS = by_id(
    # Napkin math 1.1
    Row("nap11.qkv", flops.qkv_projection, {**_BLOCK32}, GIGA),
    Row("nap11.qk", flops.attention_scores, {**_HEADS32}, GIGA),
    Row("nap11.pair", flops.attention_products, {**_HEADS32}, GIGA),
    Row("nap11.proj", flops.output_projection, {**_BLOCK32}, GIGA),
    Row("nap11.ffn", flops.feed_forward, {**_BLOCK32, "expansion": 4}, GIGA),
    Row("nap11.layer", flops.block_forward, {**_BLOCK32}, GIGA),
    Row("nap11.step", flops.blocks_per_step,
        {"layers": 48, **_BLOCK32, "backward_over_forward": 2.0}, TERA),
    Row("nap11.run", flops.blocks_per_run, {"steps": 50_000, "layers": 48, **_BLOCK32}, PETA),
    Row("nap11.v100", iron_law.training_seconds, {**_STEP}),
    Row("nap11.v100s@220ms", iron_law.accelerators_for_deadline,
        {**_STEP, "deadline_seconds": 0.220}),
    Row("nap11.v100s@180ms", iron_law.accelerators_for_deadline,
        {**_STEP, "deadline_seconds": 0.180}),
    Row("strassen.exp", flops.strassen_exponent, {"multiplications": 7, "split": 2}),
    # Table 4 and the bytes of Adam
    Row("tab4.SGD", optimizers.parameters_and_state, {"optimizer": "sgd"}),
    Row("tab4.Momentum", optimizers.parameters_and_state, {"optimizer": "momentum"}),
    Row("tab4.RMSprop", optimizers.parameters_and_state, {"optimizer": "rmsprop"}),
    Row("tab4.Adam", optimizers.parameters_and_state, {"optimizer": "adam"}),
    Row("adam100M", memory.moment_bytes, adam(100e6), MB),
    # Napkin math 1.2
    Row("nap12.grads", memory.parameter_bytes, weights(B15, 4), GB),
    Row("nap12.static", memory.training_state_bytes, {"parameters": B15, **FULL}, GB),
    Row("nap12.mixed", memory.training_state_bytes, {"parameters": B15, **MIXED}, GB),
    # Napkin math 1.3
    Row("nap13.attn", activations.hidden_bytes,
        {**_BLOCK4, "tensors": 4, "bytes_per_value": 2.0}, MB),
    Row("nap13.ffn", activations.feed_forward_bytes,
        {**_BLOCK4, "expansion": 4, "bytes_per_value": 2.0}, MB),
    Row("nap13.scores", activations.score_bytes,
        {"batch": 4, "heads": 25, "seq": 1024, "bytes_per_score": 5.0}, MB),
    Row("nap13.layer", activations.listed_block_bytes,
        {**_BLOCK4, "heads": 25, "norm_bytes": 10e6}, MB),
    Row("nap13.act", activations.document_bytes,
        {"layers": 48, **_BLOCK4, "heads": 25, "token_factor": 34.0, "score_factor": 5.0}, GB),
    Row("nap13.sel", activations.selective_bytes,
        {"layers": 48, **_BLOCK4, "token_factor": 34.0}, GB),
    Row("nap13.selpct", activations.selective_saving,
        {**GPT2_XL, "heads": 25, "token_factor": 34.0, "score_factor": 5.0}, PERCENT),
    Row("nap13.fp32", activations.rescaled_bytes,
        {"activation_bytes": From("nap13.act"), "from_bytes": 2.0, "to_bytes": 4.0}, GB),
    Row("nap13.w16", memory.parameter_bytes, weights(B15, 2), GB),
    Row("nap13.master", memory.parameter_bytes, weights(B15, 4), GB),
    Row("nap13.peak", memory.decoder_total,
        {"parameters": B15, "layers": 48, **_BLOCK4, "heads": 25}, GB),
    Row("nap13.selpeak", memory.decoder_total_selective,
        {"parameters": B15, "layers": 48, **_BLOCK4}, GB),
    # Arithmetic intensity
    Row("roof.dhead", attention.head_width, {"width": 768, "heads": 12}),
    Row("roof.gpt2small", roofline.score_intensity,
        {"head_width": From("roof.dhead"), "bytes_per_value": 2.0}),
    Row("roof.a100ridge", roofline.ridge_point,
        {"peak_flops_per_second": A100_BF16, "bytes_per_second": A100_BANDWIDTH}),
    # Self-check 2.2
    Row("sc2.adam", memory.moment_bytes, adam(B7), GB),
    Row("sc2.7bsgd", memory.with_moments, {"resident_bytes": 64e9, **adam(B7)}, GB),
)

AUDIT = by_id(
    Row("audit.n11.share", ratios.ratio,
        {"value": From("nap11.run"), "baseline": 1.5e21}, PERCENT),
    Row("audit.n11.steps", iron_law.steps_for_budget,
        {"operations": 1.5e21, "operations_per_step": From("nap11.step")}),
)
