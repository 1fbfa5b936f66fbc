"""Killed, interrupted or damaged: a resumed run ends exactly like an unbroken one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from ironlaw.config import RunConfig
from ironlaw.errors import InputError, UnavailableError
from ironlaw.gpt2 import checkpoint, train
from ironlaw.gpt2.checkpoint import DamagedCheckpointError
from ironlaw.gpt2.out_of_memory import OutOfMemoryError
from ironlaw.gpt2.settings import TrainSettings
from ironlaw.gpt2.train import InterruptedRunError, Trainer
from ironlaw.gpt2.watch import NonFiniteLossError

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 24
FLAGS = ["--layers", "1", "--width", "32", "--heads", "2", "--batch", "2", "--seq", "32",
         "--accumulate", "2", "--dropout", "0.1", "--threads", "1", "--device", "cpu",
         "--steps", str(STEPS), "--checkpoint-every", "4", "--seed", "5"]

# Each makes the process kill itself with SIGKILL at one exact moment. In `save`, a
# checkpoint is half written; before and after `replace` it is whole and not yet (or just)
# under its name; in the step, weights are half updated.
MOMENTS = {
    "between the forward pass and the update of step 2": """
        after = iter(range(1, 100))
        from ironlaw.gpt2.step import TrainingStep
        update = TrainingStep.update
        TrainingStep.update = lambda self: die() if next(after) == 2 else update(self)
    """,
    "while the second checkpoint is half written": """
        calls = iter(range(1, 100))
        save = checkpoint.torch.save
        def half(state, handle):
            if next(calls) == 2:
                handle.write(b"PK" + bytes(5000)); handle.flush(); die()
            save(state, handle)
        checkpoint.torch.save = half
    """,
    "with a checkpoint written and not yet named": """
        replace = os.replace
        os.replace = lambda a, b: die() if str(b).endswith("12.pt") else replace(a, b)
    """,
    "with a checkpoint named and the older ones not yet removed": """
        checkpoint._tidy = lambda folder, newest, regular: die()
    """,
}
PREAMBLE = """
import os, signal, sys
from ironlaw.gpt2 import checkpoint
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""
EPILOGUE = """
from ironlaw.cli import main
sys.exit(main(sys.argv[1:]))
"""


def ironlaw(*words: str, moment: str = "") -> subprocess.CompletedProcess[str]:
    program = PREAMBLE + textwrap.dedent(moment) + EPILOGUE
    return subprocess.run([sys.executable, "-c", program, "train", *words],
                          capture_output=True, text=True, timeout=300, check=False)


def last_object(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = checkpoint.load(checkpoint.saved(folder)[0])["model"]
    return state


def test_killed_at_every_kind_of_moment_it_ends_like_an_unbroken_run(
    tmp_path: Path, text: Path
) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    given = [*FLAGS, "--corpus", str(text)]
    expected = last_object(ironlaw(*given, "--out", str(unbroken), "--json"))
    for name, moment in MOMENTS.items():
        done = ironlaw(*given, "--out", str(broken), "--resume", moment=moment)
        assert done.returncode == -signal.SIGKILL, (name, done.stderr)
    found = last_object(ironlaw("--out", str(broken), "--resume", "--json"))
    assert found["final_loss"] == expected["final_loss"]
    assert found["losses"] == expected["losses"]
    assert found["validation_loss"] == expected["validation_loss"]
    assert len(found["losses"]) == STEPS  # type: ignore[arg-type]
    ours, theirs = weights(broken), weights(unbroken)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    left = sorted(f.name for f in broken.iterdir())
    assert left == ["result.json", "settings.json", f"step-{STEPS - 4:08d}.pt",
                    f"step-{STEPS:08d}.pt"]


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path, text: Path) -> None:
    out = tmp_path / "run"
    # Slow enough that the signal arrives in the middle of the run.
    slow = ("from ironlaw.gpt2.train import Trainer; import time; step = Trainer._one_step\n"
            "def one(self): time.sleep(0.1); step(self)\nTrainer._one_step = one")
    process = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + slow + EPILOGUE, "train", *FLAGS, "--steps", "1000",
         "--checkpoint-every", "3", "--corpus", str(text), "--out", str(out)],
        stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not checkpoint.saved(out) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        words = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"ironlaw train --resume --out {out}" in words
    saved = checkpoint.load(checkpoint.saved(out)[0])
    assert f"Stopped at step {saved['step']} of 1000" in words
    assert "Traceback" not in words


