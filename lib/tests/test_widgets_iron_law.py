"""The iron-law widget: what follows from a state, how it is said, and the shell around it."""

from __future__ import annotations

import dataclasses
import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw import hardware, transformer, workspace
from ironlaw.errors import InputError, UnavailableError
from ironlaw.predict import cost, flops
from ironlaw.results import DeviceProfile, MatmulRate
from ironlaw.units import DAY
from ironlaw.widgets import iron_law
from ironlaw.widgets.iron_law import picture, state
from ironlaw.widgets.iron_law.state import State, compute, describe

A_STATE = {"workload": "w", "operations": 1.5e21, "device": "d", "dtype": "bf16", "peak": 312e12}


def save_profile(rate: float = 2e11) -> None:
    workspace.save_profile(DeviceProfile(
        name="Test CPU", device_type="cpu", threads=2, memory_bytes=8e9,
        matmul={"fp32": MatmulRate(dtype="fp32", flops_per_second=rate, size=1024,
                                   by_size={"1024": rate})},
        copy_bytes_per_second=1e10, launch_seconds=None, host_to_device_bytes_per_second=None,
        catalogue_name=None, versions={}, measured_on="2020-01-01"))


# What follows from a state


def test_the_numbers_of_one_state_by_hand() -> None:
    now = State(**A_STATE, utilisation=0.5, accelerators=10, deadline=5 * DAY, price=2.0,
                watts=400.0, pue=1.5, kg_per_kwh=0.5, spare=0.5)
    found = compute(now)
    seconds = 1.5e21 / (312e12 * 0.5 * 10)
    assert found.seconds == pytest.approx(seconds)
    assert found.floor == pytest.approx(seconds / 2)
    assert found.needed == 23  # 111.29 days of one accelerator over 5 days
    assert not found.in_time
    assert found.accelerator_hours == pytest.approx(10 * seconds / 3600)
    assert found.cost == pytest.approx(2.0 * 10 * seconds / 3600)
    assert found.joules == pytest.approx(10 * 400 * seconds * 1.5)
    assert found.carbon_kg == pytest.approx(found.joules / 3.6e6 * 0.5)
    assert found.speedup("O") == pytest.approx(2.0)
    assert found.speedup("eta_hw") == 1.0
    slower = compute(dataclasses.replace(now, utilisation=0.13))
    assert slower.speedup("eta_hw") == pytest.approx(3.0)  # 0.39 over 0.13


@settings(max_examples=60, deadline=None)
@given(eta=st.floats(0.01, 1.0), count=st.integers(1, 65_536), days=st.floats(0.01, 1e5),
       operations=st.floats(1e15, 1e28), peak=st.floats(1e10, 1e16))
def test_needed_accelerators_make_the_deadline_and_one_fewer_does_not(
    eta: float, count: int, days: float, operations: float, peak: float
) -> None:
    now = State(**{**A_STATE, "operations": operations, "peak": peak}, utilisation=eta,
                accelerators=count, deadline=days * DAY)
    found = compute(now)
    assert found.seconds_if_needed <= now.deadline * (1 + 1e-9)
    if found.needed > 1:
        fewer = compute(dataclasses.replace(now, accelerators=found.needed - 1))
        assert fewer.seconds > now.deadline * (1 - 1e-9)
    assert found.in_time == (count >= found.needed)
    assert found.floor <= found.seconds
    assert all(lever.speedup >= 1 for lever in found.levers)


@settings(max_examples=30, deadline=None)
@given(count=st.integers(2, 65_536), eta=st.floats(0.01, 1.0))
def test_at_fixed_utilisation_the_bill_does_not_depend_on_how_many(
    count: int, eta: float
) -> None:
    one = compute(State(**A_STATE, utilisation=eta, accelerators=1, price=3.0, watts=100.0))
    many = compute(State(**A_STATE, utilisation=eta, accelerators=count, price=3.0, watts=100.0))
    assert many.cost == pytest.approx(one.cost)
    assert many.joules == pytest.approx(one.joules)
    assert many.seconds == pytest.approx(one.seconds / count)


