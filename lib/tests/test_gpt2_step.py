"""One optimizer step: formats, accumulation, loss scaling, update rules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch
from ironlaw.config import OPTIMIZERS, TRAINABLE_OPTIMIZERS, RunConfig
from ironlaw.errors import InputError, UnavailableError
from ironlaw.gpt2 import optimizers, precision
from ironlaw.gpt2.model import GPT, IGNORED
from ironlaw.gpt2.step import TrainingStep, build, random_batches
from ironlaw.transformer import Shape

TINY = RunConfig(layers=2, width=32, heads=2, vocab=300, batch=4, seq=24)


def built(config: RunConfig = TINY, **options: object) -> TrainingStep:
    torch.manual_seed(0)
    return build(config, **options)  # type: ignore[arg-type]


def gradients(step: TrainingStep) -> list[torch.Tensor]:
    return [p.grad.clone() for p in step.model.parameters() if p.grad is not None]


def test_accumulated_gradients_equal_the_large_batch_when_tokens_are_uneven() -> None:
    tokens, targets = random_batches(TINY)[0]
    targets = targets.clone()
    targets[0, 3:] = IGNORED  # the first micro-batch has far fewer targets than the second
    targets[1, 5:] = IGNORED
    whole = built()
    loss = whole.backward([(tokens, targets)])
    parts = built(TINY.replace(batch=2, accumulate=2))
    split = parts.backward([(tokens[:2], targets[:2]), (tokens[2:], targets[2:])])
    assert torch.allclose(loss, split, atol=1e-6)
    for a, b in zip(gradients(whole), gradients(parts), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    means = [whole.model.loss(tokens[i:i + 2], targets[i:i + 2]).item() for i in (0, 2)]
    assert abs(sum(means) / 2 - loss.item()) > 1e-3  # averaging the means would be wrong


def test_a_step_needs_all_its_micro_batches() -> None:
    step = built(TINY.replace(accumulate=3))
    with pytest.raises(InputError, match="3 micro-batches"):
        step(random_batches(TINY))


@pytest.mark.parametrize("name", TRAINABLE_OPTIMIZERS)
def test_every_update_rule_learns_a_batch(name: str) -> None:
    rate = 0.3 if name in ("sgd", "momentum") else 3e-3
    step = built(TINY.replace(optimizer=name), learning_rate=rate)
    batches = random_batches(TINY)
    losses = [step(batches).item() for _ in range(12)]
    assert losses[-1] < losses[0] - 0.1
    assert all(p.grad is None for p in step.model.parameters())


@pytest.mark.parametrize("name", sorted(set(OPTIMIZERS) - set(TRAINABLE_OPTIMIZERS)))
def test_a_rule_known_only_to_the_memory_model_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="memory model only"):
        built(TINY.replace(optimizer=name))


def test_the_adamw_variants_agree() -> None:
    batches, results = random_batches(TINY), []
    for name in ("adamw", "adamw-foreach", "adamw-fused"):
        step = built(TINY.replace(optimizer=name))
        results.append([step(batches).item() for _ in range(4)])
    assert results[1] == pytest.approx(results[0], abs=1e-4)
    assert results[2] == pytest.approx(results[0], abs=1e-4)


def test_only_matrices_decay() -> None:
    model = GPT(TINY.shape)
    decaying, plain = optimizers.groups(model, 0.1)
    assert decaying["weight_decay"] == 0.1
    assert plain["weight_decay"] == 0.0
    assert {p.dim() for p in decaying["params"]} == {2}
    assert {p.dim() for p in plain["params"]} == {1}
    found = sum(p.numel() for group in (decaying, plain) for p in group["params"])
    assert found == TINY.shape.parameters


@pytest.mark.parametrize(("name", "kept", "products"), [
    ("fp32", torch.float32, torch.float32),
    ("amp-bf16", torch.float32, torch.bfloat16),
    ("amp-fp16", torch.float32, torch.float16),
    ("pure-bf16", torch.bfloat16, torch.bfloat16),
])
def test_each_precision_keeps_and_multiplies_in_its_formats(
    name: str, kept: torch.dtype, products: torch.dtype
) -> None:
    step = built(TINY.replace(precision=name))
    batches = random_batches(TINY)
    with step.precision.autocast():
        assert step.model(batches[0][0]).dtype == products
        assert step.model.loss(*batches[0]).dtype == torch.float32
    step.backward(batches)
    assert {p.dtype for p in step.model.parameters()} == {kept}
    assert {g.dtype for g in gradients(step)} == {kept}
    step.update()
    moments = [s["exp_avg"].dtype for s in step.optimizer.state.values()]
    assert set(moments) == {kept}
    assert step.precision.matmul_dtype == products
    assert step.scaler.is_enabled() == (name == "amp-fp16")


def test_16_bit_training_follows_float32() -> None:
    batches, ends = random_batches(TINY), {}
    for name in ("fp32", "amp-bf16", "amp-fp16", "pure-bf16"):
        step = built(TINY.replace(precision=name))
        ends[name] = [step(batches).item() for _ in range(5)][-1]
    assert ends["amp-bf16"] == pytest.approx(ends["fp32"], abs=0.02)
    assert ends["amp-fp16"] == pytest.approx(ends["fp32"], abs=0.02)
    assert ends["pure-bf16"] == pytest.approx(ends["fp32"], abs=0.1)


def test_loss_scaling_is_undone_once_before_clipping() -> None:
    batches = random_batches(TINY)
    plain, scaled = built(), built(TINY.replace(precision="amp-fp16"))
    plain(batches)
    scaled(batches)
    assert plain.gradient_norm is not None
    assert scaled.gradient_norm is not None
    assert scaled.scaler.get_scale() > 1.0
    assert scaled.gradient_norm.item() == pytest.approx(plain.gradient_norm.item(), rel=0.02)


def test_an_overflowing_fp16_gradient_skips_the_update_and_lowers_the_scale() -> None:
    step = built(TINY.replace(precision="amp-fp16"))
    step.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    before = [p.clone() for p in step.model.parameters()]
    step(random_batches(TINY))
    assert all(torch.equal(a, b) for a, b in zip(before, step.model.parameters(), strict=True))
    assert step.scaler.get_scale() == 2.0**39


def test_clipping_bounds_the_gradient() -> None:
    step = built(clip=1e-3)
    step.backward(random_batches(TINY))
    seen: list[float] = []
    step.optimizer.step = lambda *a, **k: seen.append(  # type: ignore[method-assign]
        torch.linalg.vector_norm(torch.stack([g.norm() for g in gradients(step)])).item())
    step.update()
    assert seen[0] == pytest.approx(1e-3, rel=1e-3)
    assert step.gradient_norm is not None
    assert step.gradient_norm.item() > 0.01


def test_the_document_recipe_is_no_mode_of_pytorch() -> None:
    with pytest.raises(InputError, match="amp-bf16 also keeps 16 bytes"):
        built(TINY.replace(precision="document"))


@pytest.mark.parametrize("name", ["amp-bf16", "pure-bf16"])
def test_emulated_bfloat16_does_not_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def native(including_emulation: bool = True) -> bool:
        return including_emulation  # as on a T4: only with emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", native)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with pytest.raises(UnavailableError, match=r"Tesla T4.*amp-fp16"):
        precision.of(name, "cuda")
    assert precision.of("amp-fp16", "cuda").matmul_dtype == torch.float16


def test_the_gpu_that_is_asked_for_decides_and_not_the_current_one(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    capable = {0: True, 1: False}
    current = [0]

    @contextlib.contextmanager
    def on(device: torch.device) -> Iterator[None]:
        before, current[0] = current[0], device.index
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported",
                        lambda including_emulation: capable[current[0]])
    monkeypatch.setattr(torch.cuda, "get_device_name",
                        lambda device: f"GPU {torch.device(device).index}")
    assert precision.of("amp-bf16", "cuda:0").name == "amp-bf16"
    with pytest.raises(UnavailableError, match="bfloat16 on GPU 1"):
        precision.of("amp-bf16", "cuda:1")
    capable.update({0: False, 1: True})
    assert precision.of("pure-bf16", "cuda:1").name == "pure-bf16"
    assert current == [0]


def test_shapes_reach_the_model() -> None:
    step = built(TINY.replace(attention="materialised", recompute="sqrt"))
    assert step.model.shape == Shape(step.model.shape.name, 2, 32, 2, 256, 300)
    assert (step.model.attention, step.model.recompute) == ("materialised", "sqrt")
