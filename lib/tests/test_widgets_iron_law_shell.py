"""The controls of the iron-law widget: what they take, refuse and write, and the notes."""

from __future__ import annotations

import dataclasses
import html
import re

import pytest
from device_profile import save_profile
from ironlaw.errors import InputError
from ironlaw.predict import cost, flops
from ironlaw.units import DAY
from ironlaw.widgets import iron_law
from ironlaw.widgets.iron_law import state
from ironlaw.widgets.iron_law.state import State, compute


def words(panel: object) -> str:
    return re.sub("<[^>]+>", "", panel.words.value)  # type: ignore[attr-defined]


def test_moving_a_control_changes_words_tiles_and_picture() -> None:
    panel = iron_law.panel()
    before = panel.picture.value
    panel.eta.value = 0.5
    assert "η = 0.50" in words(panel)
    assert panel.picture.value != before
    outcome = compute(panel.read())
    assert state.energy(outcome.joules) in panel.picture.value
    panel.count.value = 6144
    assert "6,144 ×" in words(panel)


def test_one_accelerator_is_singular() -> None:
    panel = iron_law.panel("GPT-2 XL", accelerators=1, deadline_days=3650)
    assert "<b>1 accelerator</b>" in panel.picture.value, "needed"
    assert "is 1 accelerator and" in panel.picture.value, "set"


def test_settings_reach_the_controls() -> None:
    panel = iron_law.panel("GPT-3", accelerator="A100 80GB SXM", dtype="fp16", utilisation=0.44,
                           accelerators=1024, deadline_days=30, price=1.5, watts=350, pue=1.2,
                           kg_per_kwh=0.3, spare=0.25)
    assert panel.read() == State(
        workload="GPT-3", operations=6 * 174.6e9 * 300e9, device="A100 80GB SXM", dtype="fp16",
        peak=312e12, utilisation=0.44, accelerators=1024, deadline=30 * DAY, price=1.5,
        watts=350.0, pue=1.2, kg_per_kwh=0.3, spare=0.25)


@pytest.mark.parametrize(("setting", "value"), [
    ("accelerator", "H1000"), ("dtype", "fp12"), ("utilisation", 40), ("accelerators", 0),
    ("accelerators", 2.5), ("deadline_days", -1), ("spare", 2)])
def test_a_wrong_setting_is_refused(setting: str, value: object) -> None:
    with pytest.raises(InputError):
        iron_law.panel(**{setting: value})


@pytest.mark.parametrize(("field", "text", "expected"), [
    ("deadline", "-3", "deadline = -3.0"), ("deadline", "", "the field is empty"),
    ("price", "abc", "price = 'abc'"), ("price", "-1", "price = -1.0"),
    ("pue", "0.5", "PUE = 0.5"), ("watts", "0", "power = 0.0"),
    ("grid", "0,43", "with a point for decimals")])
def test_wrong_typing_is_explained_and_the_last_picture_stays(
    field: str, text: str, expected: str
) -> None:
    panel = iron_law.panel()
    before = panel.picture.value
    getattr(panel, field).value = text
    assert expected in words(panel).replace("&#x27;", "'")
    assert "last good input" in words(panel)
    assert panel.picture.value == before
    panel.eta.value = 0.41
    assert panel.picture.value == before, "still wrong, so still the old picture"
    getattr(panel, field).value = "2"
    assert panel.picture.value != before


@pytest.mark.parametrize("typed", ["12", "307", "1", "65536", "65,536", "1e3"])
def test_any_whole_number_of_accelerators_is_taken_as_typed(typed: str) -> None:
    panel = iron_law.panel("GPT-3", deadline_days=30)
    panel.count.field.value = typed
    assert panel.read().accelerators == float(typed.replace(",", ""))
    assert panel.count.field.value == typed
    assert panel.count.slider.value == panel.read().accelerators


@pytest.mark.parametrize("typed", ["0", "-3", "2.5", "65537", "1e400", "nan", "", "many", "12 %"])
def test_other_numbers_of_accelerators_are_refused_and_nothing_moves(typed: str) -> None:
    panel = iron_law.panel()
    before, position = panel.picture.value, panel.count.slider.value
    panel.count.field.value = typed
    assert f"accelerators = {typed!r}" in html.unescape(panel.words.value)
    assert "a whole number from 1 to 65,536" in words(panel)
    assert panel.picture.value == before
    assert panel.count.slider.value == position
    assert panel.count.field.value == typed
    panel.count.slider.value = 16
    assert panel.count.field.value == "16"
    assert "16 ×" in words(panel)


def test_the_chapters_exercise_307_meets_the_deadline_that_306_misses() -> None:
    panel = iron_law.panel("GPT-3", deadline_days=30)
    panel.count.field.value = "307"
    assert "meets the deadline of 30 days, with none to spare" in words(panel)
    panel.count.field.value = "306"
    assert "misses the deadline" in words(panel)


