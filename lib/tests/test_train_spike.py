"""A spike of the loss: seen, gone back from, its text left out, and the same after any kill."""

from __future__ import annotations

import math
import os
import random
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.gpt2 import checkpoint, watch
from ironlaw.gpt2 import train as trainer_module
from ironlaw.gpt2.settings import TrainSettings
from ironlaw.gpt2.train import Trainer
from ironlaw.gpt2.watch import NonFiniteLossError, SpikeError

pytestmark = pytest.mark.usefixtures("one_thread")

BATCH, STEPS, EVERY, BAD = 2, 40, 8, 21
"""Sequences of a step, steps of a run, between checkpoints, and the bad batch's number."""


def settings(text: Path, **changes: object) -> TrainSettings:
    run = RunConfig(layers=1, width=32, heads=2, batch=BATCH, seq=32, optimizer="adamw-fused")
    values: dict[str, object] = {"run": run, "steps": STEPS, "corpus": str(text), "dropout": 0.1,
                                 "checkpoint_every": EVERY, "rewinds": 2, "skip_batches": 3,
                                 **changes}
    return TrainSettings(**values)  # type: ignore[arg-type]


Harm = Callable[[torch.Tensor], torch.Tensor]


def pushed(loss: torch.Tensor) -> torch.Tensor:
    return loss * 3.0


def no_number(loss: torch.Tensor) -> torch.Tensor:
    return loss * float("nan")


