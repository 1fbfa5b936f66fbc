"""Batches by worker processes: the same ones, in the same order, from the same place."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from ironlaw import cli
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.gpt2 import feed, train
from ironlaw.gpt2.corpus import Batches
from ironlaw.gpt2.feed import Feed
from ironlaw.gpt2.settings import TrainSettings

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


def source() -> Batches:
    return Batches(np.arange(999, dtype=np.uint16), batch=3, seq=10, seed=4)


def dealt(made: Feed, batches: int) -> list[list[int]]:
    return [made.next()[0].flatten().tolist() for _ in range(batches)]


def test_what_is_ready_ahead_is_not_yet_dealt_out() -> None:
    plain = dealt(Feed(source(), CPU), 6)
    ahead = Feed(source(), CPU)
    found = dealt(ahead, 2)
    ahead.prepare(3)
    assert ahead.position == 6
    found += dealt(ahead, 1)
    place = ahead.position
    ahead.prepare(2)
    ahead.position = place  # what was ready is dropped and comes again
    assert found + dealt(ahead, 3) == plain
    tokens_, targets = ahead.next()
    assert torch.equal(tokens_[:, 1:], targets[:, :-1])


def test_workers_deal_the_same_from_any_place(tmp_path: Path) -> None:
    plain = dealt(Feed(source(), CPU), 40)  # beyond one epoch of 33 batches
    with Feed(source(), CPU, workers=2) as fed:
        found = dealt(fed, 12)
        fed.position = 30 * 3
        later = dealt(fed, 10)
    assert found == plain[:12]
    assert later == plain[30:40]
    assert fed.position == 40 * 3


CTRL_C = """
import os, signal, sys, time
sys.path.insert(0, {folder!r})
from test_train_feed import CPU, Feed, dealt, source

plain = dealt(Feed(source(), CPU), 40)
with Feed(source(), CPU, workers=2) as fed:
    fed._stream = fed._started(False)
    for _ in range(3):  # before they have begun, while they do, and when they are at work
        for worker in fed._stream._workers:
            os.kill(worker.pid, signal.SIGINT)
        time.sleep(0.1)
    assert dealt(fed, 40) == plain
assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
print("dealt")
"""


def test_a_ctrl_c_at_any_moment_leaves_the_workers_alone() -> None:
    """A terminal sends it to all; a process of its own, whose first workers these are."""
    code = CTRL_C.format(folder=str(Path(__file__).parent))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "dealt\n"


def test_a_mapped_corpus_travels_as_its_path(tmp_path: Path) -> None:
    file = tmp_path / "tokens.u16"
    np.arange(60_000, dtype=np.uint16).tofile(file)
    mapped = np.memmap(file, dtype=np.uint16, mode="r")
    made = feed._ByPosition(Batches(mapped, batch=2, seq=8, seed=0))
    sent = pickle.dumps(made)
    assert len(sent) < 2000
    there = pickle.loads(sent)
    assert torch.equal(there[6][0], made[6][0])
    assert there.source.tokens.filename == str(file)


def test_workers_never_start_by_forking_a_process_that_may_run_cuda() -> None:
    assert feed.start_method() in ("forkserver", "spawn")
    made = feed.loader(source(), 0, workers=1, pinned=False)
    assert made.multiprocessing_context.get_start_method() == feed.start_method()


@pytest.mark.parametrize(("device", "pinned"), [("cpu", False), ("mps", False), ("cuda", True)])
def test_memory_is_page_locked_for_cuda_alone(
    device: str, pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[torch.Tensor] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda t: locked.append(t) or t)
    sent: list[tuple[torch.device, bool]] = []

    def to(tensor: torch.Tensor, where: torch.device, non_blocking: bool) -> torch.Tensor:
        sent.append((where, non_blocking))
        return tensor

    monkeypatch.setattr(torch.Tensor, "to", to)
    Feed(source(), torch.device(device)).next()
    assert len(locked) == (2 if pinned else 0)
    assert sent == [(torch.device(device), pinned)] * 2  # only then may a copy run on
    asked: list[bool] = []
    monkeypatch.setattr(feed, "loader", lambda s, start, workers, pin: asked.append(pin) or iter(
        [[torch.zeros(1)] * 2]))
    Feed(source(), torch.device(device), workers=2).next()
    assert asked == [pinned]


def test_a_run_with_workers_is_resumed_by_one_without_bit_for_bit(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunConfig(layers=1, width=32, heads=2, batch=2, seq=32, accumulate=2)
    settings = TrainSettings(run=run, steps=8, corpus=str(text), checkpoint_every=3)
    expected = train.train(settings, tmp_path / "a").losses

    class StopError(Exception):
        pass

    def stop(progress: train.Progress) -> None:
        if progress.step == 5:
            raise StopError

    with pytest.raises(StopError):
        train.train(settings, tmp_path / "b", loader_workers=2, on_progress=stop)
    assert train.train(settings, tmp_path / "b", resume=True).losses == expected
    with pytest.raises(InputError, match="loader_workers"):
        train.train(settings, tmp_path / "c", loader_workers=-1)
    assert cli.main(["train", "--loader-workers", "65", "--device", "cpu"]) == 2
    assert "loader_workers = 65" in capsys.readouterr().err


def test_the_next_text_is_on_its_way_before_the_host_waits(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunConfig(layers=1, width=32, heads=2, batch=2, seq=32, accumulate=2)
    trainer = train.Trainer(TrainSettings(run=run, steps=3, corpus=str(text)), tmp_path)
    monkeypatch.setattr(trainer, "device", torch.device("mps"))  # any that is not a CPU
    trainer._one_step()
    assert len(trainer.batches._ready) == 2
    assert trainer.batches.position == 4
    trainer._one_step()
    trainer._one_step()
    assert len(trainer.batches._ready) == 0  # nothing is fetched after the last step
