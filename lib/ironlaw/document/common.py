"""Inputs that many rows share: the document's models, devices and number formats."""

from __future__ import annotations

from typing import Any

B1, B7, B15, B20, B70, B175 = 1e9, 7e9, 1.5e9, 20e9, 70e9, 175e9
"""Parameter counts, named by billions (15 is 1.5)."""

PERCENT = 0.01

GPT2_XL = {"seq": 1024, "width": 1600}
"""One block of the lighthouse: 48 of these with 25 heads."""

V100_FP16, V100_FP32 = 125e12, 15.7e12
A100_BF16, A100_FP32, A100_BANDWIDTH = 312e12, 19.5e12, 2039e9
H100_BF16, H100_FP8 = 989e12, 1979e12
"""Dense peaks in FLOP/s and bandwidth in bytes/s, as the document gives them."""

MIXED = {"weight_bytes": 2.0, "gradient_bytes": 2.0, "master_bytes": 4.0,
         "moment_bytes_each": 4.0, "moments": 2}
"""FP16 weights and gradients, FP32 master copy and two FP32 moments: 16 bytes."""

FULL = {"weight_bytes": 4.0, "gradient_bytes": 4.0, "master_bytes": 0.0,
        "moment_bytes_each": 4.0, "moments": 2}
"""FP32 throughout, no master copy: also 16 bytes."""


def weights(parameters: float, bytes_each: float) -> dict[str, Any]:
    """Arguments of `memory.parameter_bytes`."""
    return {"parameters": parameters, "bytes_per_parameter": bytes_each}


def adam(parameters: float) -> dict[str, Any]:
    """Arguments of `memory.moment_bytes` for FP32 Adam."""
    return {"parameters": parameters, "bytes_per_value": 4.0, "moments": 2}