class Bad:
    """Batches of text that spoil the step which reads them, and a record of what was read."""

    def __init__(self, trainer: Trainer, harm: Harm, batches: set[int]) -> None:
        self.trainer, self.harm, self.batches = trainer, harm, batches
        self.read: list[int] = []
        self.plain = trainer.train_step.model.loss
        trainer.train_step.model.loss = self  # type: ignore[method-assign,assignment]

    def __call__(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = self.plain(tokens, targets)
        number = self.trainer.batches.position // BATCH - 1
        if not torch.is_grad_enabled():  # validation
            return loss
        self.read.append(number)
        return self.harm(loss) if number in self.batches else loss


def prepared(text: Path, out: Path, harm: Harm = pushed, bad: frozenset[int] = frozenset({BAD}),
             *, resume: bool = False, **changes: object) -> tuple[Trainer, Bad, list[str]]:
    said: list[str] = []
    trainer = Trainer(settings(text, **changes), out, resume=resume, say=said.append)
    return trainer, Bad(trainer, harm, set(bad)), said


def test_the_score_is_robust_where_a_mean_is_not() -> None:
    usual = [4.0, 4.1, 3.9, 4.05, 3.95, 4.02, 3.98, 4.0, 4.1, 3.9]
    assert abs(watch.robust_z(usual, 4.0)) < 0.5
    spread = 1.4826 * statistics.median(abs(x - 4.0) for x in usual)
    assert watch.robust_z(usual, 5.0) == pytest.approx(1.0 / spread)
    spiked = [*usual, 11.0]  # an old spike among them
    assert watch.robust_z(spiked, 8.0) > 30
    assert (8.0 - statistics.mean(spiked)) / statistics.stdev(spiked) < 2  # would miss it
    assert watch.robust_z([2.0] * 20, 2.01) < watch.THRESHOLD  # no spread at all
    assert watch.robust_z([2.0] * 20, 3.0) > watch.THRESHOLD


def test_ordinary_noise_and_a_falling_loss_are_no_spike(text: Path) -> None:
    here = watch.LossWatch(settings(text))
    noise = random.Random(0)
    losses: list[float] = []
    for step in range(2000):
        loss = 2.0 + 6.0 * math.exp(-step / 100) + noise.gauss(0.0, 0.2)
        here.check(step, loss, 1.0, losses)
        losses.append(loss)
    with pytest.raises(SpikeError, match=r"A loss of 6\.000 where 2\.\d+ is usual"):
        here.check(2000, 6.0, 1.0, losses)
    here.check(3, 60.0, 1.0, losses[:3])  # too early to know what is usual


def test_the_run_goes_back_leaves_the_text_out_and_says_so(tmp_path: Path, text: Path) -> None:
    trainer, bad, said = prepared(text, tmp_path)
    result = trainer.result(trainer.run())
    # Batch 21 is read by step 22. Checkpoint 16 is the newest 3 steps before; all up to
    # batch 21 and 3 more are left out.
    assert bad.read == [*range(22), *range(25, 25 + STEPS - 16)]
    assert [at for at, _ in result.losses] == list(range(1, STEPS + 1))
    assert max(loss for _, loss in result.losses) < 10.0
    assert result.final_loss < result.losses[0][1] - 1.0
    (line,) = [line for line in said if "back to step" in line]
    assert "at step 22: back to step 16, 9 batches of text left out" in line
    assert result.notes["rewinds"].startswith("1 of at most 2: A loss of ")
    assert line.rstrip(".") in result.notes["rewinds"]


def test_without_leave_to_go_back_nothing_happens(tmp_path: Path, text: Path) -> None:
    trainer, bad, said = prepared(text, tmp_path, rewinds=0)
    result = trainer.result(trainer.run())
    assert bad.read == list(range(STEPS))
    assert "rewinds" not in result.notes
    assert result.losses[BAD][1] > 10.0
    assert said == []


def test_a_checkpoint_too_near_to_the_spike_is_not_trusted(tmp_path: Path, text: Path) -> None:
    trainer, bad, said = prepared(text, tmp_path, bad=frozenset({17}))  # step 18, saved at 16
    trainer.run()
    assert "at step 18: back to step 8, 13 batches" in said[-1]
    assert bad.read == [*range(18), *range(21, 21 + STEPS - 8)]


def test_no_number_before_the_first_checkpoint_goes_back_to_the_beginning(
    tmp_path: Path, text: Path
) -> None:
    trainer, bad, said = prepared(text, tmp_path, harm=no_number, bad=frozenset({4}))
    result = trainer.result(trainer.run())
    assert "The loss is nan at step 5: back to step 0, 8 batches" in said[-1]
    assert bad.read == [*range(5), *range(8, 8 + STEPS)]
    assert all(math.isfinite(loss) for _, loss in result.losses)


def test_rewinds_are_bounded(tmp_path: Path, text: Path) -> None:
    every = frozenset(range(BAD, 1000))
    trainer, bad, _ = prepared(text, tmp_path / "nan", harm=no_number, bad=every)
    with pytest.raises(NonFiniteLossError, match="training has diverged"):
        trainer.run()
    assert len(trainer.watch.rewinds) == 2
    assert len(bad.read) < 2 * STEPS
    trainer, bad, _ = prepared(text, tmp_path / "high", bad=frozenset({21, 30, 40}))
    result = trainer.result(trainer.run())  # the third finite spike passes
    assert result.notes["rewinds"].startswith("2 of at most 2")
    assert sum(loss > 10.0 for _, loss in result.losses) == 1


class StopError(Exception):
    """Ends a run on the spot, as a kill would."""


def stop_at_once(*_: object, **__: object) -> None:
    raise StopError


def killed_while_saving(monkeypatch: pytest.MonkeyPatch, trainer: Trainer) -> None:
    plain = trainer.save
    monkeypatch.setattr(trainer, "save", lambda: stop_at_once()
                        if trainer.watch.rewinds else plain())


def killed_before_tidying(monkeypatch: pytest.MonkeyPatch, trainer: Trainer) -> None:
    monkeypatch.setattr(checkpoint, "remove_after", stop_at_once)


def killed_soon_after(monkeypatch: pytest.MonkeyPatch, trainer: Trainer) -> None:
    plain = trainer._one_step

    def step() -> None:
        if trainer.watch.rewinds and trainer.step == 19:
            raise StopError
        plain()

    monkeypatch.setattr(trainer, "_one_step", step)


@pytest.mark.parametrize("bad", [BAD, 17], ids=["near-checkpoint-used", "older-checkpoint-used"])
@pytest.mark.parametrize("kill", [killed_while_saving, killed_before_tidying, killed_soon_after])
def test_a_kill_during_recovery_changes_nothing(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch, bad: int,
    kill: Callable[[pytest.MonkeyPatch, Trainer], None]
) -> None:
    trainer, _, _ = prepared(text, tmp_path / "unbroken", bad=frozenset({bad}))
    expected = trainer.result(trainer.run())
    trainer, _, _ = prepared(text, tmp_path / "broken", bad=frozenset({bad}))
    with monkeypatch.context() as patch:
        kill(patch, trainer)
        with pytest.raises(StopError):
            trainer.run()
    trainer, _, _ = prepared(text, tmp_path / "broken", bad=frozenset({bad}), resume=True)
    found = trainer.result(trainer.run())
    assert found.losses == expected.losses
    assert found.validation_loss == expected.validation_loss
    assert found.notes["rewinds"] == expected.notes["rewinds"]
    states = [checkpoint.load(checkpoint.saved(tmp_path / name)[0])
              for name in ("unbroken", "broken")]
    for name, tensor in states[0]["model"].items():
        assert torch.equal(tensor, states[1]["model"][name]), name
    assert states[0]["position"] == states[1]["position"]


def test_interruptions_do_not_take_away_the_place_to_go_back_to(
    tmp_path: Path, text: Path
) -> None:
    trainer, _, _ = prepared(text, tmp_path / "unbroken")
    expected = trainer.result(trainer.run())
    for stop in (18, 19, 20, 21, None):  # each saves a checkpoint of its own
        trainer, _, _ = prepared(text, tmp_path / "often", resume=stop != 18)
        if stop is None:
            break
        while trainer.step < stop:
            trainer._one_step()
            trainer._settle(0.0)
            if trainer._checkpoint_due():
                trainer.save()
        trainer.save()
    assert trainer.result(trainer.run()).losses == expected.losses


def test_how_often_to_save_decides_once_a_run_may_go_back(tmp_path: Path, text: Path) -> None:
    with pytest.raises(InputError, match="checkpoint_every"):
        settings(text).refuse_other(settings(text, checkpoint_every=5))
    settings(text, rewinds=0).refuse_other(settings(text, rewinds=0, checkpoint_every=5))
    with pytest.raises(InputError, match="rewinds"):
        settings(text).refuse_other(settings(text, rewinds=0))
    with pytest.raises(InputError, match="Rewinding needs checkpoints"):
        settings(text, checkpoint_every=0)


KILLS = 20


def trained_in_a_fork(chosen: TrainSettings, out: Path) -> tuple[int, int]:
    """A child process that trains, and a pipe that gets one byte per settled step."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    status = 1
    try:  # in the child: nothing of pytest's may run after this
        trainer_module.train(chosen, out, resume=True,
                             on_progress=lambda p: os.write(writing, p.step.to_bytes(2, "big")))
        status = 0
    finally:
        os._exit(status)


def read_step(reading: int) -> int | None:
    got = os.read(reading, 2)
    return int.from_bytes(got, "big") if len(got) == 2 else None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork a process")
def test_20_kills_at_random_moments_lose_no_more_than_the_steps_since_a_checkpoint(
    tmp_path: Path, text: Path
) -> None:
    steps, every = 120, 2
    chosen = settings(text, steps=steps, checkpoint_every=every, rewinds=0)
    expected = trainer_module.train(chosen, tmp_path / "unbroken")
    out, dice, reached = tmp_path / "broken", random.Random(7), 0
    for _ in range(KILLS):
        child, reading = trained_in_a_fork(chosen, out)
        try:
            for turn in range(dice.randint(1, 6)):
                step = read_step(reading)
                assert step is not None, "the child ended before it was killed"
                if turn == 0:
                    assert step > reached - every  # at most `every` steps are done again
                reached = max(reached, step)
            time.sleep(dice.random() * 0.01)  # into a step, a checkpoint or between them
        finally:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        while (step := read_step(reading)) is not None:
            reached = max(reached, step)
        os.close(reading)
        assert os.WTERMSIG(status) == signal.SIGKILL
    found = trainer_module.train(chosen, out, resume=True)
    assert found.losses == expected.losses
    assert found.validation_loss == expected.validation_loss
