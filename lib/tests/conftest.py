"""What the whole suite shares: no test touches the learner's state, and a skip is never quiet.

With `IRONLAW_REQUIRE_ALL=1` (as CI sets it) a test that was skipped or deselected
fails the run: a check that did not happen is not a check that passed.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import lab_browser
import pytest

# Set before any test module can import torch: two suites' worth of threads on a small
# machine make every timing-sensitive test slower and none faster.
os.environ.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
# And threads that wait for each other must not spin on the core that the other one needs:
# beside other work that makes small models many times slower.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory,
              monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has a learner's state of its own, empty at the start."""
    monkeypatch.setenv("IRONLAW_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Models this small only wait for each other's threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A small file to train on."""
    file = tmp_path / "text.txt"
    file.write_text("".join(f"{i} green bottles on wall {i % 9}\n" for i in range(2000)),
                    encoding="utf-8")
    return file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, in plain words, what this machine cannot run."""
    for marker, obstacle in (("browser", no_chromium), ("sandbox", no_sandbox)):
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and (why := obstacle()):
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=why))


@functools.cache
def no_chromium() -> str | None:
    """Why browser tests cannot run here, or None."""
    if not lab_browser.find_chromium():
        return lab_browser.HOW_TO_GET_CHROMIUM
    return lab_browser.driver_problem()


@functools.cache
def no_sandbox() -> str | None:
    """Why sandbox tests cannot run here, or None."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "bubblewrap was not found. Install it (Debian: apt-get install bubblewrap)."
    trial = subprocess.run([bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"],
                           capture_output=True, text=True)
    if trial.returncode == 0:
        return None
    return ("bubblewrap cannot make namespaces here; the system must allow unprivileged user "
            f"namespaces. It said: {trial.stderr.strip()}")


def _nothing_may_be_missing() -> bool:
    return os.environ.get("IRONLAW_REQUIRE_ALL", "") not in ("", "0")


def _not_run(config: pytest.Config) -> tuple[int, int]:
    """How many tests were skipped, and how many deselected."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    stats = reporter.stats if reporter else {}
    return len(stats.get("skipped", ())), len(stats.get("deselected", ()))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a green run with gaps into a red one when nothing may be missing."""
    on_worker = hasattr(session.config, "workerinput")
    green = exitstatus == pytest.ExitCode.OK
    if green and not on_worker and _nothing_may_be_missing() and any(_not_run(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what did not run; the reasons stand above, in pytest's own summary."""
    skipped, deselected = _not_run(terminalreporter.config)
    if not skipped and not deselected:
        return
    verdict = ("IRONLAW_REQUIRE_ALL is set, so this run has failed."
               if _nothing_may_be_missing() else "Everything else ran.")
    terminalreporter.write_line(
        f"\nNot run: {skipped} skipped, {deselected} deselected. {verdict}", bold=True)