@pytest.mark.parametrize("typed", ["2", "45%", "45 %", "0", "-0.4", "40", "0,45"])
def test_a_utilisation_that_is_no_fraction_is_refused(typed: str) -> None:
    panel = iron_law.panel()
    before = panel.picture.value
    panel.eta.field.value = typed
    assert "a number from 0.01 to 1.00" in words(panel)
    assert "write 0.45 for 45 %" in words(panel)
    assert panel.picture.value == before
    assert panel.eta.slider.value == 0.40


def test_a_utilisation_between_the_slider_s_positions_is_computed_and_said_as_typed() -> None:
    panel = iron_law.panel()
    panel.eta.field.value = "0.385"
    assert panel.read().utilisation == 0.385
    assert "η = 0.385 takes" in words(panel)
    panel = iron_law.panel(utilisation=0.385, accelerators=307, spare=1 / 3)
    assert (panel.read().utilisation, panel.read().accelerators) == (0.385, 307)
    assert panel.read().spare == pytest.approx(1 / 3)


def test_an_own_model_and_an_own_o() -> None:
    panel = iron_law.panel()
    assert panel.parameters.disabled
    panel.workload.value = "own model"
    assert not panel.parameters.disabled
    panel.parameters.value, panel.tokens.value = "7", "1,000"
    assert panel.read().operations == pytest.approx(6 * 7e9 * 1e12)
    assert float(panel.operations.value) == pytest.approx(4.2e22)
    panel.workload.value = "own O"
    panel.operations.value = "1e20"
    assert panel.read().operations == 1e20
    panel.workload.value = "GPT-3"
    assert panel.parameters.value == "174.6"
    assert panel.read().operations == pytest.approx(3.14e23, rel=2e-3)


def test_changing_the_accelerator_brings_its_sheet_and_keeps_what_was_typed() -> None:
    panel = iron_law.panel()
    listed = panel.price.value
    panel.price.value = "2.2"
    panel.accelerator.value = "T4"
    assert panel.price.value == ""
    assert panel.watts.value == "70"
    assert panel.dtype.value == "fp16"
    assert "bf16" not in panel.dtype.options
    assert "not known" in panel.picture.value
    panel.accelerator.value = "H100 SXM"
    assert panel.price.value == "2.2" != listed


def test_an_accelerator_change_redraws_once(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = iron_law.panel()
    drawn = []
    monkeypatch.setattr(panel.canvas, "png", lambda: drawn.append(1) or b"")
    panel.accelerator.value = "T4"
    panel.workload.value = "GPT-3"
    assert len(drawn) == 2


def test_this_device_in_the_shell() -> None:
    panel = iron_law.panel()
    before = panel.picture.value
    panel.accelerator.value = state.THIS_DEVICE
    assert "ironlaw calibrate" in words(panel)
    assert panel.picture.value == before
    save_profile()
    panel.accelerator.value = "H100 SXM"
    panel.accelerator.value = state.THIS_DEVICE
    assert "Test CPU in FP32" in words(panel)
    assert panel.watts.value == ""


def test_the_price_of_the_document_is_marked_as_its_assumption() -> None:
    assert "an assumption of the scenario" in iron_law.panel().notes.value


def test_the_bill_is_predicts_own() -> None:
    now = state.preset("GPT-3", accelerators=100)
    found = compute(now)
    assert now.price is not None
    assert found.cost == cost.rent(100, found.seconds, now.price)


def test_the_accelerator_may_be_named_loosely() -> None:
    panel = iron_law.panel(accelerator="a100-80gb-sxm")
    assert panel.accelerator.value == "A100 80GB SXM"
    assert "8 × A100 80GB SXM" in words(panel)


def test_the_ceiling_of_eta_is_in_model_flop_and_says_so() -> None:
    panel = iron_law.panel(utilisation=0.50)
    notes = html.unescape(panel.notes.value)
    assert "η by 0.462, the MFU that Chowdhery et al. (2022) report" in notes
    assert f"in model FLOP they are {flops.mfu_from_hfu(0.52):.0%}" in notes
    texts = [t.get_text() for t in panel.canvas.artists["bar_texts"]]
    assert texts[2] == "1.00×\npast 0.462"
    assert "η 1.00 times (past 0.462 already)" in panel.picture.value
    panel.eta.value = 0.231
    assert panel.canvas.artists["bar_texts"][2].get_text().startswith("2.00×")
    assert "past" not in panel.picture.value


def test_the_notes_say_the_same_factor_not_the_same_difference() -> None:
    notes = iron_law.panel().notes.value
    assert "half the O, twice the R_peak and twice the η each halve" in notes
    assert "tenth" not in notes
    now = state.preset()
    halves = [dataclasses.replace(now, operations=now.operations / 2),
              dataclasses.replace(now, peak=now.peak * 2),
              dataclasses.replace(now, utilisation=now.utilisation * 2)]
    assert [compute(n).seconds for n in halves] == pytest.approx([compute(now).seconds / 2] * 3)
