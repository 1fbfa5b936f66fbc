"""Peak memory: PyTorch's own tracker on the project's GPT-2 is the judge."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.predict import allocations, peak, plan
from ironlaw.predict.ledger import Ledger
from ironlaw.transformer import MODELS

SMALL: dict[str, Any] = {"model": "nano", "layers": 2, "batch": 2, "seq": 128,
                         "optimizer": "adamw-foreach"}
BLOCKS_DECIDE = {**SMALL, "vocab": 64}
EMBEDDING_DECIDES = {**SMALL, "vocab": 50_257, "batch": 1, "seq": 16}


def tracked_peak(config: RunConfig) -> float:
    """Peak bytes by PyTorch's MemTracker, the way the benchmark over many sizes takes them."""
    pytest.importorskip("torch")
    path = Path(__file__).parents[1] / "benchmarks" / "memory_agreement.py"
    spec = importlib.util.spec_from_file_location("memory_agreement", path)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    return float(benchmark.tracked_peak(config))


@pytest.mark.parametrize("changes", [
    {**SMALL, "precision": "amp-bf16", "accumulate": 2},
    {**SMALL, "precision": "amp-fp16", "attention": "materialised", "recompute": "every-block"},
    {**SMALL, "precision": "pure-bf16", "recompute": "every-block", "optimizer": "sgd"},
    {**BLOCKS_DECIDE, "precision": "amp-bf16", "attention": "materialised", "recompute": "sqrt",
     "accumulate": 2, "optimizer": "sgd"},
    {**BLOCKS_DECIDE, "attention": "materialised", "recompute": "selective", "optimizer": "sgd"},
    {**EMBEDDING_DECIDES, "optimizer": "adamw-fused", "accumulate": 2},
    {**SMALL, "model": "gpt2-124m", "precision": "amp-bf16"},
    {**SMALL, "model": "gpt2-124m", "seq": 16, "batch": 1},
], ids=lambda changes: "-".join(str(v) for v in changes.values()))
def test_prediction_agrees_with_pytorchs_tracker_within_a_percent(changes: dict[str, Any]) -> None:
    config = RunConfig(**changes)
    assert peak.step_memory(config).peak == pytest.approx(tracked_peak(config), rel=0.01)


@pytest.mark.parametrize(("precision", "recompute"), [
    ("fp32", "none"), ("amp-bf16", "none"), ("pure-bf16", "sqrt"), ("fp32", "selective")])
def test_one_sequence_alone_keeps_its_keys_and_values_where_they_lie(
        precision: str, recompute: str) -> None:
    config = RunConfig(**{**BLOCKS_DECIDE, "batch": 1, "layers": 3, "optimizer": "sgd"},
                       attention="materialised", precision=precision, recompute=recompute)
    assert peak.step_memory(config).peak == pytest.approx(tracked_peak(config), rel=2e-3)


@pytest.mark.parametrize("precision", ["fp32", "amp-bf16", "amp-fp16", "pure-bf16"])
@pytest.mark.parametrize("attention", ["flash", "materialised"])
def test_one_more_block_costs_its_saved_bytes(precision: str, attention: str) -> None:
    few = RunConfig(model="nano", layers=4, precision=precision, attention=attention)
    more = few.replace(layers=5)
    shape = few.shape
    saved = peak.block_bytes(few.batch, few.sequence, shape.width, shape.heads, precision,
                             attention)
    grown = peak.step_memory(more).activations - peak.step_memory(few).activations
    assert grown == pytest.approx(saved)


def test_the_saved_bytes_have_the_known_coefficients() -> None:
    b, s, h, a = 2, 256, 128, 4
    n, pairs = b * s * h, a * b * s * s
    rest = 16 * b * s + 4 * a * b * s
    assert peak.block_bytes(b, s, h, a, "amp-bf16") == 36 * n + rest
    assert peak.block_bytes(b, s, h, a, "pure-bf16") == 32 * n + rest
    assert peak.block_bytes(b, s, h, a, "fp32") == 64 * n + rest
    materialised = peak.block_bytes(b, s, h, a, "amp-bf16", "materialised")
    assert materialised == 36 * n + 16 * b * s + 6 * pairs


@pytest.mark.parametrize(("name", "batch", "accumulate", "foreach"), [
    ("gpt2-124m", 12, 1, True), ("gpt2-350m", 8, 1, True), ("gpt2-774m", 4, 4, False),
    ("gpt2-1558m", 4, 1, True)])
def test_the_closed_form_agrees_with_the_walk(name: str, batch: int, accumulate: int,
                                              foreach: bool) -> None:
    config = RunConfig(model=name, batch=batch, accumulate=accumulate, precision="amp-bf16",
                       optimizer="adamw-foreach" if foreach else "adamw-fused")
    formula = peak.closed_form(config.shape, batch, 1024, accumulate=accumulate, foreach=foreach)
    assert formula == pytest.approx(peak.step_memory(config).peak, rel=1e-3)


