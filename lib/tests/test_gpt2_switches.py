"""Every attention and every policy by its name: in a run, in the prediction, in the measurement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from device_profile import save_profile
from ironlaw import cli
from ironlaw.commands import _attention, _room
from ironlaw.config import RunConfig, blocks_per_segment
from ironlaw.errors import InputError, UnavailableError
from ironlaw.gpt2.step import build, random_batches
from ironlaw.measure import flops as counted
from ironlaw.measure import memory
from ironlaw.predict import flops, peak

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = RunConfig(layers=5, width=32, heads=2, vocab=300, batch=2, seq=24)


def loss_and_gradients(config: RunConfig) -> list[torch.Tensor]:
    torch.manual_seed(0)
    step = build(config)
    loss = step.backward(random_batches(config))
    return [loss, *(p.grad for p in step.model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("changes", [
    {"attention": "tiled"}, {"recompute": "every-2"}, {"recompute": "every-9"},
    {"attention": "tiled", "recompute": "every-3", "loss_rows": 7},
    {"attention": "materialised", "recompute": "every-4"}], ids=str)
def test_a_switch_changes_the_work_and_not_the_result(changes: dict[str, object]) -> None:
    plain, other = loss_and_gradients(TINY), loss_and_gradients(TINY.replace(**changes))
    for ours, theirs in zip(plain, other, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_every_k_has_the_segments_it_says() -> None:
    assert [blocks_per_segment(r, 12) for r in ("none", "selective", "every-block", "sqrt",
                                                "every-5", "every-99")] == [None, None, 1, 4, 5, 12]
    for wrong in ("every-0", "every", "every-", "every-2x", "all", ""):
        with pytest.raises(InputError, match="every-4"):
            RunConfig(recompute=wrong)


@pytest.mark.parametrize("recompute", ["every-2", "every-3", "every-5"])
def test_recomputed_work_is_what_pytorch_counts(recompute: str) -> None:
    config = TINY.replace(recompute=recompute)
    found = counted.count(config)
    again = flops.recomputed_per_step(config.shape, config.batch, config.sequence, recompute)
    assert found.hardware - found.model == again
    assert counted.count(config.replace(recompute="none", attention="tiled")).model == found.model


@pytest.mark.parametrize("changes", [
    {"loss_rows": 32, "attention": "materialised"},
    {"loss_rows": 50, "precision": "amp-bf16", "recompute": "every-2", "accumulate": 2},
    {"loss_rows": 64, "precision": "pure-bf16"},
    {"recompute": "every-2", "attention": "materialised", "precision": "amp-fp16"},
], ids=str)
def test_the_predicted_peak_is_the_trackers(changes: dict[str, object]) -> None:
    config = RunConfig(layers=3, batch=4, seq=64, optimizer="adamw-fused").replace(**changes)
    found = memory.measure_memory(config, "tracker").memory_bytes["peak"]
    assert found is not None
    assert peak.step_memory(config).peak == pytest.approx(found, rel=0.01)


def test_the_documents_recipe_and_the_saved_bytes_know_every_k() -> None:
    config = RunConfig(model="gpt2-124m", batch=2, precision="document", attention="materialised")
    peaks = [peak.step_memory(config.replace(recompute=r)).activations
             for r in ("every-12", "every-6", "every-2")]
    assert peaks == sorted(peaks, reverse=True)
    assert peak.step_memory(config.replace(recompute="every-4")) == peak.step_memory(
        config.replace(recompute="sqrt"))
    assert memory.saved_tensors(TINY.replace(recompute="every-2")) == []
    assert len(memory.saved_tensors(TINY.replace(recompute="every-1"))) == len(
        memory.saved_tensors(TINY.replace(recompute="every-block"))) > 0


def test_spelled_out_tiles_are_predicted_as_flash() -> None:
    config = RunConfig(layers=2, batch=4, seq=64, optimizer="adamw-fused", attention="tiled",
                       loss_rows=64)
    found = memory.measure_memory(config, "tracker").memory_bytes["peak"]
    assert found is not None
    assert peak.step_memory(config).peak == pytest.approx(found, rel=0.03)
    assert peak.step_memory(config) == peak.step_memory(config.replace(attention="flash"))


def test_slices_count_in_the_room_that_a_step_needs() -> None:
    whole = RunConfig(model="gpt2-124m", batch=8, attention="flash", optimizer="adamw-fused")
    sliced = whole.replace(loss_rows=512)
    between = (peak.step_memory(whole).peak + peak.step_memory(sliced).peak) / 2
    with pytest.raises(UnavailableError):
        _room.check(whole, "cpu", between)
    said: list[str] = []
    _room.check(sliced, "cpu", between, say=said.append)
    assert not said or said[0].startswith("Memory is tight")


def test_a_plan_after_running_out_needs_less_than_what_ran_out() -> None:
    config = RunConfig(model="gpt2-124m", batch=8, precision="amp-bf16")
    said = _room.after_running_out(config, "cuda", 80e9)
    assert said.startswith("This fits: --")
    needed = peak.step_memory(config).peak
    assert _room.after_running_out(config, "cuda", 0.5 * needed) != said
    assert "keeps its settings" in _room.after_running_out(config, "cpu", None, resumed=True)


def chosen(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, int]:
    assert cli.main([*words, "--json"]) == 0
    config = json.loads(capsys.readouterr().out)["config"]
    return config["attention"], config["loss_rows"]


def test_one_rule_chooses_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--model", "nano", "--layers", "1", "--batch", "1", "--seq", "16"]
    assert chosen(capsys, "predict", *given) == ("flash", 0)  # nothing is known of this device
    assert chosen(capsys, "measure", *given) == ("flash", 0)
    save_profile()
    assert chosen(capsys, "predict", *given) == ("materialised", 512)
    assert chosen(capsys, "measure", *given) == ("materialised", 512)
    assert chosen(capsys, "predict", *given, "--device", "T4") == ("flash", 0)
    asked = ["--attention", "tiled", "--loss-rows", "0"]
    assert chosen(capsys, "predict", *given, *asked) == ("tiled", 0)
    assert (_attention.quickest("cpu"), _attention.quickest_rows("cpu")) == ("materialised", 512)
    assert (_attention.quickest("mps"), _attention.quickest_rows("cuda")) == ("flash", 0)


def test_the_command_trains_with_the_teaching_attention(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["train", "--layers", "3", "--width", "32", "--heads", "2", "--batch", "2", "--seq",
             "32", "--threads", "1", "--device", "cpu", "--corpus", str(text), "--steps", "2",
             "--attention", "tiled", "--recompute", "every-2", "--json"]
    assert cli.main([*given, "--out", str(tmp_path / "run")]) == 0
    config = json.loads(capsys.readouterr().out)["config"]["run"]
    assert (config["attention"], config["recompute"]) == ("tiled", "every-2")
    assert cli.main([*given, "--out", str(tmp_path / "no"), "--dropout", "0.1"]) == 2
    assert "0 with tiled attention" in capsys.readouterr().err