def test_the_ceiling_of_r_peak_is_the_best_training_peak_of_the_catalogue() -> None:
    peak, name = state.fastest_training_peak()
    entries = [hardware.accelerator(n) for n in hardware.names()]
    assert peak == max(e.peak(e.training_dtype) for e in entries)
    entry = hardware.accelerator(name)
    assert entry.training_dtype in ("bf16", "fp16")
    beyond = compute(State(**{**A_STATE, "peak": 2 * peak}))
    assert beyond.speedup("R_peak") == 1.0


def test_with_no_room_left_no_lever_is_called_strongest() -> None:
    peak, _ = state.fastest_training_peak()
    now = State(**{**A_STATE, "peak": peak}, utilisation=0.6)
    found = compute(now)
    assert len(found.strongest) == 3
    assert "no lever has room left" in describe(now, found)


def test_presets_are_the_workloads_and_6pd() -> None:
    for name, run in transformer.WORKLOADS.items():
        assert state.preset(name).operations == pytest.approx(6 * run.parameters * run.tokens)
    assert state.preset("GPT-3").operations == pytest.approx(3.14e23, rel=2e-3)


@pytest.mark.parametrize(("field", "value"), [
    ("operations", 0.0), ("peak", -1.0), ("utilisation", 1.2), ("utilisation", 0.0),
    ("accelerators", 0), ("accelerators", 2.5), ("deadline", 0.0), ("price", -1.0),
    ("watts", float("nan")), ("pue", 0.9), ("kg_per_kwh", -0.1), ("spare", 1.0)])
def test_a_state_that_cannot_be_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InputError) as caught:
        State(**{**A_STATE, field: value})
    assert caught.value.argument == field


# Saying it


def test_what_is_not_known_is_said_and_not_invented() -> None:
    now = State(**A_STATE, price=None, watts=None)
    found = compute(now)
    assert found.cost is found.joules is found.carbon_kg is None
    words = describe(now, found)
    assert "cost is not known" in words
    assert "carbon are not known" in words
    assert "$" not in words


def test_the_words_follow_the_numbers() -> None:
    now = state.preset("GPT-2 XL", "V100 32GB SXM", accelerators=32, deadline=14 * DAY)
    found = compute(now)
    words = describe(now, found)
    assert "32 × V100 32GB SXM in FP16" in words
    assert f"meets the deadline of 14 days; {found.needed} would be enough" in words
    exact = dataclasses.replace(now, accelerators=found.needed)
    assert "none to spare" in describe(exact, compute(exact))
    late = dataclasses.replace(now, accelerators=1)
    assert f"misses the deadline of 14 days: it needs {found.needed}" in describe(
        late, compute(late))


@pytest.mark.parametrize(("value", "words"), [(1.5e21, "1.50 × 10²¹ FLOP"),
                                              (3.14e23, "3.14 × 10²³ FLOP")])
def test_operations_are_written_as_the_document_writes_them(value: float, words: str) -> None:
    assert state.flop(value) == words


@pytest.mark.parametrize(("days", "words"), [(3, "3 days"), (2.5, "2.5 days"), (10, "10 days"),
                                             (200, "200 days"), (1, "24 hours")])
def test_a_typed_duration_carries_no_empty_decimals(days: float, words: str) -> None:
    assert state.plain_duration(days * DAY) == words


def test_the_ceiling_of_eta_is_in_model_flop_and_says_so() -> None:
    assert pytest.approx(0.39) == state.BEST_UTILISATION == flops.mfu_from_hfu(0.52)
    panel = iron_law.panel(utilisation=0.40)
    notes = html.unescape(panel.notes.value)
    assert "η by 0.39" in notes
    assert "four forwards where the model needs three" in notes
    assert "0.52" not in notes + panel.picture.value
    texts = [t.get_text() for t in panel.canvas.artists["bar_texts"]]
    assert texts[2] == "1.00×\npast 0.39"
    assert "η 1.00 times (past 0.39 already)" in panel.picture.value
    panel.eta.value = 0.26
    assert panel.canvas.artists["bar_texts"][2].get_text().startswith("1.50×")
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


