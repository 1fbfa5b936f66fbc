"""A run's folder belongs to one process; running out of memory ends with a plan."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from ironlaw import cli
from ironlaw.config import RunConfig
from ironlaw.errors import UnavailableError
from ironlaw.gpt2 import lock, out_of_memory, train
from ironlaw.gpt2.lock import LockedRunError, RunLock
from ironlaw.gpt2.out_of_memory import OutOfMemoryError, memory_errors
from ironlaw.gpt2.settings import TrainSettings
from ironlaw.gpt2.step import TrainingStep
from ironlaw.gpt2.train import Trainer
from ironlaw.measure import host

pytestmark = pytest.mark.usefixtures("one_thread")
HOLDER = """
import sys, time
from pathlib import Path
from ironlaw.gpt2.lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def tiny(text: Path, steps: int = 2) -> TrainSettings:
    run = RunConfig(layers=1, width=32, heads=2, batch=2, seq=32)
    return TrainSettings(run=run, steps=steps, corpus=str(text), checkpoint_every=1)


def test_a_second_run_is_refused_by_name_and_a_killed_one_leaves_the_folder_free(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)],
                              stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedRunError) as caught:
            train.train(tiny(text), tmp_path)
        said = str(caught.value)
        assert f"by process {holder.pid} on {socket.gethostname()}, since 20" in said
        assert sorted(f.name for f in tmp_path.iterdir()) == [lock.NAME, "text.txt"]
        words = ["train", "--out", str(tmp_path), "--device", "cpu", "--corpus", str(text)]
        assert cli.main(words) == 2
        assert f"by process {holder.pid}" in capsys.readouterr().err
        assert json.loads((tmp_path / lock.NAME).read_text())["pid"] == holder.pid
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(timeout=60)
    finally:
        holder.kill()
        holder.wait(timeout=60)
    assert (tmp_path / lock.NAME).exists()  # nobody could tidy up
    assert len(train.train(tiny(text), tmp_path).losses) == 2
    assert not (tmp_path / lock.NAME).exists()


def test_a_lock_is_held_once_and_given_back_also_after_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    RunLock(folder).check()
    assert not folder.exists()  # looking makes nothing
    with RunLock(folder):
        with pytest.raises(LockedRunError, match=f"process {os.getpid()}"), RunLock(folder):
            pass
        with pytest.raises(LockedRunError):
            RunLock(folder).check()
    with pytest.raises(ZeroDivisionError), RunLock(folder):
        raise ZeroDivisionError
    RunLock(folder).check()
    assert list(folder.iterdir()) == []
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(UnavailableError, match="another folder"), RunLock(tmp_path / "file"):
        pass


def test_a_lock_whose_words_are_gone_still_holds(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        (tmp_path / lock.NAME).write_text("", encoding="utf-8")
        with pytest.raises(LockedRunError, match="by another process"), RunLock(tmp_path):
            pass


CUDA = ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.56 GiB "
        "of which 1.06 GiB is free.")
FORMS = [
    torch.OutOfMemoryError(CUDA),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] data. DefaultCPUAllocator: can't allocate "
                 "memory: you tried to allocate 9 bytes. Error code 12 (Cannot allocate memory)"),
    RuntimeError("MPS backend out of memory (MPS allocated: 17.00 GB, other allocations: 1 MB)."),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: out of memory"),
    MemoryError(),
]


@pytest.mark.parametrize("problem", FORMS, ids=lambda problem: str(problem)[:20])
def test_every_form_says_what_was_asked(problem: Exception) -> None:
    run = RunConfig(batch=3, seq=17, loss_rows=512)
    with pytest.raises(OutOfMemoryError) as caught, memory_errors(run, torch.device("cpu")):
        raise problem
    said = str(caught.value)
    for words in ("nano with 3 sequences of 17 tokens in fp32", "slices of 512", "Halve --batch"):
        assert words in said
    assert caught.value.there is None


def test_an_error_of_another_kind_passes() -> None:
    with pytest.raises(RuntimeError, match="another kind") as caught, \
            memory_errors(RunConfig(), torch.device("cpu")):
        raise RuntimeError("an error of another kind")
    assert not isinstance(caught.value, OutOfMemoryError)


def test_on_cuda_it_says_what_there_was_this_process_own_part_included(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 16 * 10**9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 12 * 10**9)
    with pytest.raises(OutOfMemoryError) as caught, \
            memory_errors(RunConfig(), torch.device("cuda", 0)):
        raise torch.OutOfMemoryError(CUDA)
    assert caught.value.there == 13e9
    assert "There were 13.00 GB (12.11 GiB) for it. PyTorch said: CUDA out of memory. Tried" in str(
        caught.value)
    assert str(caught.value.advised("Do this.")).endswith("1.06 GiB is free. Do this.")


@pytest.mark.parametrize("problem", FORMS[:2], ids=["cuda", "cpu"])
def test_the_command_ends_with_the_plan_that_fits(
    problem: Exception, tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*anything: object) -> None:
        raise problem

    monkeypatch.setattr(TrainingStep, "backward", full)
    given = ["train", "--layers", "2", "--width", "64", "--heads", "2", "--batch", "8", "--seq",
             "128", "--device", "cpu", "--corpus", str(text), "--out", str(tmp_path / "run")]
    assert cli.main(given) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "Memory ran out on cpu: nano with 8 sequences of 128 tokens" in said
    assert "This fits: --" in said
    assert "batch" in said or "recompute" in said or "attention" in said
    assert out_of_memory.is_out_of_memory(problem)


@pytest.mark.parametrize("problem", FORMS[1:4:2], ids=["cpu", "cublas"])
def test_measuring_ends_with_the_plan_that_fits_too(
    problem: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*anything: object) -> None:
        raise problem

    monkeypatch.setattr(TrainingStep, "backward", full)
    monkeypatch.setattr(host, "available_bytes", lambda: 7e9)
    assert cli.main(["measure", "--backend", "device", "--on", "cpu", "--layers", "2", "--width",
                     "64", "--heads", "2", "--batch", "8", "--seq", "128", "--steps", "2"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "nano with 8 sequences of 128 tokens" in said
    assert "There were 7.000 GB (6.519 GiB) for it." in said
    assert "This fits: --" in said


def test_running_out_while_text_held_back_is_read_says_so_too(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunConfig(layers=1, width=32, heads=2, batch=2, seq=32)
    trainer = Trainer(TrainSettings(run=run, steps=1, corpus=str(text)), tmp_path)
    saved = trainer.run()
    monkeypatch.setattr(trainer.train_step.model, "loss",
                        lambda *anything: torch.empty(2**60))  # no machine has that much
    with pytest.raises(OutOfMemoryError, match="2 sequences of 32 tokens"):
        trainer.result(saved)
