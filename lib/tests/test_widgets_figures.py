"""The still figures of chapter 1: the schedules behind them, and what they say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw import hardware, transformer
from ironlaw.errors import InputError
from ironlaw.predict import iron_law, memory
from ironlaw.units import GB, significant
from ironlaw.widgets import figures
from ironlaw.widgets.figures import busy_share, schedule

times = st.floats(0.0, 100.0)
durations = st.tuples(times, times, st.floats(0.1, 100.0), times)


@settings(max_examples=80, deadline=None)
@given(durations=durations, steps=st.integers(1, 8), overlapped=st.booleans())
def test_a_schedule_breaks_no_rule(
    durations: tuple[float, ...], steps: int, overlapped: bool
) -> None:
    spans = {(s.step, s.stage): s for s in schedule(durations, steps, overlapped=overlapped)}
    assert len(spans) == 4 * steps
    for (step, stage), span in spans.items():
        assert span.end - span.start == pytest.approx(durations[stage])
        if stage:
            assert span.start >= spans[step, stage - 1].end, "stages follow each other"
        if step:
            assert span.start >= spans[step - 1, stage].end, "one resource, one batch at a time"
        if step and stage == 2:
            assert span.start >= spans[step - 1, 3].end, "the new weights come first"
        if step and not overlapped:
            assert span.start >= spans[step - 1, 3].end


@settings(max_examples=80, deadline=None)
@given(durations=durations)
def test_the_steady_step_is_the_sum_or_the_slowest_chain(durations: tuple[float, ...]) -> None:
    load, copy, compute, sync = durations
    steps = 30
    serial = schedule(durations, steps, overlapped=False)
    ahead = schedule(durations, steps, overlapped=True)
    assert serial[-1].end == pytest.approx(steps * sum(durations))
    slowest = max(load, copy, compute + sync)
    assert ahead[-1].end <= serial[-1].end * (1 + 1e-9)
    assert ahead[-1].end == pytest.approx(sum(durations) + (steps - 1) * slowest)
    assert busy_share(serial) == pytest.approx(compute / sum(durations))
    assert busy_share(ahead) == pytest.approx(compute / slowest)


@pytest.mark.parametrize(("bad", "named"), [
    ((1, 2, 3), "durations"), ((1, 2, -3, 4), r"durations\[2\]"), ((1, 2, 0, 4), r"durations\[2\]"),
    ((1, float("nan"), 3, 4), r"durations\[1\]")])
def test_impossible_durations_are_refused(bad: tuple[float, ...], named: str) -> None:
    with pytest.raises(InputError, match=named):
        schedule(bad, 3, overlapped=True)


def test_the_bubble_figure_says_its_numbers() -> None:
    still = figures.pipeline_bubbles(60, 10, 80, 20, steps=4)
    assert "170 ms a step" in still.caption
    assert "47.1 %" in still.caption
    assert "100 ms" in still.caption
    assert "80.0 %" in still.caption
    assert "synchronisation, which prefetching cannot hide" in still.caption
    starved = figures.pipeline_bubbles(200, 10, 80, 20)
    assert "200 ms" in starved.caption
    assert "loading: the bubble shrinks but stays" in starved.caption
    assert "No bubble is left" in figures.pipeline_bubbles(10, 10, 80, 0).caption
    assert starved.png != still.png


def test_the_cost_figure_is_a_straight_line_between_two_marked_estimates() -> None:
    still = figures.cost_scale()
    assert "2,000 times apart" in still.caption
    assert "outside estimates" in still.caption
    assert "no point on the line is a knee" in still.caption
    assert "$50,000 (GPT-2 class)" in still.alt
    assert "$100 million (GPT-4 class)" in still.alt
    assert "an assumption of the scenario" in still.caption
    assert "assumption" not in figures.cost_scale(price_per_hour=3.0).caption


def test_the_cost_figure_follows_price_and_utilisation() -> None:
    base = figures.cost_scale(price_per_hour=1.0, utilisation=0.4)
    dearer = figures.cost_scale(price_per_hour=2.0, utilisation=0.4)
    thriftier = figures.cost_scale(price_per_hour=2.0, utilisation=0.8)
    assert base.alt != dearer.alt
    assert base.alt == thriftier.alt, "twice the price at twice the utilisation costs the same"


def test_without_a_known_price_the_cost_figure_asks_for_one() -> None:
    unpriced = next(n for n in hardware.names() if hardware.accelerator(n).price.value is None)
    with pytest.raises(InputError, match="price"):
        figures.cost_scale(unpriced)
    assert unpriced in hardware.names()
    assert "$" in figures.cost_scale(unpriced, price_per_hour=1.0).alt


def test_the_state_figure_is_definition_1_1() -> None:
    still = figures.state_bytes(7e9)
    kept = memory.training_state(7e9)
    assert kept.total / GB == 112
    for part in ("112 GB", "weights 14.0 GB", "gradients 14.0 GB", "FP32 master copy 28.0 GB",
                 "Adam's two moments 56.0 GB", "8.0 times as much"):
        assert part in still.caption, part
    assert still.caption in still.alt


@pytest.mark.parametrize("still", [figures.cost_scale, figures.pipeline_bubbles,
                                   figures.state_bytes])
def test_every_figure_has_alt_text_and_a_picture(still: object) -> None:
    made = still()  # type: ignore[operator]
    assert len(made.alt) > 60
    assert made.png.startswith(b"\x89PNG")
    assert f'alt="{made.alt[:20]}' in made._repr_html_()


@pytest.mark.parametrize(("accelerator", "side"), [("H100 SXM", "below"),
                                                   ("V100 32GB SXM", "above")])
def test_the_cost_caption_says_where_gpt2_s_dot_lies_and_whose_the_price_is(
    accelerator: str, side: str
) -> None:
    chip = hardware.accelerator(accelerator)
    caption = figures.cost_scale(accelerator).caption
    run = transformer.WORKLOADS["GPT-2 XL"]
    hours = iron_law.training_seconds(
        iron_law.training_flops(run.parameters, run.tokens),
        chip.peak(chip.training_dtype), 0.40) / 3600
    times = hours * chip.value("price") / figures.GPT2_CLASS_COST
    apart = significant(max(times, 1 / times), 2)
    assert (side == "below") == (times < 1)
    assert f"dot lies {apart} times {side} the GPT-2 estimate" in caption
    assert "The price is from the course's source document" in caption
    assert "Price: The" not in caption
    assert caption.endswith(").")
    assert "The price is" not in figures.cost_scale(accelerator, price_per_hour=2.0).caption
