"""The doctor: every state it can find, and a next step for all but ok."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from ironlaw import cli, hardware, workspace
from ironlaw.commands import doctor
from ironlaw.commands.doctor import BROKEN, MISSING, OK
from ironlaw.measure import device as devices
from ironlaw.measure import host
from ironlaw.results import DeviceProfile, MatmulRate


def profile(**changes: object) -> DeviceProfile:
    here = devices.find("cpu")
    values = {
        "name": here.name, "device_type": "cpu", "threads": here.threads, "memory_bytes": None,
        "matmul": {"fp32": MatmulRate(dtype="fp32", flops_per_second=1e11, size=8, by_size={})},
        "copy_bytes_per_second": None, "launch_seconds": None,
        "host_to_device_bytes_per_second": None, "catalogue_name": None,
        "versions": {"torch": metadata.version("torch")},
        "measured_on": datetime.datetime.now(datetime.UTC).isoformat(),
    }
    return DeviceProfile(**(values | changes))  # type: ignore[arg-type]


def test_here_nothing_essential_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)}
    assert {"Python", "numpy", "ipywidgets", "front end", "PyTorch", "device", "calibration",
            "nbgrader", "sandbox", "Chromium", "your state", "disk"} <= set(checks)
    for name, check in checks.items():
        assert check["state"] in (OK, MISSING, BROKEN)
        assert check["found"]
        assert check["state"] == OK or check["next_step"], name
    assert checks["calibration"]["state"] == MISSING
    assert "ironlaw calibrate" in checks["calibration"]["next_step"]


def test_the_report_puts_the_next_step_under_the_problem() -> None:
    text = doctor.report([doctor.Check("a", OK, "1.0"),
                          doctor.Check("bb", MISSING, "not there", "Get it.")])
    assert text.splitlines()[:3] == ["ok       a   1.0", "missing  bb  not there",
                                     "             -> Get it."]
    assert "not there yet: bb" in text
    assert "Everything works" in doctor.report([doctor.Check("a", OK, "1.0")])


@pytest.mark.parametrize(("check", "status"), [
    (doctor.Check("x", BROKEN, "no", "Mend it.", essential=True), 1),
    (doctor.Check("x", BROKEN, "no", "Mend it."), 0),
    (doctor.Check("x", MISSING, "no", "Mend it."), 0),
])
def test_only_what_is_essential_and_broken_fails(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        check: doctor.Check, status: int) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: [check])
    assert cli.main(["doctor"]) == status
    assert ("Mend first: x" in capsys.readouterr().out) == bool(status)


def test_an_old_python_is_broken() -> None:
    assert doctor.python((3, 11, 0)).state == OK
    assert doctor.python((3, 13, 2)).state == OK
    old = doctor.python((3, 10, 9))
    assert (old.state, old.essential) == (BROKEN, True)
    assert "3.11" in old.next_step


@pytest.mark.parametrize(("error", "state"), [
    (ModuleNotFoundError("no", name="torch"), MISSING),
    (ModuleNotFoundError("no", name="sympy"), BROKEN),
    (OSError("libcudart.so: cannot open shared object file"), BROKEN),
    (ImportError("undefined symbol"), BROKEN),
])
def test_a_half_installed_torch_is_told_from_an_absent_one(
        monkeypatch: pytest.MonkeyPatch, error: Exception, state: str) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(doctor.importlib, "import_module", fail)
    found = doctor.pytorch()
    assert (found.state, found.essential) == (state, False)
    assert "ironlaw[labs]" in found.next_step
    for check in doctor.base_libraries():
        assert (check.state, check.essential) == (BROKEN, True)


def test_without_torch_the_rest_is_still_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = doctor.Check("PyTorch", MISSING, "not installed", "Install it.")
    monkeypatch.setattr(doctor, "pytorch", lambda: absent)
    names = [check.name for check in doctor.examine()]
    assert "device" not in names
    assert {"PyTorch", "nbgrader", "disk"} <= set(names)


@pytest.mark.parametrize(("kernel", "drawer", "state"), [
    ("8.1.9", "3.0.17", OK), ("7.7.1", "1.1.1", OK), ("7.7.1", "3.0.17", BROKEN),
    ("8.0.0", "1.1.1", BROKEN), ("8.0.0", None, MISSING),
])
def test_widgets_that_would_stay_blank_are_found(
        monkeypatch: pytest.MonkeyPatch, kernel: str, drawer: str | None, state: str) -> None:
    installed = {"ipywidgets": kernel, "jupyterlab_widgets": drawer}
    monkeypatch.setattr(doctor, "_version", installed.get)
    found = doctor.front_end({})
    assert found.state == state
    if state == BROKEN:
        assert ("==3.*" if kernel.startswith("8") else "==1.*") in found.next_step
    assert "Colab" in doctor.front_end({"COLAB_RELEASE_TAG": "x"}).found
    assert "lost" in doctor.front_end({"BINDER_SERVICE_HOST": "x"}).found


def test_a_state_folder_that_cannot_be_written_is_broken(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IRONLAW_HOME", str(tmp_path / "new" / "home"))
    assert doctor.state_folder().state == OK
    assert list((tmp_path / "new" / "home").iterdir()) == []  # the trial file is gone
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("IRONLAW_HOME", str(tmp_path / "file" / "home"))
    found = doctor.state_folder()
    assert (found.state, found.essential) == (BROKEN, True)
    assert "IRONLAW_HOME" in found.next_step


def test_an_unreadable_catalogue_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[str]:
        raise KeyError("accelerator")

    monkeypatch.setattr(hardware, "names", fail)
    assert doctor.catalogue().state == BROKEN


def test_more_threads_than_cpus_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_quota", lambda: 0.5)
    found = doctor.device()
    assert found.state == MISSING
    assert "OMP_NUM_THREADS=1" in found.next_step
    monkeypatch.setattr(host, "cpu_quota", lambda: None)
    assert doctor.device().state == OK
    monkeypatch.setenv("IRONLAW_DEVICE", "abacus")
    assert doctor.device().state == BROKEN


def test_a_profile_is_judged_by_device_age_and_version() -> None:
    old = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC).isoformat()
    cases = [({}, OK, "old"), ({"name": "Another"}, MISSING, "another device"),
             ({"measured_on": old}, MISSING, "years"),
             ({"versions": {"torch": "1.0"}}, MISSING, "PyTorch 1.0"),
             ({"notes": {"busy": "yes"}}, OK, "busy")]
    assert doctor.profile().state == MISSING
    for changes, state, words in cases:
        workspace.save_profile(profile(**changes))
        found = doctor.profile()
        assert found.state == state
        assert words in found.found
        assert found.state == OK or "ironlaw calibrate" in found.next_step


def test_a_bubblewrap_that_may_do_nothing_is_not_enough(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.sys, "executable", str(tmp_path / "python"))  # no autograder
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    refused = SimpleNamespace(returncode=1, stderr="No permissions to create new namespace\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    found = doctor.sandbox()
    assert found.state == MISSING
    assert "namespace" in found.found
    assert "namespaces" in found.next_step
    monkeypatch.setattr(subprocess, "run",
                        lambda *_, **__: SimpleNamespace(returncode=0, stderr=""))
    assert doctor.sandbox().state == OK
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert "apt-get install bubblewrap" in doctor.sandbox().next_step


@pytest.mark.parametrize(("told", "state"), [
    ({"works": True, "reason": "", "next_step": ""}, OK),
    ({"works": False, "reason": "bubblewrap fails", "next_step": "Move it."}, MISSING),
    (None, MISSING),
])
def test_an_installed_autograder_is_asked_whether_its_own_sandbox_works(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: dict[str, object] | None,
        state: str) -> None:
    said = json.dumps(told) if told else "Traceback"
    grader = tmp_path / "ironlaw-autograder"
    grader.write_text(f"#!/bin/sh\n[ \"$*\" = 'sandbox --json' ] && echo '{said}'\n", "utf-8")
    grader.chmod(0o755)
    monkeypatch.setattr(doctor.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    found = doctor.sandbox()
    assert found.state == state
    assert found.state == OK or found.next_step
    if told and told["reason"]:
        assert str(told["reason"]) in found.found
        assert found.next_step == "Move it."


def test_a_browser_is_found_where_it_is_named(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.Path, "home", lambda: tmp_path)
    monkeypatch.delenv("IRONLAW_CHROMIUM", raising=False)
    assert doctor.chromium().state == MISSING
    (tmp_path / "browser").write_text("")
    monkeypatch.setenv("IRONLAW_CHROMIUM", str(tmp_path / "browser"))
    assert doctor.chromium().found == str(tmp_path / "browser")


def test_little_room_is_noticed_before_the_folder_exists(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for free, state in ((1e9, MISSING), (50e9, OK)):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _, usage=usage: usage)
        assert doctor.disk(tmp_path / "not" / "yet").state == state


def test_a_missing_torch_is_one_line_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def ironlaw(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "ironlaw.cli", *words], env=environment,
                              capture_output=True, text=True)

    refused = ironlaw("calibrate")
    assert refused.returncode == 2
    assert refused.stderr.startswith("ironlaw calibrate: PyTorch is not available")
    assert "ironlaw[labs]" in refused.stderr
    examined = ironlaw("doctor", "--json")
    assert examined.returncode == 0
    assert {"name": "PyTorch", "state": MISSING, "found": "not installed",
            "next_step": "pip install 'ironlaw[labs]'", "essential": False} in json.loads(
                examined.stdout)