def test_killed_before_the_first_checkpoint_it_starts_again_as_it_was_asked(
    tmp_path: Path, text: Path
) -> None:
    settings = tiny(text, seed=3)
    with pytest.raises(StopError):
        losses_of(settings, tmp_path, on_progress=stop_after(2))
    assert checkpoint.saved(tmp_path) == []
    assert checkpoint.settings_of(tmp_path) == settings
    said: list[str] = []
    assert len(losses_of(settings, tmp_path, resume=True, say=said.append)) == 12
    assert "no checkpoint" in said[0]


def test_a_disk_that_is_full_is_said_and_costs_no_checkpoint(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(tiny(text), tmp_path / "run")
    flush = os.fsync

    def full(descriptor: int) -> None:
        if trainer.step >= 8:
            raise OSError(28, "No space left on device")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnavailableError, match="No space left on device"):
        trainer.run()
    names = sorted(f.name for f in (tmp_path / "run").iterdir())
    assert names == ["settings.json", "step-00000004.pt"]
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(UnavailableError, match="it is a file"):
        Trainer(tiny(text), tmp_path / "file")


def tiny(text: Path, **changes: object) -> TrainSettings:
    run = RunConfig(layers=1, width=32, heads=2, batch=2, seq=32, optimizer="adamw-fused")
    values: dict[str, object] = {"run": run, "steps": 12, "corpus": str(text), "dropout": 0.1,
                                 "checkpoint_every": 4, **changes}
    return TrainSettings(**values)  # type: ignore[arg-type]


def losses_of(settings: TrainSettings, out: Path, **options: object) -> list[float]:
    result = train.train(settings, out, **options)  # type: ignore[arg-type]
    return [loss for _, loss in result.losses]


class StopError(Exception):
    """Ends a run from outside, as a crash would."""


def stop_after(step: int) -> object:
    def check(progress: train.Progress) -> None:
        if progress.step == step:
            raise StopError
    return check


@pytest.mark.parametrize("name", ["amp-bf16", "amp-fp16", "pure-bf16"])
def test_every_precision_resumes_exactly(tmp_path: Path, text: Path, name: str) -> None:
    settings = tiny(text)
    settings = tiny(text, run=settings.run.replace(precision=name, recompute="every-block"))
    expected = losses_of(settings, tmp_path / "unbroken")
    with pytest.raises(StopError):
        losses_of(settings, tmp_path / "broken", on_progress=stop_after(7))
    assert losses_of(settings, tmp_path / "broken", resume=True) == expected


@pytest.mark.parametrize("name", ["momentum", "rmsprop", "adam", "adamw-foreach"])
def test_every_optimizer_resumes_exactly(tmp_path: Path, text: Path, name: str) -> None:
    settings = tiny(text)
    settings = tiny(text, run=settings.run.replace(optimizer=name), learning_rate=1e-3)
    expected = losses_of(settings, tmp_path / "unbroken")
    with pytest.raises(StopError):
        losses_of(settings, tmp_path / "broken", on_progress=stop_after(10))
    assert losses_of(settings, tmp_path / "broken", resume=True) == expected


def test_two_threads_resume_exactly_and_the_checkpoint_says_two(tmp_path: Path, text: Path) -> None:
    # Large enough that its sums are really shared out among threads.
    run = RunConfig(layers=1, width=128, heads=2, batch=4, seq=64, optimizer="adamw-fused")
    settings = tiny(text, run=run, steps=6, checkpoint_every=2)
    expected = losses_of(settings, tmp_path / "unbroken", threads=2)
    with pytest.raises(StopError):
        losses_of(settings, tmp_path / "broken", threads=2, on_progress=stop_after(3))
    assert checkpoint.load(checkpoint.saved(tmp_path / "broken")[0])["threads"] == 2
    torch.set_num_threads(1)  # as another process might start out
    assert losses_of(settings, tmp_path / "broken", resume=True) == expected
    assert torch.get_num_threads() == 2
    ours, theirs = weights(tmp_path / "broken"), weights(tmp_path / "unbroken")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    with pytest.raises(InputError, match="must be 2, as in the run"):
        losses_of(settings, tmp_path / "broken", resume=True, threads=1)


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1000])


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("harm", [flip_a_byte, cut_short, empty])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    tmp_path: Path, text: Path, harm: object
) -> None:
    settings, out, said = tiny(text), tmp_path / "run", list[str]()
    expected = losses_of(settings, out)
    newest, older = checkpoint.saved(out)
    assert (newest.name, older.name) == ("step-00000012.pt", "step-00000008.pt")
    harm(newest)  # type: ignore[operator]
    with pytest.raises(DamagedCheckpointError, match=newest.name):
        checkpoint.load(newest)
    assert losses_of(settings, out, resume=True, say=said.append) == expected
    assert f"The checkpoint {newest} is damaged" in said[0]
    assert str(older) in said[1]
    for file in checkpoint.saved(out):
        harm(file)  # type: ignore[operator]
    with pytest.raises(DamagedCheckpointError, match=f"{newest.name}.* start a new run"):
        losses_of(settings, out, resume=True)


