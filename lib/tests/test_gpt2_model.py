"""GPT-2: the original's logits, and switches that change the work but not the result."""

from __future__ import annotations

import math

import pytest
import torch
from ironlaw.errors import InputError
from ironlaw.gpt2.model import GPT, IGNORED
from ironlaw.gpt2.pretrained import load_transformers
from ironlaw.transformer import MODELS, Shape
from torch import Tensor

SMALL = Shape("small", layers=4, width=64, heads=4, context=128, vocab=512)
SWITCHES = [(a, r) for a in ("flash", "materialised")
            for r in ("none", "selective", "every-block", "sqrt")]


def made(**switches: object) -> GPT:
    torch.manual_seed(0)
    return GPT(SMALL, **switches)  # type: ignore[arg-type]


def drawn(batch: int = 2, seq: int = 128, vocab: int = 512) -> Tensor:
    return torch.randint(vocab, (batch, seq), generator=torch.Generator().manual_seed(1))


def original(shape: Shape) -> torch.nn.Module:
    """A GPT-2 of the `transformers` library with random weights, biases included."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=shape.vocab, n_positions=shape.context, n_embd=shape.width,
        n_layer=shape.layers, n_head=shape.heads, bos_token_id=0, eos_token_id=0)
    torch.manual_seed(0)
    model: torch.nn.Module = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # zero at the start, which would hide a swapped one
                parameter.normal_(std=0.1)
    return model


@pytest.mark.parametrize("attention", ["flash", "materialised"])
def test_logits_equal_the_original_architecture(attention: str) -> None:
    theirs = original(SMALL)
    ours = made(attention=attention).eval()
    load_transformers(ours, theirs.state_dict())
    tokens = drawn()
    assert torch.allclose(ours(tokens), theirs(tokens).logits, atol=1e-4, rtol=0)


def test_logits_equal_the_original_at_the_size_of_gpt2() -> None:
    shape = MODELS["gpt2-124m"]
    theirs = original(shape)
    ours = GPT(shape, attention="materialised").eval()
    load_transformers(ours, theirs.state_dict())
    tokens = drawn(1, 32, shape.vocab)
    with torch.no_grad():
        assert torch.allclose(ours(tokens), theirs(tokens).logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_of_the_shape_with_the_head_tied(name: str) -> None:
    with torch.device("meta"):
        model = GPT(MODELS[name])
    assert sum(p.numel() for p in model.parameters()) == MODELS[name].parameters


def test_loading_refuses_a_wrong_state_and_changes_nothing() -> None:
    theirs, ours = original(SMALL).state_dict(), made()
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    with pytest.raises(InputError, match=r"h\.2\.mlp\.c_fc\.weight"):
        load_transformers(ours, {k: v for k, v in theirs.items() if "h.2.mlp.c_fc.w" not in k})
    wrong = {**theirs, "transformer.ln_f.weight": torch.ones(SMALL.width + 1)}
    with pytest.raises(InputError, match="must be of shape"):
        load_transformers(ours, wrong)
    assert all(torch.equal(value, before[name]) for name, value in ours.state_dict().items())


@pytest.mark.parametrize("attention", ["flash", "materialised"])
def test_no_position_sees_a_later_token(attention: str) -> None:
    model, tokens = made(attention=attention).eval(), drawn()
    changed = tokens.clone()
    changed[:, 100] = (changed[:, 100] + 1) % SMALL.vocab
    first, second = model(tokens), model(changed)
    assert torch.equal(first[:, :100], second[:, :100])
    assert not torch.allclose(first[:, 100:], second[:, 100:])


def loss_and_gradients(model: GPT, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(7)  # for dropout
    loss = model.loss(tokens, tokens.roll(-1, 1))
    loss.backward()
    return loss.detach(), [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize(("attention", "recompute"), SWITCHES)
def test_recomputation_changes_no_digit(attention: str, recompute: str, dropout: float) -> None:
    plain = made(attention=attention, dropout=dropout)
    other = made(attention=attention, dropout=dropout, recompute=recompute)
    loss, gradients = loss_and_gradients(plain, drawn())
    again, recomputed = loss_and_gradients(other, drawn())
    assert torch.equal(loss, again)
    assert len(gradients) == len(recomputed) == len(list(plain.parameters()))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients, recomputed, strict=True))


def test_both_attentions_compute_the_same() -> None:
    loss, gradients = loss_and_gradients(made(attention="flash"), drawn())
    other, theirs = loss_and_gradients(made(attention="materialised"), drawn())
    assert torch.allclose(loss, other, atol=1e-5)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(gradients, theirs, strict=True))


def saved_bytes(layers: int, dtype: torch.dtype | None = None, **switches: object) -> int:
    """Bytes that autograd keeps after a forward pass, each storage once, without weights."""
    torch.manual_seed(0)
    model = GPT(Shape("some", layers, 64, 4, 128, 512), **switches)  # type: ignore[arg-type]
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    tokens = drawn()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        if dtype is None:
            loss = model.loss(tokens, tokens)
        else:
            with torch.autocast("cpu", dtype=dtype):
                loss = model.loss(tokens, tokens)
    assert loss.requires_grad
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def per_block(**switches: object) -> float:
    return (saved_bytes(4, **switches) - saved_bytes(2, **switches)) / 2  # type: ignore[arg-type]


def test_a_block_saves_exactly_the_bytes_of_cuda() -> None:
    """Under autocast: 36 bsh + 16 bs + 4 abs, cast weights 24 h^2, and 6 abs^2 for scores."""
    b, s, h, a = 2, 128, 64, 4
    flash = 36 * b * s * h + 16 * b * s + 4 * a * b * s + 24 * h * h
    assert per_block(dtype=torch.bfloat16) == flash
    scores = 6 * a * b * s * s - 4 * a * b * s  # and no log-sum-exp of the fused kernel
    assert per_block(dtype=torch.bfloat16, attention="materialised") == flash + scores
    masks = a * b * s * s + 2 * b * s * h  # one byte an element
    assert per_block(dtype=torch.bfloat16, attention="materialised",
                     dropout=0.1) == flash + scores + masks


def test_recomputation_saves_what_it_promises() -> None:
    b, s, h, a = 2, 128, 64, 4
    whole = per_block(attention="materialised")
    selective = per_block(attention="materialised", recompute="selective")
    assert whole - selective >= 4 * a * b * s * s
    assert per_block(attention="flash", recompute="selective") == per_block(attention="flash")
    assert per_block(attention="materialised", recompute="every-block") == 4 * b * s * h
    totals = [saved_bytes(4, attention="materialised", recompute=r)
              for r in ("none", "selective", "every-block", "sqrt")]
    assert totals == sorted(totals, reverse=True)


def test_sliced_loss_is_the_same_and_holds_fewer_logits() -> None:
    loss, gradients = loss_and_gradients(made(), drawn())
    sliced, theirs = loss_and_gradients(made(loss_rows=50), drawn())  # 256 rows: uneven slices
    assert torch.allclose(loss, sliced, atol=1e-6)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients, theirs, strict=True))
    rows, vocab = 2 * 128, 512
    assert saved_bytes(2) - saved_bytes(2, loss_rows=64) >= 0.9 * 4 * rows * vocab


def test_ignored_targets_do_not_count() -> None:
    model, tokens = made(), drawn()
    targets = tokens.roll(-1, 1)
    half = targets.clone()
    half[1] = IGNORED
    assert torch.allclose(model.loss(tokens, half), model.loss(tokens[:1], targets[:1]))
    assert model.loss(tokens, torch.full_like(targets, IGNORED)).item() == 0.0


def test_a_fresh_model_guesses_uniformly_and_its_branches_start_small() -> None:
    model, tokens = made(), drawn(8)
    assert model.loss(tokens, drawn(8).flip(0)).item() == pytest.approx(math.log(512), rel=0.02)
    block = model.blocks[0]
    assert block.feed_forward.expand.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert block.feed_forward.contract.weight.std().item() == pytest.approx(
        0.02 / math.sqrt(8), rel=0.05)
    assert model.position_embedding.weight.std().item() == pytest.approx(0.01, rel=0.05)


def test_dropout_acts_in_training_only() -> None:
    model, tokens = made(dropout=0.5), drawn()
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


@pytest.mark.parametrize(("changes", "named"), [
    ({"attention": "flsh"}, "attention"),
    ({"recompute": "all"}, "recompute"),
    ({"dropout": 1.0}, "dropout"),
    ({"loss_rows": -1}, "loss_rows"),
    ({"recompute": "every-0"}, "recompute"),
    ({"attention": "tiled", "dropout": 0.1}, "dropout"),
])
def test_bad_switches_are_named(changes: dict[str, object], named: str) -> None:
    with pytest.raises(InputError) as caught:
        made(**changes)
    assert caught.value.argument == named


def test_a_text_longer_than_the_context_is_refused() -> None:
    with pytest.raises(InputError, match="1 <= S <= 128"):
        made()(drawn(1, 129))
