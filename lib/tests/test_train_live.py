"""The loss plot of a notebook, on a display that only remembers."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import pytest
from ironlaw.gpt2 import live, progress
from ironlaw.gpt2.live import LossPlot
from ironlaw.gpt2.train import Progress

IPython = pytest.importorskip("IPython")


class Display:
    """What `IPython.display.display` is to a front end."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []

    def display(self, bundle: dict[str, Any], *, raw: bool, display_id: bool) -> Display:
        assert raw
        assert display_id
        assert not self.shown  # one picture, put up once
        self.shown.append(bundle)
        return self

    def update(self, bundle: dict[str, Any], *, raw: bool) -> None:
        self.shown.append(bundle)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Display:
    made = Display()
    monkeypatch.setattr("IPython.display.display", made.display)
    return made


def at(step: int, steps: int = 100, loss: float | None = None) -> Progress:
    value = 8.0 / step if loss is None else loss
    return Progress(step, steps, value, value, 1e-3, 1234.0)


def test_it_draws_a_few_times_a_second_and_the_last_step_always(screen: Display) -> None:
    now = [0.0]
    plot = LossPlot(progress._speed_and_loss, every_seconds=0.5, clock=lambda: now[0])
    for step in range(1, 101):
        plot(at(step))
        now[0] += 0.1
    # The first, then every fifth or sixth step as tenths of seconds round, and the last.
    assert 17 <= len(screen.shown) <= 21
    lines = [bundle["text/plain"] for bundle in screen.shown]
    assert lines[0].startswith("step 1/100  loss 8.000")
    assert lines[-1].startswith("step 100/100  loss 0.080")
    assert all(bundle["image/png"].startswith(b"\x89PNG") for bundle in screen.shown)
    assert screen.shown[0]["image/png"] != screen.shown[-1]["image/png"]
    assert plot.losses == [8.0 / step for step in range(1, 101)]


def test_the_smooth_line_is_the_mean_of_the_last_steps(screen: Display) -> None:
    plot = LossPlot(progress._speed_and_loss, clock=lambda: 0.0)
    for step in range(1, 31):
        plot(at(step, loss=float(step)))
    assert plot.smooth()[0] == 1.0
    assert plot.smooth()[29] == pytest.approx(sum(range(11, 31)) / 20)


def test_after_a_rewind_the_steps_that_were_undone_are_gone(screen: Display) -> None:
    plot = LossPlot(progress._speed_and_loss, clock=lambda: 0.0)
    for step in (1, 2, 3, 4, 2, 3):
        plot(at(step, loss=float(10 * len(plot.steps) + step)))
    assert plot.steps == [1, 2, 3]


def test_a_notebook_gets_the_plot_and_everything_else_does_not(
    screen: Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not isinstance(progress.reporter(), LossPlot)
    kernel = types.SimpleNamespace(kernel=object())
    monkeypatch.setattr(IPython, "get_ipython", lambda: kernel)
    assert isinstance(progress.reporter(), LossPlot)
    assert not isinstance(progress.reporter(io.StringIO()), LossPlot)  # asked for lines
    monkeypatch.setattr(IPython, "get_ipython", lambda: types.SimpleNamespace())  # a terminal's
    assert not live.in_notebook()
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    assert not live.in_notebook()


def test_it_needs_no_widgets_and_touches_no_figure_of_the_reader(
    screen: Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    LossPlot(progress._speed_and_loss)(at(1, steps=1))
    assert len(screen.shown) == 1
