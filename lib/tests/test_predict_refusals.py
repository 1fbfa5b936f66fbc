"""Every public function of `predict`: bad input is refused by name, good input scales sanely.

`EXAMPLES` holds one valid call for every function that no row of the document calls;
a new public function without one fails here.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import ironlaw.predict
import pytest
from ironlaw import document
from ironlaw.errors import InputError
from ironlaw.predict import (
    accumulation,
    activations,
    attention,
    convnet,
    cost,
    flops,
    iron_law,
    memory,
    optimizers,
    parallel,
    peak,
    pipeline,
    plan,
    precision,
    ratios,
    recompute,
    roofline,
    scaling,
    waves,
)
from ironlaw.transformer import MODELS

NANO = MODELS["nano"]
EXAMPLES: dict[Callable[..., Any], dict[str, Any]] = {
    accumulation.steps_for_batch: {"global_batch": 512, "micro_batch": 4, "accelerators": 8},
    accumulation.table_14: {"effective_batch": 512, "micro_batch": 64},
    accumulation.update_seconds: {"micro_seconds": [0.1], "sync_seconds": 0.1,
                                  "optimizer_seconds": 0.1},
    activations.per_batch_bytes: {"batch": 4, "state_bytes": [1.0], "output_bytes": [2.0]},
    attention.products_flops: {"seq": 1024, "head_width": 64},
    attention.materialised_traffic: {"seq": 1024, "head_width": 64, "bytes_per_value": 2.0},
    attention.tiled_traffic: {"seq": 1024, "head_width": 64, "tile": 128,
                              "bytes_per_value": 2.0},
    attention.largest_tile: {"sram_bytes": 1e5, "head_width": 64, "bytes_per_value": 2.0},
    attention.standard: {"seq": 1024, "head_width": 64, "heads": 12, "batch": 4},
    attention.tiled: {"seq": 1024, "head_width": 64, "tile": 64, "heads": 12, "batch": 4},
    attention.saved_bytes: {"seq": 1024, "head_width": 64, "heads": 12, "batch": 4,
                            "tiles": True},
    convnet.resnet50: {"image_side": 224},
    convnet.resnet50_parameters: {"classes": 1000},
    convnet.resnet50_saved_values: {"image_side": 224},
    cost.accelerator_hours: {"accelerators": 8, "seconds": 3600.0},
    cost.break_even_seconds: {"price_each": 30_000.0, "price_per_hour": 3.0},
    cost.energy_from_samples: {"watts": [1.0, 2.0], "seconds": [0.0, 1.0]},
    flops.layer_forward: {"batch": 4, "seq": 1024, "width": 1600},
    flops.attention_overtakes: {"width": 768, "layers": 12, "vocab": 50_257},
    flops.head_forward: {"batch": 4, "seq": 1024, "width": 1600, "vocab": 50_257},
    flops.forward_per_step: {"shape": NANO, "batch": 4, "seq": 128},
    flops.per_step: {"shape": NANO, "batch": 4, "seq": 128},
    flops.per_token: {"shape": NANO, "seq": 128},
    flops.recomputed_per_step: {"shape": NANO, "batch": 4, "seq": 128, "recompute": "sqrt"},
    iron_law.check_utilisation: {"value": 0.5},
    iron_law.levers: {"operations": 1e21, "peak_flops_per_second": 1e14, "utilisation": 0.4,
                      "least_operations": 1e20, "best_peak_flops_per_second": 1e15,
                      "best_utilisation": 0.5},
    memory.training_state: {"parameters": 7e9},
    memory.batch_memory: {"parameter_bytes": 6e9, "gradient_bytes": 6e9, "batch": 4,
                          "activation_bytes": 9e9},
    memory.total_bytes: {"weights": 1.0, "gradients": 1.0, "optimizer": 1.0, "activations": 1.0},
    optimizers.full_batch_step_seconds: {"examples": 10**6, "seconds_per_example": 0.001},
    optimizers.updates_per_epoch: {"examples": 10**6, "batch": 32},
    optimizers.table_4: {"bytes_per_value": 4.0},
    optimizers.matrices: {"shape": NANO},
    optimizers.vector_values: {"shape": NANO},
    optimizers.adafactor_values: {"rows": 100, "columns": 200},
    optimizers.adam_8bit_bytes: {"values": 4096, "block": 2048},
    optimizers.galore_values: {"rows": 100, "columns": 200, "rank": 8},
    optimizers.state_bytes: {"shape": NANO, "optimizer": "galore", "bytes_per_value": 4.0,
                             "rank": 8},
    optimizers.update_traffic_bytes: {"parameters": 1e9, "optimizer": "adam",
                                      "bytes_per_value": 4.0},
    parallel.bubble_share: {"stages": 4, "micro_batches": 8},
    parallel.micro_batches_for_bubble: {"stages": 4, "share": 0.2},
    parallel.micro_batches_in_flight: {"stages": 4, "micro_batches": 8, "schedule": "gpipe"},
    parallel.play: {"stages": 2, "micro_batches": 2, "forward_seconds": 1.0,
                    "backward_seconds": 2.0},
    parallel.tensor_parallel_bytes: {"layers": 4, "batch": 2, "seq": 128, "width": 64,
                                     "ways": 2, "bytes_per_value": 2.0},
    parallel.pipeline_parallel_bytes: {"batch": 2, "seq": 128, "width": 64,
                                       "bytes_per_value": 2.0},
    parallel.table_20: {"parameters": 1e9, "layers": 4, "batch": 2, "seq": 128, "width": 64,
                        "tensor_ways": 2, "pipeline_stages": 2, "data_ways": 4},
    peak.block_bytes: {"batch": 2, "seq": 128, "width": 64, "heads": 2, "precision": "fp32"},
    peak.closed_form: {"shape": NANO, "batch": 2, "seq": 128, "accumulate": 2},
    pipeline.storage_rate: {"disk": 7e9, "network": 1e9},
    pipeline.preprocessing_rate: {"workers": 4, "transform_seconds": 0.04},
    pipeline.training_rate: {"preprocessing": 1.0, "transfer_bytes_per_second": 1e9,
                             "batch_bytes": 1e6, "compute_flops_per_second": 1e14,
                             "batch_flops": 1e12},
    pipeline.keeps_up: {"preprocessing_seconds": 0.1, "compute_seconds": 0.2},
    plan.room: {"device_bytes": 80e9, "reserve_bytes": 1e9},
    plan.when_to_scale: {"state_bytes": 1e9, "device_bytes": 2e9, "devices_per_node": 8,
                         "one_device_seconds": 1.0, "deadline_seconds": 2.0,
                         "input_rate": 2.0, "demand_rate": 1.0},
    plan.zero_state_bytes: {"parameters": 7e9, "workers": 8},
    precision.number_format: {"name": "fp16"},
    precision.table_10: {"names": ("fp32", "fp16")},
    precision.table_12: {"peaks": {"bf16": 1e14}},
    precision.best_loss_scale: {"largest_gradient": 1.0, "headroom": 2.0},
    precision.update_survives: {"weight": 1.0, "update": 1e-3, "fmt": precision.FP16},
    recompute.evenly_kept: {"layers": 48, "checkpoints": 7},
    recompute.play: {"layers": 4, "kept": [1, 3]},
    plan.formats: {"asked": "fp32"},
    recompute.best_k: {"layers": 12},
    recompute.stored: {"layers": 48, "strategy": "sqrt", "block_bytes": 36.0,
                       "boundary_bytes": 4.0},
    recompute.table_15: {"layers": 48, "checkpoints": 7},
    recompute.table_16: {"batch": 4, "seq": 1024, "width": 1600, "heads": 25},
    roofline.ridge_points: {"peaks": {"bf16": 312e12}, "bytes_per_second": 2e12},
    roofline.attainable: {"intensity": 10.0, "peak_flops_per_second": 1e14,
                          "bytes_per_second": 1e12},
    roofline.bound: {"intensity": 10.0, "peak_flops_per_second": 1e14, "bytes_per_second": 1e12},
    roofline.gemm: {"rows": 64, "inner": 64, "columns": 64, "bytes_per_value": 2.0},
    roofline.gemv: {"rows": 64, "columns": 64, "bytes_per_value": 2.0},
    roofline.tiled_gemm: {"rows": 64, "inner": 64, "columns": 64, "tile": 8,
                          "bytes_per_value": 2.0},
    roofline.elementwise: {"name": "relu", "values": 100, "flops_per_value": 1.0, "inputs": 1},
    roofline.gelu: {"values": 100, "flops_per_value": 9.0, "bytes_per_value": 2.0},
    roofline.softmax: {"rows": 8, "columns": 8, "flops_per_value": 5.0},
    roofline.layer_norm: {"rows": 8, "width": 8, "flops_per_value": 8.0},
    ratios.seconds_after_speedup: {"before_seconds": 2.0, "speedup": 2.0},
    scaling.amdahl_speedup: {"accelerators": 8, "serial_share": 0.1},
    scaling.compressed_bytes: {"tensor_bytes": 1e9, "ratio": 4.0},
    scaling.data_parallel: {"parameters": 7e9, "workers": 8, "sharding": "zero-1"},
    scaling.hierarchical_all_reduce_seconds: {
        "tensor_bytes": 1e9, "nodes": 2, "workers_per_node": 8, "node_bytes_per_second": 1e11,
        "network_bytes_per_second": 1e10},
    scaling.overlapped_efficiency: {"compute_seconds": 1.0, "communication_seconds": 1.0,
                                    "backward_share": 0.6, "overlap": 0.5},
    scaling.tree_all_reduce_seconds: {"tensor_bytes": 1e9, "workers": 8,
                                      "bytes_per_second": 1e10, "latency_seconds": 1e-6,
                                      "chunks": 4},
    waves.units: {"items": 33, "unit": 32},
    waves.table_6: {"items": (32, 33), "unit": 32},
    waves.matmul_tiles: {"rows": 300, "columns": 300, "tile_rows": 128, "tile_columns": 128},
    waves.matmul_waves: {"rows": 300, "columns": 300, "processors": 132},
    waves.matmul_utilisation: {"rows": 300, "columns": 300, "processors": 132},
}
SIGNED = {precision.update_survives}
"""Functions whose numbers may be negative."""
# Their inputs are arrays, configurations or schedules, and have tests of their own.
OTHERWISE_TESTED = {
    "accumulation.accumulated_gradient", "optimizers.adam", "optimizers.sgd",
    "optimizers.momentum", "optimizers.rmsprop", "peak.step_memory",
    "peak.common_estimates", "plan.largest_batch", "plan.plans", "plan.cheapest",
    "plan.workers_to_shard", "precision.stored_shares",
}
OWN_TESTS = {"allocations", "descent", "flash", "ledger", "nonlinear", "schedule", "step_time",
             "walkthrough"}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All public functions of all modules of `predict` that this file answers for."""
    for found in pkgutil.iter_modules(ironlaw.predict.__path__):
        if found.name in OWN_TESTS:
            continue
        module = importlib.import_module(f"ironlaw.predict.{found.name}")
        for name, thing in vars(module).items():
            # A cached function is a wrapper around the function that it names.
            if callable(thing) and getattr(thing, "__module__", "") == module.__name__ and (
                    inspect.isfunction(inspect.unwrap(thing)) and not name.startswith("_")):
                yield f"{found.name}.{name}", thing




