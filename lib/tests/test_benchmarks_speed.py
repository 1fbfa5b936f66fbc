"""The speed benchmarks: fair rivals, right arithmetic, the promised output. Never a speed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from ironlaw.config import RunConfig
from ironlaw.gpt2.model import GPT
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
