"""A test that did not run is told, and fails the run where nothing may be missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
GREEN = "def test_fine():\n    assert True\n"
SKIPPED = "import pytest\n\ndef test_later():\n    pytest.skip('no such device')\n"
BROWSER = "import pytest\n\n@pytest.mark.browser\ndef test_page():\n    assert False\n"
SANDBOX = "import pytest\n\n@pytest.mark.sandbox\ndef test_box():\n    assert False\n"


def suite(folder: Path, *tests: str, words: tuple[str, ...] = (), **env: str) -> tuple[int, str]:
    """Run `tests` in `folder` under this suite's conftest; the exit status and what was said."""
    deeper = folder / "lib" / "tests"
    deeper.mkdir(parents=True)
    for name in ("conftest.py", "lab_browser.py"):
        shutil.copy(HERE / name, deeper)
    for number, text in enumerate(tests):
        (deeper / f"test_{number}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    browser: x\n    sandbox: x\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("IRONLAW", "PYTEST"))}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           *words, str(deeper)], cwd=folder, env=environment | env,
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_a_skip_is_told_and_passes(tmp_path: Path) -> None:
    status, said = suite(tmp_path, GREEN, SKIPPED)
    assert status == 0, said
    assert "Not run: 1 skipped, 0 deselected. Everything else ran." in said


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_a_skip_fails_where_nothing_may_be_missing(tmp_path: Path, words: tuple[str, ...]) -> None:
    status, said = suite(tmp_path, GREEN, SKIPPED, words=words, IRONLAW_REQUIRE_ALL="1")
    assert status == 1, said
    assert "Not run: 1 skipped, 0 deselected. IRONLAW_REQUIRE_ALL is set" in said


def test_leaving_tests_out_fails_too(tmp_path: Path) -> None:
    status, said = suite(tmp_path, GREEN, GREEN.replace("fine", "more"), words=("-k", "fine"),
                         IRONLAW_REQUIRE_ALL="1")
    assert status == 1, said
    assert "0 skipped, 1 deselected" in said


def test_nothing_missing_is_green(tmp_path: Path) -> None:
    status, said = suite(tmp_path, GREEN, IRONLAW_REQUIRE_ALL="1")
    assert status == 0, said
    assert "Not run" not in said


@pytest.mark.parametrize(("test", "advice"), [
    (BROWSER, "Chromium was not found. Install it"),
    (SANDBOX, "bubblewrap was not found. Install it"),
], ids=["browser", "sandbox"])
def test_missing_programs_are_named_with_the_remedy(
        tmp_path: Path, test: str, advice: str) -> None:
    status, said = suite(tmp_path, GREEN, test, words=("-ra",), PATH=str(tmp_path),
                         IRONLAW_CHROMIUM=str(tmp_path / "none"))
    assert status == 0, said
    assert advice in said
