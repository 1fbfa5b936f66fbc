"""The speed benchmarks: fair rivals, right arithmetic, the promised output. Never a speed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from ironlaw import hardware
from ironlaw.config import RunConfig
from ironlaw.gpt2.model import GPT
from ironlaw.measure import device, flops, step
from ironlaw.transformer import Shape
from torch.nn import functional

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SMALL = Shape("small", layers=2, width=32, heads=4, context=32, vocab=96)


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def named(name: str) -> ModuleType:
    return importlib.import_module(name)


def theirs(name: str) -> str:
    """Our name of a parameter of the plain model."""
    for plain, ours in (("wte", "token_embedding"), ("wpe", "position_embedding"),
                        ("ln_1", "norm_1"), ("ln_2", "norm_2"), ("ln_f", "norm"),
                        ("attn_out", "attention.projection"), ("attn.", "attention.qkv."),
                        ("fc_out", "feed_forward.contract"), ("fc.", "feed_forward.expand.")):
        if plain in name:
            return name.replace(plain, ours)
    raise KeyError(name)


def test_the_plain_rival_is_the_same_model(benchmarks: None) -> None:
    torch.manual_seed(0)
    plain, ours = named("speed_rivals").PlainGPT(SMALL), GPT(SMALL)
    weights = ours.state_dict()
    parameters = dict(plain.named_parameters())
    assert len(parameters) == len(weights)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.normal_(std=0.1)
            weights[theirs(name)].copy_(parameter)
    tokens = torch.randint(96, (2, 32))
    assert torch.allclose(plain(tokens), ours(tokens), atol=1e-5)


def test_every_rival_trains_and_tells_its_options(benchmarks: None) -> None:
    pytest.importorskip("transformers")
    before = torch.get_float32_matmul_precision()
    config = RunConfig(layers=1, width=32, heads=2, vocab=300, batch=2, seq=16)
    seen: list[float] = []
    plain = functional.cross_entropy

    def watched(*args: object, **options: object) -> torch.Tensor:
        loss: torch.Tensor = plain(*args, **options)  # type: ignore[arg-type]
        seen.append(loss.item())
        return loss

    sliced = GPT.loss_of_features

    def ours(model: GPT, *given: torch.Tensor) -> torch.Tensor:
        loss = sliced(model, *given)
        seen.append(loss.item())
        return loss

    told = {}
    try:
        for name in ("nanogpt_style", "transformers", "ours"):
            call, told[name] = named("speed_rivals").RIVALS[name](config, "cpu")
            seen.clear()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(torch.nn.functional, "cross_entropy", watched)
                patch.setattr(GPT, "loss_of_features", ours)
                for _ in range(8):
                    call()
            assert len(seen) == 8
            assert seen[-1] < seen[0]  # weights really change
    finally:
        torch.set_float32_matmul_precision(before)
    options = {"attention", "optimizer", "clip", "compile", "loss", "float32_matmul_precision",
               "allocator", "zero_grad"}
    assert all(options <= set(found) for found in told.values())
    assert told["nanogpt_style"]["optimizer"] == "torch.optim.AdamW(foreach=True)"
    assert told["ours"]["optimizer"] == "adamw-fused"
    assert told["ours"]["compile"] == "no"
    assert told["ours"]["vocabulary"] == "300 rows"


def test_ratios_are_taken_within_a_round(benchmarks: None) -> None:
    speed = named("train_speed")
    # The machine slows down fivefold in the middle; within each round ours takes 2 / 3.
    ours = [(2.0, 1.0), (10.0, 1.0), (2.0, 2.0)]
    rival = [(3.0, 4.0), (15.0, 4.0), (3.0, 8.0)]
    pair = speed.Pair("nano_vs_transformers", 100, (ours, rival), (4.0, 8.0), {})
    found = pair.to_json()
    assert pair.ratios == pytest.approx([1.5, 1.5, 1.5])
    assert found["ratio"] == pytest.approx(1.5)
    assert found["ratio_quartiles"] == pytest.approx([1.5, 1.5])
    assert found["processor_time_ratio"] == 4.0
    assert found["tokens_per_second"] == pytest.approx([50.0, 100 / 3])
    assert found["memory_ratio"] == 0.5
    assert found["target"] == 1.25


def test_every_aim_is_a_contest_and_ours_is_first(benchmarks: None) -> None:
    speed = named("train_speed")
    contests = speed.contests(list(speed.SIZES))
    names = [name for name, *_ in contests]
    assert set(speed.TARGETS) <= set(names)
    assert len(set(names)) == len(names)
    assert all(ours.startswith("ours") and not rival.startswith("ours")
               for _, _, ours, rival in contests)


def test_on_a_gpu_the_plain_rival_takes_the_fused_update_of_its_recipe(
        benchmarks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rivals = named("speed_rivals")
    assert rivals.update_rule("cuda:1") == {"fused": True}
    assert rivals.update_rule("cpu") == {"foreach": True}
    monkeypatch.setattr(rivals, "update_rule", lambda device: {"fused": True})
    config = RunConfig(layers=1, width=32, heads=2, vocab=300, batch=1, seq=16)
    call, told = rivals.nanogpt_style(config, "cpu")
    call()
    assert told["optimizer"] == "torch.optim.AdamW(fused=True)"


def test_the_fastest_form_is_padded_and_compiled_where_it_can_be(
        benchmarks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rivals = named("speed_rivals")
    monkeypatch.setattr(rivals.step.compiling, "obstacle", lambda *_: "without a compiler")
    before = torch.get_float32_matmul_precision()
    try:
        call, told = rivals.ours_fastest(
            RunConfig(layers=1, width=32, heads=2, vocab=300, batch=1, seq=16), "cpu")
        call()
    finally:
        torch.set_float32_matmul_precision(before)
    assert told["vocabulary"] == "320 rows"
    assert told["compile"] == "no without a compiler"


def test_on_a_gpu_the_large_model_joins_and_each_rate_has_its_mfu(
        benchmarks: None, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    speed = named("train_speed")
    h100 = next(name for name in hardware.names() if name.startswith("H100"))
    gpu = device.Device(torch.device("cpu"), "GPU", 8e10, 2, h100, {})
    monkeypatch.setattr(device, "find", lambda wanted: gpu)
    monkeypatch.setattr(step, "dtypes_used", lambda precision, where: ("bf16",))
    peak = hardware.accelerator(h100).peak("bf16")
    ran: dict[str, tuple[RunConfig, int]] = {}

    def compete(name: str, mine: str, rival: str, config: RunConfig, *, rounds: int, device: str,
                threads: int, steps: int) -> Any:
        assert rival in speed.RIVALS
        ran[name] = config, steps
        tokens = steps * config.tokens_per_step
        # A step that takes as long as 52 % of the peak.
        took = flops.count(config).per_token * tokens / (0.52 * peak)
        return speed.Pair(name, tokens, ([(took, 1.0)], [(2 * took, 1.0)]), (1.0, 2.0),
                          {mine: {}, rival: {}})

    monkeypatch.setattr(speed, "compete", compete)
    assert speed.main(["--device", "cuda", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["pairs"]
    fastest = found["gpt2_1558m_fastest_vs_nanogpt_style"]
    assert fastest["mfu"] == pytest.approx(0.52)
    assert fastest["mfu_target"] == 0.55
    assert found["gpt2_124m_fastest_vs_nanogpt_style"]["mfu_target"] == 0.50
    assert found["gpt2_124m_vs_nanogpt_style"]["mfu_target"] is None
    config, steps = ran["gpt2_1558m_fastest_vs_nanogpt_style"]
    assert (config.precision, config.sequence, steps) == ("amp-bf16", 1024, 5)
    assert speed.main(["--device", "cuda", "--only", "1558m_fastest"]) == 0
    assert "MFU of ours 52.0 %, aim 55.0 %" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        speed.main(["--models", "gpt2-1558m"])
    assert "models = 'gpt2-1558m'" in capsys.readouterr().err


def test_a_whole_run_prints_the_promised_object() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "train_speed.py"), "--json", "--models", "nano",
         "--rounds", "2", "--steps", "1", "--batch", "1", "--seq", "16", "--threads", "1",
         "--only", "nano_vs_nanogpt"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ratios"].keys() == {"nano_vs_nanogpt_style"}
    assert found["ratios"]["nano_vs_nanogpt_style"] > 0
    pair = found["pairs"]["nano_vs_nanogpt_style"]
    assert [len(side) for side in pair["turns"]] == [2, 2]
    assert pair["options"]["ours"]["precision"] == "fp32"
    # Weights, gradients and two moments are held at least.
    parameters = 4 * (4096 * 128 + 4 * 12 * 128**2)
    assert all(peak > 4 * parameters for peak in pair["peak_bytes"])
    assert found["configs"]["nano"]["batch"] == 1


def test_a_rival_that_dies_is_named(benchmarks: None, capfd: pytest.CaptureFixture[str]) -> None:
    speed = named("train_speed")
    with pytest.raises(RuntimeError, match="no_such_rival ended during 'warm up'"), \
            speed.Competitor("no_such_rival", RunConfig(), "cpu", 1):
        pass
    assert "KeyError" in capfd.readouterr().err


@pytest.mark.parametrize("script", ["train_speed", "step_time"])
@pytest.mark.parametrize(("words", "said"), [
    (["--models", "nanny"], "models = 'nanny'"), (["--rounds", "0"], "rounds = 0"),
])
def test_wrong_flags_are_named(benchmarks: None, script: str, words: list[str], said: str,
                               capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        named(script).main(words)
    assert said in capsys.readouterr().err
