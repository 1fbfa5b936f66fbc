"""The layer-FLOP and activation widgets: read-outs equal the predictors, controls redraw."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ironlaw.errors import InputError
from ironlaw.predict import flops, nonlinear
from ironlaw.transformer import MODELS, model
from ironlaw.units import percent, si
from ironlaw.widgets import activation_functions, layer_flops

TORCH = {
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "ReLU": torch.relu,
    "GELU": torch.nn.functional.gelu,
    "GELU, tanh form": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}


# --- the functions themselves -------------------------------------------------------------

@pytest.mark.parametrize("name", TORCH)
def test_functions_and_gradients_are_torchs(name: str) -> None:
    x = np.linspace(-8, 8, 641)
    leaf = torch.tensor(x, requires_grad=True)
    expected = TORCH[name](leaf)
    expected.sum().backward()
    assert leaf.grad is not None
    ours = nonlinear.function(name)
    np.testing.assert_allclose(ours.value(x), expected.detach().numpy(), atol=1e-14)
    np.testing.assert_allclose(ours.gradient(x), leaf.grad.numpy(), atol=1e-13)


def test_sigmoid_does_not_overflow() -> None:
    with np.errstate(all="raise"):
        assert nonlinear.sigmoid([-1e4, 1e4]).tolist() == [0.0, 1.0]


def test_largest_gelu_error_is_the_largest() -> None:
    x, error = nonlinear.largest_gelu_error()
    grid = np.linspace(-9, 9, 7001)
    assert np.abs(nonlinear.gelu_error(grid)).max() <= abs(error) * (1 + 1e-6)
    assert float(nonlinear.gelu_error(x)) == pytest.approx(error)
    assert float(nonlinear.gelu_error(-x)) == pytest.approx(error)


# --- layer FLOP ---------------------------------------------------------------------------

@pytest.mark.parametrize("scope", [layer_flops.BLOCK, layer_flops.MODEL])
@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up_to_the_predicted_total(name: str, scope: str) -> None:
    outcome = layer_flops.compute(layer_flops.State(name, 777, 3, scope))
    shape = model(name)
    whole = scope == layer_flops.MODEL
    expected = (flops.forward_per_step(shape, 3, 777) if whole
                else flops.block_forward(3, 777, shape.width))
    assert sum(outcome.parts.values()) == pytest.approx(expected)
    assert outcome.total == expected
    assert outcome.step == pytest.approx(3 * expected)


@pytest.mark.parametrize("scope", [layer_flops.BLOCK, layer_flops.MODEL])
def test_attention_is_half_at_the_crossing_and_nowhere_else(scope: str) -> None:
    shape = model("gpt2-124m")
    crossing = layer_flops.compute(layer_flops.State("gpt2-124m", 64, 1, scope)).crossing

    def share(seq: int) -> float:
        return layer_flops.compute(layer_flops.State("gpt2-124m", seq, 1, scope)).share(
            "attention")

    assert share(round(crossing)) == pytest.approx(0.5, abs=1e-4)
    assert share(round(crossing / 2)) < 0.45
    assert share(round(crossing * 2)) > 0.55
    if scope == layer_flops.BLOCK:
        assert crossing == 6 * shape.width


def test_layer_panel_says_what_predict_says() -> None:
    panel = layer_flops.panel("gpt2-1558m")
    assert si(flops.block_forward(32, 1024, 1600), "FLOP") in panel.words.value
    before = panel.picture.value
    panel.seq.value = 2**14
    assert panel.picture.value != before
    one = flops.layer_forward(32, 2**14, 1600)
    assert percent((one.scores + one.weighted_values) / one.total) in panel.words.value
    assert "overtook" in panel.words.value
    panel.scope.value = layer_flops.MODEL
    assert si(flops.forward_per_step(model("gpt2-1558m"), 32, 2**14), "FLOP") in panel.words.value


def test_layer_panel_redraws_only_what_moves() -> None:
    panel = layer_flops.panel()
    drawn = panel.canvas.full_draws
    for seq in (64, 384, 9600):
        panel.seq.value = seq
    panel.batch.value = 8
    assert panel.canvas.full_draws == drawn
    panel.model.value = "nano"
    assert panel.canvas.full_draws == drawn + 1


# --- activation functions -----------------------------------------------------------------

@pytest.mark.parametrize("x", [-4.9, -0.75, 0.0, 2.7])
def test_activation_readout_is_the_functions_value(x: float) -> None:
    outcome = activation_functions.compute(activation_functions.State("tanh", x))
    for name, f in nonlinear.FUNCTIONS.items():
        assert outcome.values[name] == float(f.value(x))
        assert outcome.gradients[name] == float(f.gradient(x))


def test_activation_words_tell_flat_from_dead_from_negative() -> None:
    def words(function: str, x: float) -> str:
        state = activation_functions.State(function, x)
        return activation_functions.describe(state, activation_functions.compute(state))

    assert "flat" in words("tanh", -4)
    assert "exactly zero" in words("ReLU", -1)
    assert "dips below zero" in words("GELU", -1)
    assert "flat" not in words("sigmoid", 0)


def test_activation_panel_moves_without_a_full_draw() -> None:
    panel = activation_functions.panel()
    drawn, before = panel.canvas.full_draws, panel.picture.value
    panel.x.value = -2.0
    panel.function.value = "sigmoid"
    assert panel.canvas.full_draws == drawn
    assert panel.picture.value != before
    assert "sigmoid is 0.119" in panel.words.value


def test_states_refuse_what_they_cannot_show() -> None:
    with pytest.raises(InputError, match="GELU"):
        activation_functions.State("gelu2")
    with pytest.raises(InputError, match=r"x = 9"):
        activation_functions.State("GELU", 9.0)
    with pytest.raises(InputError, match="scope"):
        layer_flops.State("nano", 8, 8, "everything")
    with pytest.raises(InputError, match="seq"):
        layer_flops.State("nano", 0)


def test_stills_describe_themselves() -> None:
    for still in (layer_flops.still("nano"), activation_functions.still("ReLU", -1)):
        assert still.png.startswith(b"\x89PNG")
        assert len(still.alt) > 100
        assert still.alt in repr(still)