def test_the_index_of_equations_and_tables_points_at_functions() -> None:
    lines = [line for line in (ironlaw.predict.__doc__ or "").splitlines()
             if line.startswith(("| equation", "| table", "| algorithm"))]
    assert len(lines) == 17 + 3 + 12
    for line in lines:
        module, name = line.split("`")[1].split(".")
        assert callable(getattr(importlib.import_module(f"ironlaw.predict.{module}"), name)), line


CALLS = dict(EXAMPLES)
for _row in [*document.ROWS.values(), *document.AUDIT.values()]:
    CALLS.setdefault(_row.function, _row.inputs)


def test_every_public_function_is_called_and_documented() -> None:
    missing = [name for name, function in public_functions()
               if function not in CALLS and name not in OTHERWISE_TESTED]
    assert not missing
    assert all(function.__doc__ for _, function in public_functions())


@pytest.mark.parametrize("function", list(CALLS),
                         ids=lambda f: f"{f.__module__.split('.')[-1]}.{f.__name__}")
def test_bad_numbers_are_refused_by_name(function: Callable[..., Any]) -> None:
    arguments = CALLS[function]
    function(**arguments)
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        negative = [] if function in SIGNED else [-3.0]
        for bad in (math.nan, math.inf, -math.inf, "12", None, True, [1.0, 2.0], *negative):
            with pytest.raises(InputError) as caught:
                function(**{**arguments, name: bad})
            assert caught.value.argument == name
            assert caught.value.allowed
            assert caught.value.next_step


@pytest.mark.parametrize("function", list(CALLS),
                         ids=lambda f: f"{f.__module__.split('.')[-1]}.{f.__name__}")
def test_names_are_checked(function: Callable[..., Any]) -> None:
    arguments = CALLS[function]
    for name, value in arguments.items():
        if (isinstance(value, str) and name != "name") or function is precision.number_format:
            with pytest.raises(InputError) as caught:
                function(**{**arguments, name: "no such thing"})
            assert caught.value.argument == name
