"""The helper that browser tests stand on, as far as no browser is needed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lab_browser
import pytest


def test_a_named_chromium_that_is_not_there_is_not_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("IRONLAW_CHROMIUM", str(tmp_path / "missing"))
    assert lab_browser.find_chromium() is None
    there = tmp_path / "browser"
    there.touch()
    monkeypatch.setenv("IRONLAW_CHROMIUM", str(there))
    assert lab_browser.find_chromium() == str(there)


def test_without_a_chromium_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("IRONLAW_CHROMIUM", str(tmp_path / "missing"))
    with pytest.raises(RuntimeError, match="apt-get install chromium"), lab_browser.chromium():
        pytest.fail("there is no browser to give")


def test_a_server_that_dies_shows_its_log(tmp_path: Path) -> None:
    dying = (sys.executable, "-c", "print('port {port} is cursed'); raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="is cursed"), \
            lab_browser.lab_server(tmp_path, command=dying, timeout=20):
        pytest.fail("no server came up")


def test_a_written_notebook_names_its_kernel(tmp_path: Path) -> None:
    file = lab_browser.write_notebook(tmp_path / "n.ipynb", "1 + 1", "2 + 2")
    written = json.loads(file.read_text())
    assert written["metadata"]["kernelspec"]["name"] == "python3"
    assert ["".join(cell["source"]) for cell in written["cells"]] == ["1 + 1", "2 + 2"]


@pytest.mark.parametrize(("url", "local"), [
    ("http://127.0.0.1:8888/lab", True), ("data:image/png;base64,AA", True),
    ("https://cdn.example.org/x.js", False), ("http://localhost.example.org/", False),
    ("ws://127.0.0.1:8888/api", True)])
def test_only_this_machine_is_local(url: str, local: bool) -> None:
    assert lab_browser._local(url) == local
