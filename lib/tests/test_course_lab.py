"""`ironlaw lab`: the port, the options, and a real server on a working copy."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lab_browser
import pytest
from ironlaw import cli, course
from ironlaw.commands import lab
from ironlaw.errors import InputError, UnavailableError

COMMAND = (sys.executable, "-m", "ironlaw.cli", "lab", "--no-browser", "--port={port}",
           "--dir={root}")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind((lab.HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_taken_port_is_refused_by_name(taken: int) -> None:
    with pytest.raises(InputError, match=f"port = {taken}, .*in use.*Leave --port out"):
        lab.chosen_port(taken)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_an_impossible_port_is_refused(port: int) -> None:
    with pytest.raises(InputError, match="port = "):
        lab.chosen_port(port)


def test_without_a_wish_the_first_free_port_is_taken(
        taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "FIRST_PORT", taken)
    chosen = lab.chosen_port(None)
    assert taken < chosen < taken + lab.PORTS_TRIED
    assert lab.chosen_port(chosen) == chosen


def test_no_free_port_at_all_is_said(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "FIRST_PORT", taken)
    monkeypatch.setattr(lab, "PORTS_TRIED", 1)
    with pytest.raises(UnavailableError, match="Name one with --port"):
        lab.chosen_port(None)


def test_a_taken_port_is_one_line_and_lays_nothing(
        taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["lab", "--no-browser", f"--port={taken}", f"--dir={tmp_path / 'mine'}"])
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert not (tmp_path / "mine").exists()


def test_without_jupyterlab_the_remedy_is_named(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    args = argparse.Namespace(port=None, dir=tmp_path / "mine", no_browser=True, jupyter=[])
    with pytest.raises(UnavailableError, match=r"pip install 'ironlaw\[labs\]'"):
        lab.run(args)


def test_course_defaults_come_before_a_persons_own_path(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "theirs")
    monkeypatch.setenv("JUPYTER_TOKEN", "")
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", "also theirs")
    lab.prepare_environment(tmp_path)
    ours, theirs = os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert theirs == "theirs"
    assert (Path(ours) / "labconfig" / "page_config.json").is_file()
    assert len(os.environ["JUPYTER_TOKEN"]) >= 32
    assert os.environ["JUPYTERLAB_WORKSPACES_DIR"] == "also theirs"


def test_lab_opens_at_the_first_chapter(tmp_path: Path) -> None:
    assert lab.start_page(tmp_path) == "/lab"
    (tmp_path / "chapters").mkdir()
    (tmp_path / course.FIRST_CHAPTER).touch()
    assert lab.start_page(tmp_path) == "/lab/tree/chapters/01_iron_law.ipynb"
    assert "--ServerApp.open_browser=False" in lab.jupyter_options(tmp_path, 1, browser=False)


def get(server: lab_browser.LabServer, path: str) -> tuple[int, str]:
    """Status and body of one page of the server."""
    join = "&" if "?" in path else "?"
    try:
        with urllib.request.urlopen(f"{server.url}{path}{join}token={server.token}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, ""


def page_config(html: str) -> dict[str, Any]:
    """The configuration that the server hands to JupyterLab's page."""
    start = html.index("{", html.index("jupyter-config-data"))
    return dict(json.JSONDecoder().raw_decode(html, start)[0])


def test_a_real_server_serves_the_copy_with_the_courses_defaults(tmp_path: Path) -> None:
    with lab_browser.lab_server(tmp_path, command=COMMAND) as server:
        laid = set(course.shipped(course.source()))
        assert laid <= {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")}
        status, html = get(server, "/lab")
        assert status == 200
        disabled = page_config(html)["disabledExtensions"]
        assert "@jupyter/nbgrader:formgrader" in disabled
        assert "@jupyterlab/apputils-extension:announcements" in disabled
        assert "@jupyter/nbgrader:validate-assignment" not in disabled
        federated = {e["name"] for e in page_config(html)["federated_extensions"]}
        assert {"@jupyter/nbgrader", "@jupyter-widgets/jupyterlab-manager"} <= federated
        assert get(server, "/formgrader")[0] == 404, "an instructor's page"
        assert get(server, "/nbgrader_version?version=0.9.6")[0] == 200, "Validate asks for it"
        _, schema = get(server, "/lab/api/settings/@jupyterlab/apputils-extension:notification")
        assert json.loads(schema)["schema"]["properties"]["fetchNews"]["default"] == "false"
        assert get(server, "/api/contents/chapters")[0] == 200
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{server.url}/api/contents")


def heed_interrupts() -> None:
    """Undo what a background shell does to its children: they would ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_ends_it_in_peace(tmp_path: Path) -> None:
    with subprocess.Popen(
        [part.format(port=lab_browser.free_port(), root=tmp_path) for part in COMMAND],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=heed_interrupts,
    ) as process:
        try:
            await_page(process)
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, complaints
    assert "Traceback" not in complaints


def await_page(process: subprocess.Popen[str]) -> None:
    """Read the address that the command prints, and wait until it answers."""
    said = ""
    while "Ctrl-C" not in said:
        line = process.stdout.readline() if process.stdout else ""
        assert line, said
        said += line
    address = next(word for word in said.split() if word.startswith("http://"))
    up = False
    while not up:
        assert process.poll() is None
        try:
            up = urllib.request.urlopen(address, timeout=5).status == 200
        except OSError:
            time.sleep(0.1)
