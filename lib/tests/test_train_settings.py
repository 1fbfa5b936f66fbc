"""Settings of a run, its schedule, its progress lines and the samples it leads to."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
import torch
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.gpt2 import progress
from ironlaw.gpt2.model import GPT
from ironlaw.gpt2.sample import sample
from ironlaw.gpt2.settings import LEARNING_RATES, TrainSettings
from ironlaw.gpt2.train import Progress
from ironlaw.transformer import MODELS, Shape

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_rate_rises_linearly_then_falls_on_a_cosine_to_a_tenth() -> None:
    settings = TrainSettings(steps=110, warmup=10, learning_rate=1.0)
    rates = [settings.rate(step) for step in range(110)]
    assert rates[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    assert rates[9] == max(rates) == 1.0
    assert rates[10] == pytest.approx(1.0)
    assert rates[60] == pytest.approx(0.55)  # half-way down
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.1, abs=1e-3)


def test_the_usual_warm_up_is_a_tenth_and_at_most_100_steps() -> None:
    for steps, warmup in ((200, 20), (50_000, 100)):
        settings = TrainSettings(steps=steps, learning_rate=1.0)
        assert settings.rate(warmup - 1) == 1.0
        assert settings.rate(warmup - 2) < 1.0
        assert settings.rate(warmup + steps // 10) < 1.0
    assert TrainSettings(steps=1, learning_rate=1.0).rate(0) == 1.0


def test_every_model_has_a_usual_rate() -> None:
    assert set(LEARNING_RATES) == set(MODELS)
    assert TrainSettings(run=RunConfig(model="gpt2-124m")).peak_rate == 6e-4


def test_settings_survive_json() -> None:
    settings = TrainSettings(run=RunConfig(batch=3, seq=64), steps=7, learning_rate=1e-3, seed=9)
    assert TrainSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    with pytest.raises(InputError, match="stepz"):
        TrainSettings.from_json({**settings.to_json(), "stepz": 3})


@pytest.mark.parametrize(("changes", "named"), [
    ({"steps": 0}, "steps"), ({"learning_rate": -1.0}, "learning_rate"), ({"seed": -1}, "seed"),
    ({"warmup": 201}, "warmup"), ({"clip": -1.0}, "clip"), ({"dropout": 1.0}, "dropout"),
    ({"checkpoint_every": -1}, "checkpoint_every"),
    ({"weight_decay": float("nan")}, "weight_decay"),
])
def test_bad_settings_are_named(changes: dict[str, object], named: str) -> None:
    with pytest.raises(InputError) as caught:
        TrainSettings(**changes)  # type: ignore[arg-type]
    assert caught.value.argument == named


def test_the_same_run_said_in_two_ways_is_the_same_run() -> None:
    TrainSettings(run=RunConfig(seq=256)).refuse_other(TrainSettings())  # nano's own context
    TrainSettings(learning_rate=3e-3, checkpoint_every=3).refuse_other(TrainSettings())
    with pytest.raises(InputError, match="batch = 9, but it must be 8, as in the run"):
        TrainSettings(run=RunConfig(batch=9)).refuse_other(TrainSettings())


def test_progress_is_plain_lines_when_nobody_watches() -> None:
    stream = io.StringIO()
    show = progress.reporter(stream, every_seconds=3600)
    for step in range(1, 101):
        show(Progress(step, 100, 5.0 - step / 100, 4.5, 1e-3, 1234.0))
    lines = stream.getvalue().splitlines()
    assert lines == ["step   1/100  loss 4.990 (lately 4.500), 1,234 tokens/s, "
                     "learning rate 1.0e-03",
                     "step 100/100  loss 4.000 (lately 4.500), 1,234 tokens/s, "
                     "learning rate 1.0e-03"]


def test_progress_is_a_bar_in_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    show = progress.reporter(stream)
    for step in (6, 7, 8):  # as after resuming from step 5
        show(Progress(step, 8, 2.5, 2.75, 1e-3, 1234.0))
    assert "8/8" in stream.getvalue()
    assert "loss 2.500 (lately 2.750)" in stream.getvalue()


def learnt_alphabet() -> tuple[GPT, torch.Tensor]:
    """A model that has learnt by heart to count up, and the sequence it learnt."""
    torch.manual_seed(0)
    model = GPT(Shape("counting", 1, 32, 2, 16, 20))
    tokens = torch.arange(17).expand(4, -1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = model.loss(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, tokens


def test_sampling_follows_the_model_and_leaves_no_trace() -> None:
    model, tokens = learnt_alphabet()
    state = torch.get_rng_state()
    drawn = sample(model, tokens[:1, :4], 12, temperature=0.0)
    assert torch.equal(drawn, tokens[:1, :16])
    warm = [sample(model, tokens[:2, :2], 30, temperature=2.0, top_k=None, seed=s)
            for s in (1, 1, 2)]
    assert warm[0].shape == (2, 32)  # longer than the context of 16
    assert torch.equal(warm[0], warm[1])
    assert not torch.equal(warm[0], warm[2])
    narrow = sample(model, tokens[:1, :4], 12, temperature=5.0, top_k=1)
    assert torch.equal(narrow, tokens[:1, :16])
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training


def test_settings_corpora_and_tokenizers_need_no_torch() -> None:
    """So that the allocator can be set before torch comes in, and help is quick."""
    program = ("import sys, ironlaw.gpt2.settings, ironlaw.gpt2.corpus, ironlaw.gpt2.tokens, "
               "ironlaw.gpt2.runtime, ironlaw.gpt2.progress, ironlaw.commands.train; "
               "print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=True)
    assert done.stdout.strip() == "False"
