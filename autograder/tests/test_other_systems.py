"""Where there is no Linux: what runs without isolation on macOS, and what Windows is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from ironlaw_autograder.cli import main
from ironlaw_autograder.judge import sandbox, watch
from ironlaw_autograder.judge.kernel import Kernel
from ironlaw_autograder.judge.limits import Limits


def test_without_proc_a_student_process_runs_and_keeps_its_own_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(watch, "_PROC", tmp_path / "absent")
    assert watch.measure(os.getpid(), ()) == watch.Use(processes=[os.getpid()])
    quick = Limits(cell_seconds=5.0, grace_seconds=1.0)
    kernel = Kernel((), quick, isolated=False)
    try:
        assert kernel.run("import time\ntime.sleep(0.5)\nx = 1", 5.0).status == "ok"
        assert kernel.ask({"op": "value", "name": "x"}, [], 2.0)[0]["value"] == 1
        assert kernel.run("while True: pass", 0.5).status == "timeout"
    finally:
        kernel.close()


def test_with_proc_a_process_is_measured() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system has no /proc")
    use = watch.measure(os.getpid(), ())
    assert os.getpid() in use.processes
    assert use.memory > 1_000_000
    assert use.threads >= 1


def test_windows_is_sent_to_wsl_or_the_container_and_never_to_the_risk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox, "problem", sandbox.problem.__wrapped__)
    monkeypatch.setattr(sandbox, "sys", SimpleNamespace(platform="win32"))
    assert main(["sandbox", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["reason"] == "bubblewrap needs Linux; this is Windows."
    folder = tmp_path / "class"
    folder.mkdir()
    assert main(["grade", str(folder), "--accept-risk", "--root", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "Windows has neither" in said
    for advice in (told["next_step"], said):
        assert "WSL" in advice
        assert "autograder/Containerfile" in advice
        assert "accept-risk" not in advice
    assert list(tmp_path.iterdir()) == [folder]  # nothing was written


def test_macos_may_take_the_risk_or_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "sys", SimpleNamespace(platform="darwin"))
    reason = sandbox.problem.__wrapped__()
    assert reason == "bubblewrap needs Linux; this is macOS."
    assert "autograder/Containerfile" in sandbox.next_step(reason)
    assert "--accept-risk" in sandbox.next_step(reason)
    sandbox.require_processes()
