"""A slider and its field agree, and no number that was typed is changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw.widgets import (
    activation_functions,
    adam_memory,
    iron_law,
    layer_flops,
    optimizer_paths,
    roofline,
)
from ironlaw.widgets.number_slider import NumberSlider, decimals, steps

PANELS = (iron_law, layer_flops, activation_functions, optimizer_paths, roofline, adam_memory)


def made(**settings: Any) -> NumberSlider:
    return NumberSlider("Start", "k", steps(-1.8, 1.8, 0.1), 0.5, argument="start",
                        say=decimals(1), **settings)


@settings(max_examples=60, deadline=None)
@given(st.floats(-1.8, 1.8))
def test_every_number_in_the_range_is_kept_exactly(value: float) -> None:
    control = made()
    control.field.value = repr(value)
    assert control.value == value == control.slider.value
    control = made()
    control.value = value
    assert control.value == value == control.slider.value


def test_sliding_writes_the_field_and_changes_once() -> None:
    control = made()
    seen = []
    control.observe(lambda change: seen.append(change["new"]))
    control.slider.value = 0.6
    assert seen == ["0.6"]
    assert control.value == 0.6


def test_a_typed_number_changes_once_and_has_its_own_position() -> None:
    control = made()
    seen = []
    control.observe(lambda change: seen.append(change["new"]))
    control.field.value = "0.55"
    assert seen == ["0.55"]
    values = [v for _, v in control.slider.options]
    at = control.slider.index
    assert values[at - 1:at + 2] == [0.5, 0.55, 0.6]
    control.field.value = "0.25"
    assert 0.55 not in [v for _, v in control.slider.options], "only the last one stays"
    control.slider.index += 1
    assert control.field.value == "0.3"


def test_new_options_and_the_new_position_travel_in_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the two a browser would answer with a position that nobody chose."""
    control = made()
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(type(control.slider), "send_state",
                        lambda self, key=None: sent.append(set(key or ())))
    control.field.value = "0.55"
    assert [keys for keys in sent if keys & {"index", "_options_labels"}] == [
        {"index", "_options_labels"}]


@pytest.mark.parametrize("text", ["", "2", "-1.9", "abc", "1e400", "0,5"])
def test_what_is_not_allowed_is_said_and_the_slider_stands_still(text: str) -> None:
    control = made()
    control.field.value = text
    with pytest.raises(InputError, match=r"a number from -1\.8 to 1\.8") as caught:
        _ = control.value
    assert caught.value.value == text
    assert control.slider.value == 0.5
    assert control.field.value == text


def test_a_new_range_takes_its_number_along() -> None:
    control = made()
    control.regrid(steps(2.0, 9.0, 0.5), 4.25)
    assert control.value == 4.25 == control.slider.value
    with pytest.raises(InputError, match=r"from 2\.0 to 9\.0"):
        control.value = 0.5


@pytest.mark.parametrize("module", PANELS, ids=lambda m: m.__name__.rsplit(".", 1)[-1])
def test_no_widget_has_a_readout_that_changes_what_is_typed(module: Any) -> None:
    """ipywidgets lets one type into the read-out of these, and rounds or clamps it."""
    def tree(widget: Any) -> list[Any]:
        return [widget, *(w for child in getattr(widget, "children", ()) for w in tree(child))]

    kinds = {type(widget).__name__ for widget in tree(module.panel().root)}
    assert "SelectionSlider" in kinds or "Text" in kinds
    clamping = [k for k in kinds if (k.endswith("Slider") and k != "SelectionSlider")
                or k.startswith(("Bounded", "Int", "Float"))]
    assert clamping == []


def test_paths_take_a_rate_steps_and_start_as_typed() -> None:
    panel = optimizer_paths.panel(rate=0.0123, steps=7, start=(1.23, -0.456))
    now = panel.read()
    assert (now.rate, now.steps, now.start) == (0.0123, 7, (1.23, -0.456))
    before = panel.picture.value
    panel.rate.field.value = "30"
    assert "learning rate = &#x27;30&#x27;" in panel.words.value
    assert panel.picture.value == before
    panel.rate.field.value = "0.105"
    panel.steps.field.value = "33"
    assert panel.words.value.count("Learning rate 0.105, 33 steps") == 1
    panel.steps.field.value = "33.5"
    assert "a whole number from 1 to 200" in panel.words.value


def test_another_surface_brings_its_own_start_and_range_exactly() -> None:
    panel = optimizer_paths.panel()
    panel.y.field.value = "nonsense"
    panel.surface.value = "bent valley"
    assert "bent valley" in panel.words.value
    assert panel.read() == optimizer_paths.preset("bent valley")


def test_the_pointer_stands_where_it_was_typed() -> None:
    panel = activation_functions.panel()
    panel.x.field.value = "\N{MINUS SIGN}0.7518"
    assert panel.read().x == -0.7518
    assert "At x = −0.7518" in panel.words.value
    panel.x.field.value = "7"
    assert "a number from -5.00 to 5.00" in panel.words.value