def test_the_kinds_sum_to_the_peak() -> None:
    for precision in ("fp32", "amp-bf16", "pure-bf16", "document"):
        for recompute in ("none", "selective", "every-block", "sqrt"):
            found = peak.step_memory(RunConfig(model="nano", precision=precision,
                                               recompute=recompute, attention="materialised"))
            kinds = found.to_json()
            total = kinds.pop("peak")
            assert sum(kinds.values()) == pytest.approx(total)
            assert min(kinds.values()) >= 0


def test_the_walk_gives_everything_back() -> None:
    for attention in ("flash", "materialised"):
        for recompute in ("none", "selective", "every-block", "sqrt"):
            config = RunConfig(model="nano", precision="amp-bf16", attention=attention,
                               recompute=recompute, accumulate=2)
            ledger = allocations.Walk(config).run()
            names = {n for n in ledger.live if not n.endswith(".grad")}
            assert names == {"parameters", "moments", "tokens"}
            grads = sum(size for n, (_, size) in ledger.live.items() if n.endswith(".grad"))
            assert grads == 4 * config.shape.parameters


def test_a_ledger_refuses_to_lose_count() -> None:
    ledger = Ledger()
    ledger.hold("a", "transient", 3.0)
    with pytest.raises(InputError, match="not held already"):
        ledger.hold("a", "transient", 1.0)
    with pytest.raises(KeyError):
        ledger.free("b")
    ledger.free("a")
    assert (ledger.total, ledger.peak) == (0.0, 3.0)


@settings(max_examples=40, deadline=None)
@given(batch=st.integers(1, 64), layers=st.integers(1, 12), accumulate=st.integers(1, 4),
       precision=st.sampled_from(["fp32", "amp-bf16", "pure-bf16", "document"]),
       attention=st.sampled_from(["flash", "materialised"]),
       recompute=st.sampled_from(["none", "selective", "every-block", "sqrt"]))
def test_more_of_anything_never_needs_less(batch: int, layers: int, accumulate: int,
                                           precision: str, attention: str,
                                           recompute: str) -> None:
    config = RunConfig(model="nano", batch=batch, layers=layers, accumulate=accumulate,
                       precision=precision, attention=attention, recompute=recompute)
    now = peak.step_memory(config).peak
    assert peak.step_memory(config.replace(batch=batch + 1)).peak > now
    assert peak.step_memory(config.replace(layers=layers + 1)).peak > now
    assert peak.step_memory(config.replace(accumulate=accumulate + 1)).peak >= now
    assert now > 0


def test_recomputation_and_tiles_save_memory_where_they_should() -> None:
    base = RunConfig(model="gpt2-350m", batch=8, precision="amp-bf16", attention="materialised")
    size = {r: peak.step_memory(base.replace(recompute=r)).peak
            for r in ("none", "selective", "every-block", "sqrt")}
    assert size["none"] > size["selective"] > size["every-block"]
    flash = base.replace(attention="flash")
    assert peak.step_memory(flash).peak == pytest.approx(size["selective"], rel=0.01)
    # With tiles there is no S x S tensor left to drop.
    assert peak.step_memory(flash) == peak.step_memory(flash.replace(recompute="selective"))


def test_fused_kernels_save_the_workspace_of_the_update() -> None:
    small = RunConfig(model="gpt2-1558m", batch=1, seq=64, precision="amp-bf16",
                      recompute="every-block", optimizer="adamw-foreach")
    foreach = peak.step_memory(small)
    fused = peak.step_memory(small.replace(optimizer="adamw-fused"))
    assert foreach.moment == "optimizer step"
    assert foreach.peak - fused.peak > 3.0 * small.shape.parameters
    assert peak.step_memory(small.replace(optimizer="sgd")).optimizer == 0


def test_the_documents_recipe_is_16_bytes_and_its_activations() -> None:
    config = RunConfig(model="gpt2-1558m", batch=4, precision="document",
                       attention="materialised")
    found = peak.step_memory(config)
    p = config.shape.parameters
    assert found.parameters + found.gradients + found.optimizer == 16 * p
    assert found.activations == pytest.approx(35.8612992e9)
    lean = peak.step_memory(config.replace(recompute="selective"))
    assert lean.activations == pytest.approx(10.6954752e9)


def test_common_estimates_are_far_off_in_known_directions() -> None:
    config = RunConfig(model="gpt2-124m", batch=12, precision="amp-bf16")
    truth = peak.step_memory(config).peak
    said = peak.common_estimates(config)
    assert said["18 bytes per parameter"] < 0.3 * truth
    assert set(said) == {"18 bytes per parameter", "largest state", "34 + 5 a s / h"}
    with pytest.raises(InputError):
        peak.common_estimates(config.replace(precision="document"))


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    config = RunConfig(model="gpt2-124m", precision="amp-bf16")
    found = plan.largest_batch(config, 80e9, reserve_bytes=1e9)
    assert found is not None
    assert found.memory.peak <= 79e9
    assert found.free_bytes == pytest.approx(79e9 - found.memory.peak)
    more = found.config.replace(batch=found.config.batch + 1)
    assert peak.step_memory(more).peak > 79e9
    assert plan.largest_batch(RunConfig(model="gpt2-1558m"), 16e9) is None