@pytest.mark.parametrize(("changes", "named"), [
    ({"steps": 13}, "steps"),
    ({"seed": 1}, "seed"),
    ({"learning_rate": 1e-2}, "learning_rate"),
    ({"run": RunConfig(layers=2, width=32, heads=2, batch=2, seq=32, optimizer="adamw-fused")},
     "layers"),
])
def test_other_settings_are_refused_by_name(
    tmp_path: Path, text: Path, changes: dict[str, object], named: str
) -> None:
    with pytest.raises(StopError):
        losses_of(tiny(text), tmp_path, on_progress=stop_after(5))
    with pytest.raises(InputError) as caught:
        losses_of(tiny(text, **changes), tmp_path, resume=True)
    assert caught.value.argument == named


def test_a_changed_text_and_another_number_of_threads_are_refused(
    tmp_path: Path, text: Path
) -> None:
    with pytest.raises(StopError):
        losses_of(tiny(text), tmp_path, on_progress=stop_after(5))
    threads = torch.get_num_threads()
    with pytest.raises(InputError, match=f"must be {threads}, as in the run"):
        losses_of(tiny(text), tmp_path, resume=True, threads=threads + 1)
    text.write_text(text.read_text(encoding="utf-8") + "one more line\n", encoding="utf-8")
    with pytest.raises(InputError, match="unchanged"):
        losses_of(tiny(text), tmp_path, resume=True)


def test_saving_more_often_decides_nothing(tmp_path: Path, text: Path) -> None:
    expected = losses_of(tiny(text), tmp_path / "a")
    assert losses_of(tiny(text, checkpoint_every=0), tmp_path / "b") == expected
    assert [f.name for f in checkpoint.saved(tmp_path / "b")] == ["step-00000012.pt"]


def test_a_finished_run_is_not_trained_again_and_a_new_one_does_not_overwrite_it(
    tmp_path: Path, text: Path
) -> None:
    expected = losses_of(tiny(text), tmp_path)
    before = checkpoint.saved(tmp_path)[0].stat().st_mtime_ns
    assert losses_of(tiny(text), tmp_path, resume=True) == expected
    assert checkpoint.saved(tmp_path)[0].stat().st_mtime_ns == before
    with pytest.raises(InputError, match="Add --resume"):
        losses_of(tiny(text), tmp_path)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_loss_that_is_no_number_stops_the_run_before_it_is_saved(
    tmp_path: Path, text: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(tiny(text), tmp_path)
    plain = trainer.train_step.model.loss

    def broken(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = plain(tokens, targets)
        if trainer.step != 7:  # the eighth step, after which a checkpoint is due
            return loss
        if where == "loss":
            return loss * float("nan")
        loss.register_hook(lambda gradient: gradient * float("inf"))
        return loss

    monkeypatch.setattr(trainer.train_step.model, "loss", broken)
    with pytest.raises(NonFiniteLossError, match=f"{where}.*at step 8"):
        trainer.run()
    assert [f.name for f in checkpoint.saved(tmp_path)] == ["step-00000004.pt"]


def test_out_of_memory_says_what_was_asked(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(tiny(text), tmp_path)

    def full(*anything: object) -> torch.Tensor:
        return torch.empty(2**60)  # no machine has that much

    monkeypatch.setattr(trainer.train_step.model, "loss", full)
    with pytest.raises(OutOfMemoryError, match=r"2 sequences of 32 tokens.*Halve --batch"):
        trainer.run()

    def other(*anything: object) -> torch.Tensor:
        raise RuntimeError("an error of another kind")

    monkeypatch.setattr(trainer.train_step.model, "loss", other)
    with pytest.raises(RuntimeError, match="another kind"):
        trainer.run()


def test_a_request_to_stop_ends_at_a_safe_point(tmp_path: Path, text: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def ask(progress: train.Progress) -> None:
        if progress.step == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(InterruptedRunError, match="step 6 of 12"):
        losses_of(tiny(text), tmp_path / "run", on_progress=ask)
    assert signal.getsignal(signal.SIGTERM) == before
    assert checkpoint.saved(tmp_path / "run")[0].name == "step-00000006.pt"
    expected = losses_of(tiny(text), tmp_path / "other")
    assert losses_of(tiny(text), tmp_path / "run", resume=True) == expected
