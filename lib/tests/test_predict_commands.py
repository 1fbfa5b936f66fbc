"""`ironlaw predict`, `plan` and `measure`: their JSON, their words, their exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ironlaw import cli, units, workspace
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.predict import flops, peak, plan
from ironlaw.results import DeviceProfile, MatmulRate

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRONLAW_HOME", str(tmp_path))


def ran(capsys: Capture, *words: str, status: int = 0) -> dict[str, Any]:
    assert cli.main([*words, "--json"]) == status
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def precisions(found: dict[str, Any]) -> set[str]:
    return {p["config"]["precision"] for p in found["plans"]}


def calibrated() -> None:
    workspace.save_profile(DeviceProfile(
        name="a test device", device_type="cpu", threads=2, memory_bytes=16e9,
        matmul={"fp32": MatmulRate(dtype="fp32", flops_per_second=1e11, size=1024,
                                   by_size={"1024": 1e11})},
        copy_bytes_per_second=1e10, launch_seconds=1e-6, host_to_device_bytes_per_second=None,
        catalogue_name=None, versions={}, measured_on="2024-01-01T00:00:00+00:00"))


def test_predict_json_has_the_promised_keys(capsys: Capture) -> None:
    found = ran(capsys, "predict", "--model", "gpt2-124m", "--batch", "12", "--accumulate", "2",
                "--precision", "amp-bf16", "--device", "A100 80GB SXM", "--eta", "0.4")
    config = RunConfig.from_json(found["config"])
    assert set(found["memory_bytes"]) == {"parameters", "gradients", "optimizer", "cast_copies",
                                          "activations", "logits", "transient", "peak"}
    assert found["flops_per_token"] == flops.per_token(config.shape, 1024)
    assert found["flops_per_step"] == pytest.approx(
        found["flops_per_token"] * config.tokens_per_step)
    assert found["hardware_flops_per_step"] == found["flops_per_step"]
    assert found["memory_bytes"]["peak"] == peak.step_memory(config).peak
    assert found["step_seconds"] == pytest.approx(found["flops_per_step"] / (312e12 * 0.4))
    assert found["tokens_per_second"] == pytest.approx(24 * 1024 / found["step_seconds"])
    assert found["mfu"] == pytest.approx(0.4)
    assert "A100 80GB SXM" in found["peak_source"]
    assert found["reasons"] == {}


def test_recomputed_work_lowers_mfu_but_not_model_flops(capsys: Capture) -> None:
    words = ("predict", "--model", "gpt2-124m", "--precision", "amp-bf16", "--device",
             "H100 SXM", "--eta", "0.5")
    plain = ran(capsys, *words)
    again = ran(capsys, *words, "--recompute", "every-block")
    assert again["flops_per_step"] == plain["flops_per_step"]
    assert again["hardware_flops_per_step"] > 1.15 * again["flops_per_step"]
    assert again["mfu"] == pytest.approx(
        0.5 * again["flops_per_step"] / again["hardware_flops_per_step"])
    assert again["memory_bytes"]["peak"] < plain["memory_bytes"]["peak"]


def test_what_cannot_be_had_is_null_with_a_reason(capsys: Capture) -> None:
    found = ran(capsys, "predict", "--model", "nano")
    for name in ("step_seconds", "tokens_per_second", "mfu"):
        assert found[name] is None
        assert "ironlaw calibrate" in found["reasons"][name]
    calibrated()
    found = ran(capsys, "predict", "--model", "nano")
    assert found["floor_seconds"] == pytest.approx(found["flops_per_step"] / 1e11)
    assert found["step_seconds"] is None
    assert "--eta" in found["reasons"]["step_seconds"]
    assert cli.main(["predict", "--model", "nano"]) == 0
    shown = capsys.readouterr().out
    assert "floor_seconds" not in shown
    assert "  step at the peak" in shown
    assert "The step at the peak is its lower bound" in shown
    found = ran(capsys, "predict", "--model", "nano", "--precision", "amp-bf16")
    assert "bf16" in found["reasons"]["step_seconds"]
    found = ran(capsys, "predict", "--precision", "amp-bf16", "--device", "T4")
    assert found["step_seconds"] is None
    assert "bf16" in found["reasons"]["step_seconds"]


def test_predict_speaks_in_words(capsys: Capture) -> None:
    calibrated()
    assert cli.main(["predict", "--model", "nano", "--eta", "0.5"]) == 0
    out = capsys.readouterr().out
    for words in ("model FLOP per step", "logits", "MiB", "at the peak (loss)", "MFU",
                  "not counted", "materialised attention, loss in slices of 512 tokens"):
        assert words in out
    assert cli.main(["predict", "--device", "H100 SXM"]) == 0
    out = capsys.readouterr().out
    assert "backward of the loss" in out
    assert "flash attention, adamw" in out


def test_plan_takes_the_forms_of_the_device_it_plans_for(capsys: Capture) -> None:
    calibrated()
    here = ran(capsys, "plan", "--batch", "2")["config"]
    assert (here["attention"], here["loss_rows"]) == ("materialised", 512)
    for words in (["--memory", "8"], ["--device", "H100 SXM"]):
        other = ran(capsys, "plan", "--batch", "2", *words)["config"]
        assert (other["attention"], other["loss_rows"]) == ("flash", 0)


def test_plan_json_keeps_the_samples_and_fits(capsys: Capture) -> None:
    found = ran(capsys, "plan", "--model", "gpt2-1558m", "--batch", "8", "--memory", "32",
                "--reserve", "1", "--precision", "amp-bf16")
    assert found["device_bytes"] == 32e9
    assert found["wish_bytes"] > 31e9
    assert found["plans"]
    for p in found["plans"]:
        assert p["config"]["batch"] * p["config"]["accumulate"] == 8
        assert p["memory_bytes"]["peak"] + p["free_bytes"] == pytest.approx(31e9)
        assert p["free_bytes"] >= 0
        assert p["changes"]


def test_plan_knows_the_catalogue_and_the_calibrated_device(capsys: Capture) -> None:
    words = ("plan", "--model", "gpt2-124m", "--precision", "amp-bf16")
    found = ran(capsys, *words, "--device", "A100 80GB SXM")
    assert found["device_bytes"] == pytest.approx(80e9, rel=0.1)
    assert found["largest_batch"] > 8
    calibrated()
    assert ran(capsys, *words)["device_bytes"] == 16e9
    assert ran(capsys, *words, "--memory", "10")["device_bytes"] == 10e9


def test_plan_says_what_to_do_when_nothing_fits(capsys: Capture) -> None:
    words = ["plan", "--model", "gpt2-1558m", "--batch", "2", "--memory", "8"]
    found = ran(capsys, *words, status=1)
    assert (found["plans"], found["largest_batch"]) == ([], 0)
    assert found["workers_to_shard"] >= 2
    assert cli.main(words) == 1
    assert "Sharding" in capsys.readouterr().out


def test_plan_in_words_leads_with_the_cheapest(capsys: Capture) -> None:
    assert cli.main(["plan", "--model", "gpt2-774m", "--batch", "16", "--memory", "24",
                     "--precision", "amp-bf16"]) == 0
    out = capsys.readouterr().out
    assert "Largest micro-batch" in out
    lines = [line for line in out.splitlines() if "--batch" in line or "--recompute" in line]
    assert "--accumulate" in lines[0]


def test_plans_keep_to_the_formats_that_the_device_has(capsys: Capture) -> None:
    """A T4 multiplies in FP16 and not in BF16."""
    words = ("plan", "--model", "gpt2-1558m", "--batch", "1", "--recompute", "every-block")
    asked = ("--precision", "amp-fp16")
    assert ran(capsys, *words, *asked, "--device", "T4", status=1)["plans"] == []
    assert precisions(ran(capsys, *words, *asked, "--memory", "16")) == {"pure-bf16"}
    assert ran(capsys, *words, *asked, "--device", "T4", "--memory", "16", status=1)["plans"] == []
    wide = ("plan", "--model", "gpt2-774m", "--batch", "4", "--memory", "17")
    assert precisions(ran(capsys, *wide, "--device", "T4")) <= {"fp32", "amp-fp16"}
    assert "pure-bf16" in precisions(ran(capsys, *wide, "--device", "A100 40GB SXM"))


def test_a_plan_for_this_device_keeps_to_what_it_was_calibrated_in(capsys: Capture) -> None:
    words = ("plan", "--model", "gpt2-774m", "--batch", "8")
    calibrated()  # in fp32 alone
    assert precisions(ran(capsys, *words)) == {"fp32"}
    assert "pure-bf16" in precisions(ran(capsys, *words, "--memory", "16"))


@pytest.mark.parametrize("precision", ["fp32", "amp-fp16", "document"])
def test_a_format_that_the_device_has_is_planned_for(precision: str, capsys: Capture) -> None:
    assert ran(capsys, "plan", "--device", "T4", "--precision", precision)["plans"]


def test_a_format_whose_rate_nobody_publishes_is_not_refused(capsys: Capture) -> None:
    words = ("plan", "--device", "M2 Ultra (76-core GPU)", "--memory", "24")
    assert ran(capsys, *words, "--precision", "amp-fp16")["plans"]


def test_the_formats_to_try_begin_with_the_asked_one() -> None:
    for asked in plan.PRECISION_STEPS:
        assert plan.formats(asked) == plan.PRECISION_STEPS[asked]
        assert plan.formats(asked, ()) == (asked,)
    assert plan.formats("fp32", ("fp16",)) == ("fp32", "amp-fp16")
    with pytest.raises(InputError, match="asked"):
        plan.formats("fp8")


@pytest.mark.parametrize("words", [
    ["plan", "--memory", "16"], ["predict", "--device", "T4"],
    ["measure", "--layers", "1", "--batch", "1"]])
def test_memory_comes_in_the_chapters_units_first(words: list[str], capsys: Capture) -> None:
    assert cli.main([*words, "--model", "nano"]) == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if re.search(r"\d [kMG]i?B", line)]
    assert len(lines) > 1
    for line in lines:
        decimal = line.partition("(")[0]
        assert re.search(r"\d [kMG]B", decimal)
        assert "iB" not in decimal
    assert re.search(r"\([\d.]+ [MG]iB\)", out)
    assert units.memory(34.7e9) == "34.70 GB (32.32 GiB)"
    assert units.memory(512) == "512.0 B"


@pytest.mark.parametrize(("words", "said", "unsaid"), [
    (["plan", "--memory", "16", "--reserve", "20"], "reserve = 20.0, but it must be less than "
     "the device's 16.0 GB", "reserve_bytes"),
    (["plan", "--memory", "16", "--reserve", "-1"], "reserve = -1.0", "reserve_bytes"),
    (["plan", "--device", "abacus"], "They are P100 16GB PCIe, ", "hardware.names"),
    (["plan", "--device", "T4", "--precision", "amp-bf16"], "the T4 has: fp32 or amp-fp16",
     "document"),
    (["measure", "--on", "cpu"], "Add --backend device", "Change on"),
    (["measure", "--on", "tpu", "--backend", "device"], "on = 'tpu'", "device = "),
])
def test_refusals_speak_to_a_person_at_a_terminal(words: list[str], said: str, unsaid: str,
                                                  capsys: Capture) -> None:
    assert cli.main(words) == 2
    problem = capsys.readouterr().err
    assert said in problem
    assert unsaid not in problem


@pytest.mark.parametrize("words", [
    ["predict", "--device", "A100"],
    ["predict", "--eta", "38", "--device", "H100 SXM"],
    ["predict", "--seq", "4096"],
    ["plan"],
    ["plan", "--memory", "-5"],
    ["plan", "--memory", "8", "--reserve", "9"],
    ["plan", "--memory", "8", "--most", "-1"],
    ["plan", "--device", "no such device"],
    ["predict", "--eta", "40"],
    ["predict", "--eta", "0", "--device", "T4", "--precision", "amp-bf16"],
    ["plan", "--device", "T4", "--precision", "amp-bf16"],
    ["measure", "--on", "tpu"],
    ["measure", "--on", "cpu"],
    ["measure", "--on", "tpu", "--backend", "device"],
])
def test_wrong_inputs_exit_with_2_and_a_next_step(words: list[str], capsys: Capture) -> None:
    assert cli.main(words) == 2
    problem = capsys.readouterr().err
    assert "must be" in problem
    assert len(problem) > 60


def test_selective_recomputation_says_that_it_changes_nothing_under_flash(
    capsys: Capture,
) -> None:
    words = ["predict", "--model", "nano", "--recompute", "selective", "--attention"]
    cli.main([*words, "flash"])
    assert "changes nothing" in capsys.readouterr().out
    cli.main([*words, "materialised"])
    assert "changes nothing" not in capsys.readouterr().out


def test_every_null_has_its_reason(capsys: Capture) -> None:
    cli.main(["predict", "--model", "nano", "--json"])
    found = json.loads(capsys.readouterr().out)
    empty = {name for name, value in found.items() if value is None}
    assert {"step_seconds", "floor_seconds", "peak_source"} <= empty
    assert empty == set(found["reasons"])