def test_plans_fit_keep_the_samples_and_come_cheapest_first() -> None:
    wish = RunConfig(model="gpt2-774m", batch=16, precision="fp32", attention="materialised")
    found = plan.plans(wish, 32e9)
    assert found
    for p in found:
        assert p.config.batch * p.config.accumulate == 16
        assert p.memory.peak <= 32e9
        assert p.memory == peak.step_memory(p.config)
        assert p.same_numbers == (p.config.precision == "fp32")
        assert p.changes
        assert (p.extra_flops > 0) == (p.config.recompute != "none")
    assert found[0] == plan.cheapest(wish, 32e9)
    assert found[0].same_numbers
    assert found[0].extra_flops == 0
    order = [(not p.same_numbers, p.extra_flops) for p in found]
    assert order == sorted(order)


def test_the_loss_in_slices_comes_before_anything_that_costs_more() -> None:
    wish = RunConfig(model="gpt2-124m", batch=32, precision="amp-bf16")
    best = plan.cheapest(wish, 24e9)
    assert best is not None
    assert best.changes == ("--loss-rows 1024",)
    assert (best.extra_flops, best.same_numbers, best.config.batch) == (0.0, True, 32)
    sliced = wish.replace(loss_rows=256)
    assert {p.config.loss_rows for p in plan.plans(sliced, 10e9)} == {256}


def test_a_batch_that_fits_whole_is_planned_though_its_parts_would_not() -> None:
    wish = RunConfig(model="gpt2-124m", batch=3, seq=256, optimizer="adamw-fused")
    sliced = wish.replace(loss_rows=1024)
    whole = peak.step_memory(sliced).peak
    parts = peak.step_memory(sliced.replace(batch=1, accumulate=3)).peak
    assert whole < parts  # accumulating keeps the gradients
    best = plan.cheapest(wish, (whole + min(parts, peak.step_memory(wish).peak)) / 2)
    assert best is not None
    assert (best.changes, best.same_numbers) == (("--loss-rows 1024",), True)


def test_on_a_device_of_the_catalogue_plans_keep_to_its_formats() -> None:
    wish = RunConfig(model="gpt2-1558m", batch=1, precision="amp-fp16", recompute="every-block")
    assert {p.config.precision for p in plan.plans(wish, 16e9)} == {"pure-bf16"}
    assert plan.plans(wish.replace(device="T4"), 16e9) == []
    assert plan.cheapest(wish.replace(device="T4"), 16e9, precisions=["pure-bf16"]) is not None
    with pytest.raises(InputError, match="accelerator"):
        plan.plans(wish.replace(device="abacus"), 16e9)


def test_a_wish_that_fits_is_left_as_it_is() -> None:
    wish = RunConfig(model="nano", batch=4)
    best = plan.cheapest(wish, 80e9)
    assert best is not None
    assert (best.config, best.changes, best.extra_flops) == (wish, (), 0.0)


def test_what_cannot_fit_says_how_many_devices_would_hold_it() -> None:
    wish = RunConfig(model="gpt2-1558m", batch=1, precision="amp-bf16")
    assert plan.cheapest(wish.replace(precision="pure-bf16"), 8e9) is None
    workers = plan.workers_to_shard(wish, 16e9)
    assert workers is not None
    assert 2 <= workers <= 4
    assert plan.workers_to_shard(wish, 1e9) is None


@pytest.mark.parametrize(("changes", "argument"), [
    ({"device_bytes": -1}, "device_bytes"), ({"device_bytes": float("nan")}, "device_bytes"),
    ({"device_bytes": 1e9, "reserve_bytes": 2e9}, "reserve_bytes")])
def test_impossible_devices_are_refused_by_name(changes: dict[str, float], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        plan.largest_batch(RunConfig(), **changes)
    assert caught.value.argument == argument


ADVICE: dict[str, Any] = {
    "state_bytes": 24e9, "device_bytes": 80e9, "devices_per_node": 8, "one_device_seconds": 1e5,
    "deadline_seconds": 2e5, "input_rate": 100.0, "demand_rate": 50.0}


@pytest.mark.parametrize(("changes", "where"), [
    ({}, "one device"),
    ({"state_bytes": 200e9}, "one node"),
    ({"one_device_seconds": 1e6}, "one node"),
    ({"state_bytes": 1120e9}, "several nodes"),
    ({"one_device_seconds": 1e8}, "several nodes"),
    ({"input_rate": 20.0}, "parallel input pipeline")])
def test_table_22_picks_the_least_complex_place(changes: dict[str, float], where: str) -> None:
    advice = plan.when_to_scale(**{**ADVICE, **changes})
    assert advice.where == where
    assert advice.reasons


def test_scaling_is_preceded_by_what_one_device_can_still_do() -> None:
    advice = plan.when_to_scale(**{**ADVICE, "state_bytes": 200e9}, tried=["mixed precision"])
    assert advice.first_try == ("gradient accumulation", "activation checkpointing")


def test_every_preset_can_be_predicted_quickly_enough_to_plan() -> None:
    for name in MODELS:
        assert peak.step_memory(RunConfig(model=name, batch=1)).peak > 0
