"""The iron-law widget: what follows from a state, how it is said, and the picture."""

from __future__ import annotations

import dataclasses

import pytest
from device_profile import save_profile
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw import hardware, transformer
from ironlaw.errors import InputError, UnavailableError
from ironlaw.units import DAY
from ironlaw.widgets import iron_law
from ironlaw.widgets.iron_law import picture, state
from ironlaw.widgets.iron_law.state import State, compute, describe

A_STATE = {"workload": "w", "operations": 1.5e21, "device": "d", "dtype": "bf16", "peak": 312e12}


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
    slower = compute(dataclasses.replace(now, utilisation=0.154))
    assert slower.speedup("eta_hw") == pytest.approx(3.0)  # 0.462 over 0.154


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