@pytest.mark.parametrize("name", hardware.names())
def test_sources_read_well_inside_a_sentence(name: str) -> None:
    entry = hardware.accelerator(name)
    for figure in (entry.price, entry.power):
        words = f"Price: {state.origin(figure)}."
        assert ".." not in words
        assert "; ." not in words
        assert "Price: The" not in words
        assert words.count("(") == words.count(")")
        assert (figure.source or figure.reason).rstrip(".)")[4:] in words


# Devices


def test_every_catalogue_entry_can_be_chosen() -> None:
    for name in hardware.names():
        chip = state.device(name)
        entry = hardware.accelerator(name)
        assert chip.usual_dtype == entry.training_dtype
        assert chip.price == entry.price.value
        assert (chip.price is not None) or chip.price_note
        assert set(chip.peaks) <= set(state.TRAINING_DTYPES)


def test_the_names_run_from_slow_to_fast_and_end_with_this_device() -> None:
    names = state.device_names()
    assert names[-1] == state.THIS_DEVICE
    peaks = [hardware.accelerator(n).peak(hardware.accelerator(n).training_dtype)
             for n in names[:-1]]
    assert peaks == sorted(peaks)


def test_this_device_says_how_to_be_measured_and_then_uses_the_measurement() -> None:
    with pytest.raises(UnavailableError, match="ironlaw calibrate"):
        state.device(state.THIS_DEVICE)
    save_profile(2e11)
    chip = state.device(state.THIS_DEVICE)
    assert chip.peak("fp32") == 2e11
    assert chip.price is None
    with pytest.raises(InputError):
        chip.peak("bf16")


# The picture


def test_moving_utilisation_count_and_deadline_keeps_the_background() -> None:
    made = picture.make()
    now = state.preset()
    for change in ({}, {"utilisation": 0.2}, {"accelerators": 4096}, {"deadline": 30 * DAY},
                   {"spare": 0.3}):
        now = dataclasses.replace(now, **change)
        picture.update(made, now, compute(now))
        made.rgba()
    assert made.full_draws == 1


@pytest.mark.parametrize("operations", [1e12, 1.5e21, 1e30])
@pytest.mark.parametrize("peak", [1e9, 1e15])
@pytest.mark.parametrize(("count", "eta"), [(1, 0.01), (65_536, 1.0)])
def test_the_point_and_the_lines_stay_inside_the_axes(
    operations: float, peak: float, count: int, eta: float
) -> None:
    now = State(**{**A_STATE, "operations": operations, "peak": peak}, accelerators=count,
                utilisation=eta)
    made = picture.make()
    picture.update(made, now, compute(now))
    low, high = made.artists["time_axes"].get_ylim()
    for name in ("line", "floor", "point"):
        assert all(low <= y <= high for y in made.artists[name].get_ydata()), name
    assert made.png().startswith(b"\x89PNG")


def test_the_point_lies_at_the_computed_time_and_the_diamond_on_the_line() -> None:
    now = state.preset("GPT-3", accelerators=512)
    found = compute(now)
    made = picture.make()
    picture.update(made, now, found)
    point, needed = made.artists["point"], made.artists["needed"]
    assert (list(point.get_xdata()), list(point.get_ydata())) == ([512], [found.seconds])
    assert list(needed.get_xdata()) == [found.needed]
    assert list(needed.get_ydata()) == [found.seconds_if_needed]
    widths = [bar.get_width() + 1 for bar in made.artists["bars"]]
    assert widths == pytest.approx([found.speedup(t) for t in ("O", "R_peak", "eta_hw")])


def test_the_alt_text_gives_the_numbers() -> None:
    now = state.preset(accelerators=8)
    text = picture.alt_text(now, compute(now))
    assert "8 accelerators and 5.49 days" in text
    assert "η = 0.40" in text


def test_a_still_needs_no_kernel() -> None:
    still = iron_law.still("Llama-2-70B", accelerators=2048)
    assert "2,048 × H100 SXM" in still.caption
    assert "<img" in still._repr_html_()


# The shell


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
