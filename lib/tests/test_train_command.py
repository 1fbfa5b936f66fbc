"""`ironlaw train`, from its flags to the last line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from ironlaw import cli, workspace
from ironlaw.commands import _train_options, train
from ironlaw.config import RunConfig
from ironlaw.gpt2.settings import TrainSettings
from ironlaw.measure import device
from ironlaw.results import DeviceProfile, MatmulRate, TrainingResult, load

FLAGS = ["--layers", "2", "--width", "32", "--heads", "2", "--batch", "8", "--seq", "32",
         "--threads", "1", "--device", "cpu"]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("".join(f"the wall holds {i % 50} green bottles\n"
                                        for i in range(3000)), encoding="utf-8")
    return "text.txt"


def result_of(capsys: pytest.CaptureFixture[str], *words: str) -> TrainingResult:
    assert cli.main(["train", *words, "--json"]) == 0
    found = load(capsys.readouterr().out)
    assert isinstance(found, TrainingResult)
    return found


def calibrated(rate: float) -> None:
    from ironlaw.measure.device import find

    here = find("cpu")
    matmul = {"fp32": MatmulRate(dtype="fp32", flops_per_second=rate, size=1024,
                                 by_size={"1024": rate})}
    workspace.save_profile(DeviceProfile(
        name=here.name, device_type="cpu", threads=here.threads, memory_bytes=None, matmul=matmul,
        copy_bytes_per_second=None, launch_seconds=None, host_to_device_bytes_per_second=None,
        catalogue_name=None, versions={}, measured_on="2026-01-01"))


def test_the_loss_falls_and_the_object_is_whole(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    calibrated(1e15)
    found = result_of(capsys, *FLAGS, "--steps", "60", "--corpus", text, "--out", "run",
                      "--lr", "0.01")
    assert found.losses[0][1] == pytest.approx(math.log(4096), rel=0.05)
    assert found.final_loss < 2.0
    assert found.validation_loss is not None
    assert found.validation_loss < 2.5
    assert [step for step, _ in found.losses] == list(range(1, 61))
    assert found.final_loss == found.losses[-1][1]
    assert found.tokens_per_second > 0
    assert found.peak is not None
    per_token = 6 * (12 * 2 * 32**2 + 4096 * 32) + 12 * 2 * 32 * 32
    assert found.mfu == pytest.approx(per_token * found.tokens_per_second / 1e15)
    assert found.corpus == "text.txt"
    assert found.threads == 1
    assert found.checkpoint == "run/step-00000060.pt"
    assert Path(found.checkpoint).exists()
    kept = load(Path("run/result.json").read_text(encoding="utf-8"))
    assert kept == found


def test_without_a_peak_the_mfu_is_null_with_the_reason(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = result_of(capsys, *FLAGS, "--steps", "3", "--corpus", text, "--out", "run")
    assert found.mfu is None
    assert found.peak is None
    assert "ironlaw calibrate" in found.reasons["mfu"]


def test_an_impossible_mfu_is_not_reported(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    calibrated(1.0)
    found = result_of(capsys, *FLAGS, "--steps", "3", "--corpus", text, "--out", "run")
    assert found.mfu is None
    assert "impossible" in found.reasons["mfu"]


def test_people_get_a_summary_and_a_sample(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", *FLAGS, "--steps", "4", "--corpus", text]) == 0
    shown = capsys.readouterr()
    run = next(Path("runs").iterdir())
    assert run.name.startswith("nano-")
    for expected in ("at first, ", "over the last 4 of 4 steps", "tokens/s", "MFU ", "held back",
                     f"{run}/step-00000004.pt", f"ironlaw train --resume --out {run}",
                     "The model continues 'The'"):
        assert expected in shown.out
    assert "step 4/4" in shown.err


def test_resuming_needs_neither_folder_nor_flags(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = result_of(capsys, *FLAGS, "--steps", "3", "--corpus", text)
    again = result_of(capsys, "--resume")
    assert again.losses == first.losses
    assert again.config == first.config
    assert again.checkpoint == first.checkpoint
    assert again.tokens_per_second == pytest.approx(
        RunConfig.from_json(first.config["run"]).tokens_per_step * 3 / first.seconds)
    assert cli.main(["train", "--resume"]) == 0
    assert "tokens/s (mean of the whole run)" in capsys.readouterr().out


def test_on_a_cpu_the_quick_forms_are_chosen_unless_asked_otherwise(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*FLAGS, "--steps", "1", "--corpus", text]
    run = result_of(capsys, *given, "--out", "a").config["run"]
    assert (run["attention"], run["optimizer"]) == ("materialised", "adamw-fused")
    run = result_of(capsys, *given, "--out", "b", "--attention", "flash",
                    "--optimizer", "sgd").config["run"]
    assert (run["attention"], run["optimizer"]) == ("flash", "sgd")


def test_schedule_clipping_and_decay_are_flags_that_a_resumed_run_keeps(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*FLAGS, "--steps", "4", "--corpus", text, "--out", "run"]
    own = ["--warmup", "3", "--clip", "0.25", "--weight-decay", "0.01"]
    config = result_of(capsys, *given, *own).config
    assert (config["warmup"], config["clip"], config["weight_decay"]) == (3, 0.25, 0.01)
    assert result_of(capsys, "--resume", "--out", "run").config == config
    assert cli.main(["train", "--resume", "--out", "run", "--clip", "0.5"]) == 2
    assert "clip = 0.5, but it must be 0.25, as in the run" in capsys.readouterr().err
    config = result_of(capsys, *given[:-1], "usual").config
    assert (config["warmup"], config["clip"], config["weight_decay"]) == (None, 1.0, 0.1)


@pytest.mark.parametrize(("words", "kind", "bf16", "resumed", "flags"), [
    ([], "cuda", True, False, "add: --precision amp-bf16 --compile --pad-vocab"),
    (["--compile"], "cuda", True, False, "add: --precision amp-bf16 --pad-vocab"),
    (["--precision", "fp32"], "cuda", True, False, ""),
    ([], "cuda", False, False, ""),
    ([], "cpu", True, False, ""),
    ([], "cuda", True, True, ""),
])
def test_on_a_gpu_with_bf16_the_default_says_what_is_quicker(
    words: list[str], kind: str, bf16: bool, resumed: bool, flags: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "obstacle", lambda where, dtype: "" if bf16 else "emulated")
    parser = argparse.ArgumentParser()
    train.add_flags(parser)
    here = device.Device(torch.device(kind), "Some GPU", 80e9, 1, None, {})
    said = _train_options.quicker(parser.parse_args(words),
                                  TrainSettings(compile="--compile" in words), here,
                                  resumed=resumed)
    assert said.endswith(flags)
    assert bool(said) == bool(flags)
    assert "Some GPU" in said or not flags


@pytest.mark.parametrize(("words", "expected"), [
    (["--warmup", "201"], "warmup = 201"),
    (["--clip", "-1"], "clip = -1"),
    (["--steps", "0"], "steps = 0"),
    (["--seq", "512"], "at most the model's context, 256"),
    (["--precision", "document"], "amp-bf16 also keeps 16 bytes"),
    (["--corpus", "nowhere.txt"], "No such file"),
    (["--vocab", "100"], "at least 4096"),
    (["--threads", "0"], "threads = 0"),
    (["--threads", "100000"], "at most 4096"),
    (["--resume"], "Name the run's folder with --out"),
    (["--resume", "--out", "runs/typo"], "there is no folder runs/typo"),
    (["--out", "text.txt"], "text.txt cannot be written to (it is a file)"),
    (["--device", "abacus"], "device = 'abacus'"),
])
def test_what_cannot_be_is_said_in_one_line(
    text: str, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert cli.main(["train", *words]) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("ironlaw train: ")
    assert expected in said.splitlines()[-1]
    assert not list(Path().glob("runs/*/*"))


def test_resuming_with_another_setting_names_it(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result_of(capsys, *FLAGS, "--steps", "2", "--corpus", text, "--out", "run")
    assert cli.main(["train", "--resume", "--out", "run", "--batch", "9"]) == 2
    assert "batch = 9, but it must be 8, as in the run" in capsys.readouterr().err
