"""Prediction beside measurement: a line through two steps, and residuals that add up."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from comparing import CONFIG, PEAK, anchors, measurement, parts_of, profile
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw import cli, compare, compare_text, workspace
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.predict import flops, step_time
from ironlaw.results import DeviceProfile, StepMeasurement, load

times = st.floats(1e-4, 1e3)
sizes = st.integers(1, 10**6)


# --- the two models of a step's duration -------------------------------------------------------

def test_the_iron_law_of_one_step() -> None:
    assert step_time.from_peak(3e12, 1e12) == 3.0
    assert step_time.from_peak(3e12, 1e12, eta=0.5) == 6.0
    assert step_time.from_profile(profile(), 3e12, "fp32", eta=0.5) == 6.0
    with pytest.raises(InputError, match="eta"):
        step_time.from_peak(3e12, 1e12, eta=50)
    with pytest.raises(InputError, match="bf16"):
        step_time.from_profile(profile(), 3e12, "bf16")


@settings(deadline=None)
@given(sizes, times, sizes, times)
def test_the_line_goes_through_its_points_or_says_why_not(
        tokens_a: int, seconds_a: float, tokens_b: int, seconds_b: float) -> None:
    rising = (tokens_a - tokens_b) * (seconds_a - seconds_b) > 0
    if not rising:
        with pytest.raises(InputError):
            step_time.through(tokens_a, seconds_a, tokens_b, seconds_b)
        return
    line = step_time.through(tokens_a, seconds_a, tokens_b, seconds_b)
    assert line == step_time.through(tokens_b, seconds_b, tokens_a, seconds_a)
    assert line.alpha >= 0
    assert line.beta > 0
    many, slow = max((tokens_a, seconds_a), (tokens_b, seconds_b))
    assert line.seconds(many) == pytest.approx(slow, rel=1e-6)
    if line.alpha > 0:
        few, quick = min((tokens_a, seconds_a), (tokens_b, seconds_b))
        assert line.seconds(few) == pytest.approx(quick, rel=1e-6)


@settings(deadline=None)
@given(st.floats(0, 10), st.floats(1e-9, 1e-2), st.integers(1, 1000), st.integers(2, 50))
def test_a_known_line_is_found_again(alpha: float, beta: float, few: int, times_more: int) -> None:
    true = step_time.Line(alpha, beta)
    many = few * times_more
    found = step_time.through(few, true.seconds(few), many, true.seconds(many)) \
        if true.seconds(many) > true.seconds(few) else true
    assert found.seconds(7 * many) == pytest.approx(true.seconds(7 * many), rel=1e-3)


def test_the_rate_rises_towards_one_over_beta() -> None:
    line = step_time.Line(alpha=0.02, beta=1e-5)
    rates = [line.tokens_per_second(n) for n in (10, 1000, 100_000, 10**8)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(1e5, rel=1e-3)
    assert line.fixed_share(2000) == pytest.approx(0.5)


def test_measurements_that_differ_in_more_than_size_make_no_line() -> None:
    few, more = anchors(0.01, 1e-5)
    assert step_time.through_measurements(few, more).alpha == pytest.approx(0.01)
    other = measurement(CONFIG.replace(batch=4, precision="amp-bf16"), 1.0)
    with pytest.raises(InputError, match="precision"):
        step_time.through_measurements(few, other)


def test_the_optimizers_pass_is_its_bytes_over_the_bandwidth() -> None:
    assert step_time.optimizer_seconds(1e9, 28, 14e9) == 2.0
    assert step_time.run_seconds(0.25, 200) == 50.0


# --- rows -------------------------------------------------------------------------------------

def test_rows_come_in_order_and_agree_with_each_other() -> None:
    laid = compare.lay(measurement(seconds=0.12), anchors=anchors(0.02, 8e-5), profile=profile())
    assert [row.key for row in laid.rows] == list(compare.KEYS)
    step, rate, mfu, run = (laid.row(k) for k in ("step_seconds", "tokens_per_second", "mfu",
                                                  "run_seconds"))
    assert step.predicted == pytest.approx(0.02 + 8e-5 * 1024)
    assert step.measured == 0.12
    assert step.residual == pytest.approx(0.12 / 0.10192 - 1)
    assert rate.predicted == pytest.approx(1024 / 0.10192)
    assert mfu.predicted == pytest.approx(
        flops.per_token(CONFIG.shape, 128) * 1024 / 0.10192 / PEAK)
    assert run.predicted == pytest.approx(10 * 0.10192)
    assert run.measured == pytest.approx(1.2)
    assert laid.row("flops_per_token").residual == 0


@settings(deadline=None)
@given(alpha=st.floats(0, 0.05), beta=st.floats(1e-6, 1e-4), seconds=st.floats(0.01, 1.0),
       bandwidth=st.none() | st.floats(1e9, 1e12), line=st.booleans())
def test_parts_sum_to_the_residual(alpha: float, beta: float, seconds: float,
                                   bandwidth: float | None, line: bool) -> None:
    laid = compare.lay(measurement(seconds=seconds, samples=[seconds, 2 * seconds, seconds]),
                       anchors=anchors(alpha, beta) if line else None,
                       profile=profile(bandwidth))
    for key in ("floor_seconds", "run_seconds"):
        row = laid.row(key)
        if row.predicted is None:
            assert not row.parts
            assert row.reason
            continue
        assert row.measured is not None
        assert sum(p.amount for p in row.parts) == pytest.approx(
            row.measured - row.predicted, abs=1e-9)


def test_the_optimizers_estimate_follows_its_rule_and_width() -> None:
    def update(optimizer: str, precision: str) -> float:
        config = CONFIG.replace(optimizer=optimizer, precision=precision)
        laid = compare.lay(measurement(config), anchors=anchors(0.09, 1e-5, config),
                           profile=profile())
        return laid.row("floor_seconds").parts[0].amount

    p = CONFIG.shape.parameters
    assert update("adamw", "fp32") == pytest.approx(p * 40 / 20e9)
    assert update("sgd", "amp-bf16") == pytest.approx(p * 24 / 20e9)
    assert update("adamw-fused", "pure-bf16") == pytest.approx(p * 20 / 20e9)


def test_without_anchors_it_takes_an_eta_or_says_so() -> None:
    laid = compare.lay(measurement())
    assert laid.row("step_seconds").predicted is None
    assert "eta" in laid.row("step_seconds").reason
    assert laid.row("floor_seconds").predicted is not None
    half = compare.lay(measurement(), eta=0.5)
    assert half.row("step_seconds").predicted == pytest.approx(
        2 * half.row("floor_seconds").predicted)  # type: ignore[operator]
    assert half.row("mfu").predicted == pytest.approx(0.5)


def test_without_a_peak_the_line_still_predicts() -> None:
    laid = compare.lay(measurement(peak=None), anchors=anchors(0.02, 8e-5))
    assert laid.row("step_seconds").predicted is not None
    for key in ("floor_seconds", "mfu"):
        assert laid.row(key).predicted is None
        assert "no peak" in laid.row(key).reason.lower()
    assert "No peak" in str(laid)
    assert compare.lay(measurement(peak=None), eta=0.5).row("step_seconds").predicted is None


def test_a_guess_is_kept_and_judged() -> None:
    laid = compare.lay(measurement(seconds=0.1), anchors=anchors(0.02, 8e-5),
                       guesses={"step_seconds": 0.2})
    row = laid.row("step_seconds")
    assert row.guess == 0.2
    assert row.guess_residual == pytest.approx(-0.5)
    text = str(laid)
    assert "guess" in text.splitlines()[2]
    assert "your guess was too high: the measurement is 50.0 % below it" in text
    assert "guess" not in str(compare.lay(measurement()))
    for bad in ({"speed": 1.0}, {"mfu": "fast"}, {"mfu": float("nan")}):
        with pytest.raises(InputError, match="guesses"):
            compare.lay(measurement(), guesses=bad)  # type: ignore[arg-type]


def test_noise_is_told_from_a_real_difference() -> None:
    def words(spread: float) -> str:
        return compare.lay(measurement(seconds=0.12, spread=spread),
                           anchors=anchors(0.02, 8e-5)).row("step_seconds").why

    assert "noise alone may explain it" in words(0.05)
    assert "does not explain" in words(0.001)


def test_a_comparison_travels_as_json() -> None:
    laid = compare.lay(measurement(), anchors=anchors(0.02, 8e-5), profile=profile(),
                       guesses={"mfu": 0.3})
    assert load(json.dumps(laid.to_json())) == laid


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_a_table_with_a_caption_and_escaped_text() -> None:
    measured = measurement()
    odd = StepMeasurement.from_json(measured.to_json() | {"device": "<b>CPU & co</b>"})
    laid = compare.lay(odd, anchors=anchors_on(odd.device), profile=profile())
    page = Tags()
    page.feed(laid._repr_html_())
    assert not page.open
    assert page.seen.count("tr") == 1 + len(compare.KEYS)
    assert {"caption", "thead", "th"} <= set(page.seen)
    assert "b" not in page.seen
    assert "<b>CPU & co</b>" in page.text


def anchors_on(device: str) -> tuple[StepMeasurement, StepMeasurement]:
    few, more = (StepMeasurement.from_json(m.to_json() | {"device": device})
                 for m in anchors(0.02, 8e-5))
    return few, more


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(4, 256))
def test_anchors_are_smaller_than_the_step_and_differ(batch: int, seq: int) -> None:
    config = RunConfig(batch=batch, seq=seq)
    few, more = compare.anchor_configs(config)
    assert few.tokens_per_step < more.tokens_per_step < config.tokens_per_step
    assert few.replace(batch=1, seq=1) == config.replace(batch=1, seq=1)


def test_a_step_too_small_to_cut_is_refused() -> None:
    with pytest.raises(InputError, match="larger step"):
        compare.anchor_configs(RunConfig(batch=1, seq=2))


@pytest.mark.parametrize("seconds", [0.1, 0.3, 1 / 3, 7.77])
def test_rounding_noise_is_not_shown(seconds: float) -> None:
    """Steps exactly on the line leave parts that are nothing but floating-point residue."""
    beta = seconds / (2 * CONFIG.tokens_per_step)
    slow = seconds / 2 + beta * CONFIG.tokens_per_step
    laid = compare.lay(measurement(seconds=slow, samples=[slow] * 7), profile=profile(),
                       anchors=anchors(seconds / 2, beta))
    parts = [p for row in laid.rows for p in row.parts]
    assert any(0 < abs(p.amount) < 1e-12 for p in parts)
    shown = str(laid)
    assert "e-" not in shown
    assert re.search(r"^ +0 s  not on the line", shown, re.MULTILINE)


def test_a_part_is_shown_to_the_last_place_of_the_values_it_parts() -> None:
    def shown(amount: float) -> str:
        row = compare.Row(key="run_seconds", quantity="run", unit="s", how="", guess=None,
                          predicted=0.0123, measured=2.166, why="", parts=[], reason="")
        return compare_text._share(amount, row)

    assert [shown(x) for x in (0.0, 2e-16, -0.0004, 0.0006, -0.01249, 0.1235, 2.1537)] == [
        "0 s", "0 s", "0 s", "1 ms", "-12 ms", "124 ms", "2.154 s"]


# --- running it ---------------------------------------------------------------------------------

TINY = ["--layers", "1", "--width", "32", "--heads", "2", "--vocab", "64", "--seq", "16"]


def test_the_command_prints_one_json_object_with_both_sides(
        capsys: pytest.CaptureFixture[str]) -> None:
    from ironlaw.measure.device import find

    here = find("cpu")
    fitting = DeviceProfile.from_json(profile().to_json() | {
        "name": here.name, "threads": here.threads})
    workspace.save_profile(fitting)
    status = cli.main(["compare", *TINY, "--steps", "3", "--on", "cpu", "--json",
                       "--recompute", "every-block", "--loss-rows", "0"])
    assert status == 0
    found = json.loads(capsys.readouterr().out)
    keys = {"flops_per_token", "flops_per_step", "hardware_flops_per_step", "memory_bytes",
            "step_seconds", "tokens_per_second", "mfu", "peak_source"}
    assert set(found["predicted"]) == set(found["measured"]) == keys
    assert found["predicted"]["flops_per_token"] == found["measured"]["flops_per_token"]
    assert found["measured"]["hardware_flops_per_step"] > found["measured"]["flops_per_step"]
    assert (found["predicted"]["hardware_flops_per_step"]
            == found["measured"]["hardware_flops_per_step"])
    for side in ("predicted", "measured"):
        kinds = dict(found[side]["memory_bytes"])
        assert kinds.pop("peak") == pytest.approx(sum(kinds.values()), abs=8192)
    assert "memory_bytes" not in found["reasons"]
    for key, split in found["residual_split"].items():
        row = next(r for r in found["comparison"]["rows"] if r["key"] == key)
        assert sum(split.values()) == pytest.approx(row["measured"] - row["predicted"], abs=1e-9)
    assert {"floor_seconds", "memory_bytes"} <= set(found["residual_split"])
    assert set(found["residual_split"]["floor_seconds"]) == {
        "launch", "optimizer", "loss head", "rest"}
    assert found["config"]["attention"] == "materialised"
    assert found["config"]["batch"] == 8
    assert 0 < found["measured"]["mfu"] < 1
    again = load(found["comparison"])
    assert isinstance(again, compare.Comparison)
    assert StepMeasurement.from_json(found["measurement"]).tokens_per_step == 128


def test_a_catalogue_device_that_is_not_here_cannot_be_measured(
        capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", *TINY, "--device", "H100 SXM", "--on", "cpu"]) == 2
    assert "--on" in capsys.readouterr().err


def test_running_out_of_memory_ends_with_what_was_asked_and_a_way_out(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from ironlaw.commands import compare as command

    for words in ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.",
                  "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"):
        def too_much(*_: object, words: str = words, **__: object) -> None:
            raise RuntimeError(words)

        monkeypatch.setattr(command, "_profile", lambda *_: None)
        monkeypatch.setattr(compare, "run", too_much)
        assert cli.main(["compare", "--model", "gpt2-350m", "--batch", "64", "--on", "cpu",
                         "--force"]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert "gpt2-350m with 64 sequences of 1024 tokens" in said
        assert words in said
        assert "This fits: --" in said


def test_an_error_of_another_kind_is_not_called_short_memory(
        monkeypatch: pytest.MonkeyPatch) -> None:
    from ironlaw.commands import compare as command

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(command, "_profile", lambda *_: None)
    monkeypatch.setattr(compare, "run", broken)
    with pytest.raises(RuntimeError, match="something else"):
        cli.main(["compare", *TINY, "--on", "cpu"])


def test_without_a_profile_calibration_gets_a_process_whose_threads_may_spin(
        monkeypatch: pytest.MonkeyPatch) -> None:
    from ironlaw.commands import compare as command

    asked: list[tuple[list[str], dict[str, str]]] = []

    def started(words: list[str], *, env: dict[str, str], **_: object) -> None:
        asked.append((words[1:], env))
        workspace.save_profile(profile())

    monkeypatch.setattr(subprocess, "run", started)
    for _ in range(2):  # the second time there is a profile
        assert command._profile("Some CPU", "cpu", "cpu", {"A": "B"}) == profile()
    assert asked == [(["-m", "ironlaw.cli", "calibrate", "--device", "cpu"], {"A": "B"})]


def test_the_floor_counts_what_the_backward_pass_computes_again() -> None:
    again = CONFIG.replace(recompute="every-block", accumulate=3)
    floor = compare.lay(measurement(again)).row("floor_seconds")
    extra = 3 * flops.recomputed_per_step(again.shape, 8, 128, "every-block")
    plain = flops.per_token(again.shape, 128) * again.tokens_per_step
    assert extra > 0.1 * plain
    assert floor.predicted == pytest.approx((plain + extra) / PEAK)
    assert "recomputation" in floor.how
    assert compare.lay(measurement()).row("floor_seconds").how == "FLOP / peak"


def test_the_words_define_alpha_and_beta_and_name_the_attention() -> None:
    shown = str(compare.lay(measurement(seconds=0.12), anchors=anchors(0.02, 8e-5)))
    assert "alpha = 20.0 ms, what a step costs at any size" in shown
    assert "beta = 80.0 µs, what each token adds" in shown
    assert "flash attention, on Some CPU" in shown.splitlines()[0]
    sliced = compare.lay(measurement(CONFIG.replace(loss_rows=512, attention="materialised")))
    assert "materialised attention, loss in slices of 512 tokens, on" in str(sliced)


def test_a_machine_that_was_busy_while_the_parts_were_timed_is_named() -> None:
    parts = dataclasses.replace(parts_of(), notes={"busy": "Other programs were running."})
    assert "Other programs were running." in str(compare.lay(measurement(), parts=[parts]))
    assert "Other programs" not in str(compare.lay(measurement(), parts=[parts_of()]))


def test_anchors_in_contradiction_leave_the_step_unpredicted(
        monkeypatch: pytest.MonkeyPatch) -> None:
    from ironlaw.measure import parts
    from ironlaw.measure import step as steps

    def busy(configs: list[RunConfig], **_: object) -> list[StepMeasurement]:
        return [measurement(c, t) for c, t in zip(configs, (0.3, 0.2, 0.4), strict=True)]

    monkeypatch.setattr(steps, "measure_steps", busy)
    monkeypatch.setattr(parts, "measure_parts",
                        lambda configs, **_: [parts_of(c) for c in configs])
    lines: list[str] = []
    laid, measured = compare.run(CONFIG, progress=lines.append)
    assert laid.row("step_seconds").predicted is None
    assert "no prediction" in lines[-1]
    assert measured.step_seconds == 0.4


def test_replaying_a_comparison_needs_no_torch() -> None:
    code = ("import sys, json; from ironlaw import compare; from ironlaw.results import load;"
            "laid = compare.lay(load(sys.stdin.read())); str(laid); laid._repr_html_();"
            "print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(measurement().to_json()),
                          capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
