"""Optimizers, recomputation, accumulation and attention: laws, known values, real algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw.predict import (
    accumulation,
    activations,
    attention,
    convnet,
    flash,
    flops,
    optimizers,
    recompute,
    roofline,
)
from ironlaw.predict.optimizers import AdamState
from ironlaw.transformer import MODELS

# Optimizers -------------------------------------------------------------------------


def test_table_4() -> None:
    rows = optimizers.table_4()
    assert [r.parameters_and_state for r in rows] == [1.0, 2.0, 2.0, 3.0]
    assert [r.bytes_per_parameter for r in rows] == [0.0, 4.0, 4.0, 8.0]


def test_matrices_and_vectors_are_all_of_the_model() -> None:
    for shape in MODELS.values():
        total = sum(r * c for r, c in optimizers.matrices(shape))
        assert total + optimizers.vector_values(shape) == shape.parameters
        assert optimizers.vector_values(shape) == 13 * shape.width * shape.layers + 2 * shape.width


def test_lean_optimizers_keep_less_than_adam_in_the_known_order() -> None:
    shape = MODELS["gpt2-1558m"]
    size = {name: optimizers.state_bytes(shape, name)
            for name in ("adam", "adam-8bit", "galore", "adafactor", "momentum", "sgd")}
    assert size["adam"] == 8 * shape.parameters
    assert size["adafactor"] < 0.01 * size["adam"]
    assert size["adafactor"] < size["galore"] < size["adam-8bit"] < size["momentum"]
    assert size["sgd"] == 0


def test_eight_bit_adam_is_two_bytes_and_a_scale_per_block() -> None:
    assert optimizers.adam_8bit_bytes(4096) == 2 * 4096 + 2 * 2 * 4
    assert optimizers.adam_8bit_bytes(4097) == 2 * 4097 + 2 * 3 * 4


def test_galore_saves_only_below_full_rank() -> None:
    assert optimizers.galore_values(100, 1000, 10) == 100 * 10 + 2 * 1000 * 10
    assert optimizers.galore_values(1000, 100, 10) == optimizers.galore_values(100, 1000, 10)
    assert optimizers.galore_values(100, 1000, 100) == 2 * 100 * 1000


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_algorithm_1_is_pytorchs_adamw(decay: float) -> None:
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(0)
    start = draw.normal(size=7)
    weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    rule = torch.optim.AdamW([weight], lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)
    ours = AdamState(start, np.zeros(7), np.zeros(7))
    for _ in range(5):
        gradient = draw.normal(size=7)
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        rule.step()
        ours = optimizers.adam(ours, gradient, 0.01, weight_decay=decay)
        np.testing.assert_allclose(ours.parameters, weight.detach().numpy(), rtol=1e-12)


def test_adams_first_step_is_the_learning_rate_whatever_the_gradient() -> None:
    for gradient in (1e-3, 1.0, 1e3):
        step = optimizers.adam(AdamState(0.0, 0.0, 0.0), gradient, learning_rate=0.1)
        assert step.parameters == pytest.approx(-0.1, rel=1e-4)


# Recomputation ----------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 40))
def test_a_played_schedule_does_every_layer_backward_once(layers: int, wanted: int) -> None:
    k = min(layers, wanted)
    kept = recompute.evenly_kept(layers, k)
    played = recompute.play(layers, kept)
    backwards = [a.layer for a in played.actions if a.kind == "backward"]
    assert backwards == list(reversed(range(layers)))
    assert played.recomputed == recompute.recomputed_layers(layers, k)
    assert played.actions[-1].memory == 0
    assert played.peak <= recompute.kept_layers(layers, k) + 1
    assert layers == 1 or k < layers or played.peak == layers


def test_without_the_segment_memory_is_small_and_work_quadratic() -> None:
    played = recompute.play(48, [47], keep_segment=False)
    assert played.recomputed == recompute.quadratic_recompute(48) == 1128
    assert played.peak <= 2
    assert recompute.play(48, [47]).recomputed == 47
    assert recompute.play(48, [47]).peak == 47


def test_the_square_root_rule_is_near_the_searched_best() -> None:
    for layers in (12, 24, 36, 48, 96):
        best = recompute.best_k(layers)
        peak = recompute.play(layers, recompute.evenly_kept(layers, best)).peak
        rule = round(recompute.best_checkpoints(layers))
        by_rule = recompute.play(layers, recompute.evenly_kept(layers, rule)).peak
        assert peak <= by_rule <= peak + 2
        assert abs(best - recompute.best_checkpoints(layers)) < 4


def test_of_equal_peaks_the_best_recomputes_least() -> None:
    played = {k: recompute.play(48, recompute.evenly_kept(48, k)) for k in range(1, 49)}
    lowest = [k for k in played if played[k].peak == min(p.peak for p in played.values())]
    assert lowest == [6, 7, 8]
    assert [played[k].recomputed for k in lowest] == [42, 41, 40]
    assert recompute.best_k(48) == 8
    assert recompute.best_k(1) == 1


def test_table_15_puts_the_middle_row_right() -> None:
    rows = recompute.table_15(48, 7)
    assert [(r.memory, r.recomputed) for r in rows[:3]] == [(48, 0), (49, 47), (1, 1128)]
    assert rows[3].memory == pytest.approx(13.857, abs=1e-3)


def test_cheap_boundaries_make_one_block_per_segment_best() -> None:
    sizes = {"block_bytes": 36.0, "boundary_bytes": 4.0, "selective_block_bytes": 30.0}
    found = {s: recompute.stored(48, s, **sizes) for s in recompute.STRATEGIES}
    assert found["none"].peak_bytes == 48 * 36
    assert found["selective"].peak_bytes == 48 * 30
    assert found["every-block"].peak_bytes == 48 * 4 + 36
    assert found["best"].peak_bytes == min(f.peak_bytes for f in found.values())
    assert found["best"].segments > recompute.best_checkpoints(48)
    even = {"block_bytes": 1.0, "boundary_bytes": 1.0}
    assert recompute.stored(49, "best", **even).segments == 7


def test_table_16_recomputes_scores_before_products() -> None:
    rows = recompute.table_16(4, 1024, 1600, 25)
    assert sum(r.stored_bytes for r in rows) == pytest.approx(
        activations.document_bytes(1, 4, 1024, 1600, 25))
    work = {r.part: r.bytes_per_flop for r in rows}
    assert work["attention: scores and softmax"] > work["feed-forward"]


@pytest.mark.parametrize("attention_kind", ["flash", "materialised"])
@pytest.mark.parametrize("strategy", ["none", "selective", "every-block", "sqrt"])
def test_recomputed_flops_are_those_that_pytorch_counts(attention_kind: str,
                                                        strategy: str) -> None:
    torch = pytest.importorskip("torch")
    from ironlaw.gpt2.model import GPT
    from torch.utils.flop_counter import FlopCounterMode

    shape = MODELS["nano"].resized(layers=5, width=32, heads=2, context=16, vocab=50)
    with torch.device("meta"):
        model = GPT(shape, attention=attention_kind, recompute=strategy)
        tokens = torch.zeros(2, 16, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            model.loss(tokens, tokens).backward()
    assert counter.get_total_flops() == flops.per_step(shape, 2, 16) + flops.recomputed_per_step(
        shape, 2, 16, strategy, attention_kind)


# Accumulation -----------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_equation_17_holds_for_equal_micro_batches(k: int, b: int, seed: int) -> None:
    gradients = np.random.default_rng(seed).normal(size=(k * b, 3))
    np.testing.assert_allclose(accumulation.accumulated_gradient(gradients, b),
                               gradients.mean(axis=0), atol=1e-12)


def test_unequal_micro_batches_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        accumulation.accumulated_gradient(np.ones((5, 2)), 2)
    assert caught.value.argument == "micro_batch"


def test_equation_18_pays_for_one_exchange_with_no_sync() -> None:
    times = [0.1, 0.1, 0.2, 0.1]
    assert accumulation.update_seconds(times, 0.3, 0.05) == pytest.approx(0.85)
    assert accumulation.update_seconds(times, 0.3, 0.05, sync_every_micro_batch=True) == (
        pytest.approx(1.75))


def test_batches_that_do_not_divide_name_their_neighbours() -> None:
    assert accumulation.steps_for_batch(512, 4, 8) == 16
    with pytest.raises(InputError, match="480 and 512"):
        accumulation.steps_for_batch(500, 4, 8)
    effect = accumulation.table_14(512, 64)
    assert (effect.activation_bytes, effect.flops, effect.passes) == (1 / 8, 1.0, 8)


# Attention --------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 24), st.booleans(),
       st.integers(0, 2**32 - 1))
def test_tiles_give_exactly_attention(seq: int, width: int, tile: int, causal: bool,
                                      seed: int) -> None:
    draw = np.random.default_rng(seed)
    q, k, v = (draw.normal(scale=3, size=(seq, width)) for _ in range(3))
    np.testing.assert_allclose(flash.tiled_attention(q, k, v, tile, causal=causal),
                               flash.attention(q, k, v, causal=causal), atol=1e-12)


def test_attention_is_pytorchs_with_and_without_the_mask() -> None:
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(1)
    q, k, v = (draw.normal(size=(9, 4)) for _ in range(3))
    for causal in (True, False):
        theirs = torch.nn.functional.scaled_dot_product_attention(
            *(torch.tensor(x)[None] for x in (q, k, v)), is_causal=causal)[0].numpy()
        np.testing.assert_allclose(flash.attention(q, k, v, causal=causal), theirs, atol=1e-12)


def test_the_online_softmax_survives_scores_that_overflow_exp() -> None:
    q = np.full((4, 1), 1000.0)
    k = np.array([[1.0], [2.0], [3.0], [4.0]])
    out = flash.tiled_attention(q, k, k, 1, causal=False)
    np.testing.assert_allclose(out, 4.0)


def test_causal_tiles_in_the_future_are_skipped() -> None:
    x = np.ones((8, 2))
    assert len(list(flash.steps(x, x, x, 2, causal=False))) == 16
    assert len(list(flash.steps(x, x, x, 2))) == 10


@given(st.integers(64, 4096), st.sampled_from([32, 64, 128]), st.sampled_from([32, 64, 128]))
def test_tiles_move_fewer_bytes_for_the_same_work(seq: int, width: int, tile: int) -> None:
    full, tiles = attention.standard(seq, width), attention.tiled(seq, width, tile)
    assert tiles.flops == full.flops
    if seq >= 2 * width and tile >= width:
        assert tiles.traffic_bytes < full.traffic_bytes
        assert tiles.intensity > full.intensity


def test_a_larger_tile_moves_less_and_memory_grows_with_s_only() -> None:
    traffic = [attention.tiled_traffic(4096, 64, tile) for tile in (32, 64, 128, 256)]
    assert traffic == sorted(traffic, reverse=True)
    one, two = (attention.saved_bytes(s, 64, 12, 4, tiles=True) for s in (1024, 2048))
    assert two == 2 * one
    one, two = (attention.saved_bytes(s, 64, 12, 4, tiles=False) for s in (4096, 8192))
    assert two > 3.8 * one


@given(st.floats(2e3, 1e6), st.sampled_from([32, 64, 128]))
def test_the_largest_tile_fits_and_the_next_does_not(sram: float, width: int) -> None:
    def needed(b: int) -> float:
        return b * width * (3 * 2 + 4) + 4 * b * b

    side = attention.largest_tile(sram, width)
    assert needed(side) <= sram < needed(side + 1)


# Roofline and image networks --------------------------------------------------------


def test_precision_moves_the_ridge() -> None:
    ridges = roofline.ridge_points({"bf16": 312e12, "fp32": 19.5e12}, 2039e9)
    assert ridges["bf16"] == pytest.approx(153.0, abs=0.1)
    assert ridges["fp32"] == pytest.approx(9.56, abs=0.01)


@given(st.floats(0.1, 1e4))
def test_the_roof_is_the_lower_ceiling(intensity: float) -> None:
    roof = roofline.attainable(intensity, 312e12, 2039e9)
    assert roof <= 312e12
    below = intensity < roofline.ridge_point(312e12, 2039e9)
    assert roofline.bound(intensity, 312e12, 2039e9) == ("memory" if below else "compute")
    assert roof == pytest.approx(intensity * 2039e9 if below else 312e12)
    kernel = roofline.Kernel("k", intensity * 1e9, 1e9)
    assert kernel.flops / kernel.seconds(312e12, 2039e9) == pytest.approx(roof)


def test_kernels_fall_on_the_side_that_they_should() -> None:
    def side(kernel: roofline.Kernel) -> str:
        return roofline.bound(kernel.intensity, 312e12, 2039e9)

    assert side(roofline.gemm(4096, 4096, 4096)) == "compute"
    for kernel in (roofline.gemv(4096, 4096), roofline.softmax(4096, 4096),
                   roofline.layer_norm(4096, 1600), roofline.gelu(10**6),
                   attention.standard(1024, 64)):
        assert side(kernel) == "memory", kernel.name
    assert roofline.gemv(4096, 4096).intensity == pytest.approx(1.0, abs=0.01)
    assert roofline.gemm(3000, 3000, 3000).intensity == pytest.approx(1000.0)


def test_naive_traffic_is_cubic_and_tiles_divide_it() -> None:
    one, two = (roofline.tiled_gemm(m, m, m, 1).traffic_bytes for m in (256, 512))
    assert two / one == pytest.approx(8, rel=0.01)
    tiled = roofline.tiled_gemm(512, 512, 512, 64).traffic_bytes
    assert two / tiled == pytest.approx(64, rel=0.1)
    whole = roofline.tiled_gemm(512, 512, 512, 512)
    assert whole.traffic_bytes == roofline.gemm(512, 512, 512).traffic_bytes


def test_resnet_50_is_counted_and_not_remembered() -> None:
    assert len(convnet.resnet50()) == 53
    assert convnet.resnet50_parameters() == 25_557_032
    assert convnet.resnet50_saved_values() == 21_073_920
    assert convnet.resnet50_saved_bytes(64) == 2 * convnet.resnet50_saved_bytes(32)
    with pytest.raises(InputError):
        convnet.resnet50(100)
