"""Optimizers and their paths: the rules are PyTorch's, the widget says what happened."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ironlaw.errors import InputError
from ironlaw.predict import descent, optimizers
from ironlaw.units import percent
from ironlaw.widgets import optimizer_paths

TORCH = {
    "sgd": lambda p, lr: torch.optim.SGD(p, lr=lr),
    "momentum": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    "rmsprop": lambda p, lr: torch.optim.RMSprop(p, lr=lr),
    "adam": lambda p, lr: torch.optim.Adam(p, lr=lr),
}


@pytest.mark.parametrize("name", descent.SURFACES)
@pytest.mark.parametrize("walker", descent.WALKERS)
def test_walks_are_pytorchs(walker: str, name: str) -> None:
    surface = descent.surface(name)
    ours = descent.walk(walker, surface, surface.start, surface.rate, 60)
    point = torch.tensor(surface.start, dtype=torch.float64, requires_grad=True)
    optimizer = TORCH[walker]([point], surface.rate)
    theirs = [point.detach().numpy().copy()]
    for _ in range(60):
        optimizer.zero_grad()
        surface.loss(point[0], point[1]).backward()  # so the gradient is autograd's too
        optimizer.step()
        theirs.append(point.detach().numpy().copy())
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", descent.SURFACES)
def test_the_minimum_is_one(name: str) -> None:
    surface = descent.surface(name)
    assert surface.loss(*surface.minimum) == 0
    np.testing.assert_allclose(surface.gradient(np.array(surface.minimum)), 0)


@pytest.mark.parametrize(("walker", "beta"), [("sgd", 0.0), ("momentum", 0.9)])
def test_descent_diverges_just_above_the_largest_stable_rate(walker: str, beta: float) -> None:
    surface = descent.surface("narrow bowl")
    limit = descent.largest_stable_rate(descent.STEEP, beta)
    start = (0.0, 1.0)  # along the steep direction alone
    below = descent.walk(walker, surface, start, 0.95 * limit, 200)
    above = descent.walk(walker, surface, start, 1.05 * limit, 200)
    assert abs(below[-1, 1]) < 0.01
    assert abs(above[-1, 1]) > 1000


def test_a_walk_that_flies_off_ends_early() -> None:
    surface = descent.surface("bent valley")
    points = descent.walk("sgd", surface, surface.start, 0.5, 200)
    assert len(points) < 20
    assert np.isfinite(points).all()
    assert np.abs(points[:-1]).max() <= descent.FAR < np.abs(points[-1]).max()


def test_the_promised_learning_rate_exists() -> None:
    """At some rate SGD diverges and Adam arrives, as the chapter asks the reader to find."""
    state = optimizer_paths.preset("narrow bowl", rate=0.1)
    outcome = optimizer_paths.compute(state)
    assert outcome.walks["sgd"].verdict == "diverges"
    assert outcome.walks["adam"].verdict == "arrives"
    assert "SGD diverges and Adam does not" in optimizer_paths.describe(state, outcome)


def test_the_opening_picture_shows_what_the_chapter_says() -> None:
    """Near its limit SGD bounces at every step and is late; the others turn less and arrive."""
    state = optimizer_paths.preset()
    assert 0.9 < state.rate / descent.largest_stable_rate(descent.STEEP) < 1
    walks = optimizer_paths.compute(state).walks
    y = walks["sgd"].points[:, 1]
    assert (y[1:] * y[:-1] < 0).all(), "from wall to wall, every time"
    assert walks["sgd"].reversals == state.steps - 1
    assert walks["momentum"].reversals < walks["sgd"].reversals / 2
    assert walks["rmsprop"].reversals == walks["adam"].reversals == 0
    assert walks["sgd"].verdict == "under way"
    assert {walks[w].verdict for w in ("momentum", "rmsprop", "adam")} == {"arrives"}
    assert "SGD 99, momentum 43, RMSprop 0, Adam 0." in optimizer_paths.still().caption


def test_adams_steps_are_said_to_be_short_where_gradients_alternate() -> None:
    """What the words say: about the learning rate while signs agree, far less where they do not."""
    moved = {}
    for name, sign in (("agree", 1.0), ("alternate", -1.0)):
        state = optimizers.AdamState(0.0, 0.0, 0.0)
        for k in range(200):
            before, state = state, optimizers.adam(state, 0.5 * sign**k, learning_rate=0.1)
        moved[name] = abs(float(state.parameters) - float(before.parameters))
    assert moved["agree"] == pytest.approx(0.1)
    assert moved["alternate"] == pytest.approx(0.00526, abs=1e-5)
    words = optimizer_paths.still(rate=0.1).caption
    assert "about η; where they keep changing sign, by far less" in words


def test_one_step_is_singular() -> None:
    assert "0.079, 1 step in" in optimizer_paths.still(steps=1).caption


def test_words_are_the_walks() -> None:
    state = optimizer_paths.preset("bent valley", rate=0.005, steps=50)
    outcome = optimizer_paths.compute(state)
    surface = descent.surface("bent valley")
    for walker in descent.WALKERS:
        points = descent.walk(walker, surface, surface.start, 0.005, 50)
        share = surface.loss(*points[-1]) / surface.loss(*points[0])
        assert outcome.walks[walker].share == pytest.approx(share)
    words = optimizer_paths.describe(state, outcome)
    assert f"Adam is under way with {percent(outcome.walks['adam'].share, 2)}" in words


def test_panel_walks_again_on_every_change() -> None:
    panel = optimizer_paths.panel()
    drawn, before = panel.canvas.full_draws, panel.picture.value
    panel.rate.value = 0.2
    assert "SGD diverges" in panel.words.value
    panel.steps.value = 20
    panel.x.value, panel.y.value = 2.0, -1.0
    assert panel.picture.value != before
    assert panel.canvas.full_draws == drawn
    panel.walkers["sgd"].value = False
    assert "SGD" not in panel.words.value


def test_another_surface_brings_its_start_and_rate() -> None:
    panel = optimizer_paths.panel()
    for name in ("bent valley", "narrow bowl", "bent valley"):
        panel.surface.value = name
        surface = descent.surface(name)
        now = panel.read()
        assert now.start == surface.start
        assert now.rate == pytest.approx(surface.rate)
        assert name in panel.words.value


def test_nobody_walking_is_an_error_in_words() -> None:
    panel = optimizer_paths.panel()
    before = panel.picture.value
    for box in panel.walkers.values():
        box.value = False
    assert "at least one optimizer" in panel.words.value
    panel.walkers["adam"].value = True
    assert "Adam" in panel.words.value
    assert panel.picture.value != before


def test_paths_outside_the_view_are_drawn_up_to_the_edge() -> None:
    canvas = optimizer_paths.make()
    state = optimizer_paths.preset("narrow bowl", rate=0.3)
    optimizer_paths.update(canvas, state, optimizer_paths.compute(state))
    y = canvas.artists["paths"]["sgd"].get_ydata()
    assert np.abs(y[:-1]).max() <= 1.8 < abs(y[-1])
    assert len(canvas.artists["ends"]["sgd"].get_xdata()) == 0


def test_states_refuse_what_they_cannot_show() -> None:
    with pytest.raises(InputError, match="surface"):
        optimizer_paths.preset("mountain")
    with pytest.raises(InputError, match="start x"):
        optimizer_paths.preset(start=(9.0, 0.0))
    with pytest.raises(InputError, match="rate"):
        optimizer_paths.preset(rate=10.0)
    with pytest.raises(InputError, match="optimizer"):
        descent.walk("lion", descent.surface("narrow bowl"), (0.0, 0.0), 0.1, 5)
