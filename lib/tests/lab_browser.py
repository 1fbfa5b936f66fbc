"""A real JupyterLab in a real Chromium, for browser tests and benchmarks.

    with lab_server(folder) as server, chromium() as browser:
        notebook = browser.open(server, "chapter.ipynb")
        notebook.run_all()
        notebook.page.get_by_role("slider").first.press("ArrowRight")
        assert not notebook.errors

Every server gets its own settings, runtime folder, learner's state and token, so
nothing of the person who runs the tests is read or changed. Pages may talk to
127.0.0.1 alone: a request to anywhere else is refused and listed in `foreign`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
HOW_TO_GET_CHROMIUM = (
    "Chromium was not found. Install it (Debian: apt-get install chromium; elsewhere: "
    "python -m playwright install chromium), or name its path in IRONLAW_CHROMIUM."
)
LAB = (sys.executable, "-m", "jupyterlab", "--port={port}", "--no-browser", "--allow-root")

# What a test reads from the running Lab. `jupyterapp` exists because the server's
# configuration below asks for it.
_KERNEL = "window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel"


def find_chromium() -> str | None:
    """Path of a Chromium: `IRONLAW_CHROMIUM`, then the system's, then playwright's own."""
    chosen = os.environ.get("IRONLAW_CHROMIUM")
    if chosen:
        return chosen if Path(chosen).exists() else None
    for name in CHROMIUM_NAMES:
        if found := shutil.which(name):
            return found
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH",
                                Path.home() / ".cache" / "ms-playwright"))
    own = sorted(cache.glob("chromium-*/chrome-*/chrome"))
    return str(own[-1]) if own else None


def driver_problem() -> str | None:
    """Why playwright's driver, a program of its own, does not start here; None when it does."""
    tried = subprocess.run([sys.executable, "-m", "playwright", "--version"],
                           capture_output=True, text=True)
    if tried.returncode == 0:
        return None
    return (f"Playwright's driver does not start. It said: {tried.stderr.strip()[-300:]} "
            "(A missing libatomic.so.1 is, on Debian: apt-get install libatomic1.)")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_notebook(path: str | Path, *cells: str) -> Path:
    """Write a notebook of code cells with the kernel named, so that Lab does not ask for one."""
    import nbformat

    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3",
                                 "language": "python"}},
    )
    nbformat.write(notebook, str(path))
    return Path(path)


@dataclass(frozen=True)
class LabServer:
    """A running JupyterLab: where it is, what it serves, and its log."""

    url: str
    token: str
    root: Path
    state: Path
    log: Path

    def page(self, path: str = "") -> str:
        """The address that opens `path` (below `root`) in an empty workspace."""
        tree = f"/tree/{quote(path)}" if path else ""
        return f"{self.url}/lab{tree}?token={self.token}&reset"


@contextlib.contextmanager
def lab_server(
    root: str | Path,
    *,
    dark: bool = False,
    command: Sequence[str] = LAB,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> Iterator[LabServer]:
    """Serve `root` with JupyterLab on a free port; stop it and its kernels at the end.

    `command` may be any command that ends in a Lab server (`ironlaw lab` too);
    `{port}` and `{root}` in it are replaced. `env` adds to the environment. The
    learner's state lies in `LabServer.state` (`IRONLAW_HOME`), empty unless `env`
    names another. Raises RuntimeError with the log's tail when no server comes up.
    """
    folder = Path(root).resolve()
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as scratch:
        base = Path(scratch)
        port, token = free_port(), secrets.token_hex(16)
        environment = {**os.environ, **_private(base, port, dark), "JUPYTER_TOKEN": token,
                       **(env or {})}
        log = base / "lab.log"
        filled = [part.format(port=port, root=folder) for part in command]
        with log.open("w") as sink:
            process = subprocess.Popen(filled, cwd=folder, env=environment, stdout=sink,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        server = LabServer(f"http://127.0.0.1:{port}", token, folder,
                           Path(environment["IRONLAW_HOME"]), log)
        try:
            _await_server(server, process, timeout)
            yield server
        finally:
            _stop(process)


@dataclass
class Notebook:
    """One notebook open in Lab. `page` is playwright's; the lists grow by themselves."""

    page: Any
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def wait_idle(self, timeout: float = 90.0) -> None:
        """Wait until the kernel is up and has nothing to do."""
        self.page.wait_for_function(f"{_KERNEL}?.status === 'idle'", timeout=1000 * timeout)

    def run_all(self, timeout: float = 180.0) -> None:
        """Run every cell and wait until the last one is done and the kernel is idle."""
        self.wait_idle(timeout)
        self.page.evaluate(
            "() => { window.ranAll = false;"
            " window.jupyterapp.commands.execute('notebook:run-all-cells')"
            ".finally(() => { window.ranAll = true; }); }"
        )
        self.page.wait_for_function("window.ranAll === true", timeout=1000 * timeout)
        self.wait_idle(timeout)

    def cell_errors(self) -> list[str]:
        """The text of every error output in the notebook."""
        found = self.page.evaluate(
            "() => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells)"
            ".flatMap(cell => (cell.type === 'code' ? cell.outputs.toJSON() : []))"
            ".filter(output => output.output_type === 'error')"
            ".map(output => `${output.ename}: ${output.evalue}`)"
        )
        return list(found)


@dataclass
class Browser:
    """A Chromium with one context."""

    context: Any

    def open(self, server: LabServer, path: str, timeout: float = 90.0) -> Notebook:
        """Open the notebook `path` of `server` and wait until its kernel is idle."""
        notebook = Notebook(self.context.new_page())
        page = notebook.page
        page.on("console", lambda message: notebook.errors.append(message.text)
                if message.type == "error" else None)
        page.on("pageerror", lambda error: notebook.errors.append(str(error)))
        page.on("requestfailed", lambda request: notebook.foreign.append(request.url)
                if not _local(request.url) else None)
        page.goto(server.page(path), timeout=1000 * timeout)
        notebook.wait_idle(timeout)
        return notebook


@contextlib.contextmanager
def chromium(
    *, width: int = 1280, height: int = 900, executable: str | None = None, **context: Any
) -> Iterator[Browser]:
    """A headless Chromium with a window of `width` x `height` pixels.

    Further keywords go to playwright's `new_context` (`device_scale_factor`,
    `reduced_motion` ...). Raises RuntimeError when there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    path = executable or find_chromium()
    if path is None:
        raise RuntimeError(HOW_TO_GET_CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        try:
            opened = browser.new_context(viewport={"width": width, "height": height}, **context)
            opened.route(lambda url: not _local(url), lambda route: route.abort())
            yield Browser(opened)
        finally:
            browser.close()


def _local(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("data", "blob", "about") or parts.hostname == "127.0.0.1"


def _private(base: Path, port: int, dark: bool) -> dict[str, str]:
    """Folders and settings that belong to this server alone, as environment variables."""
    names = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
             "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTERLAB_SETTINGS_DIR": "settings",
             "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython",
             "IRONLAW_HOME": "state"}
    for name in names.values():
        (base / name).mkdir()
    configuration = {"ServerApp": {"ip": "127.0.0.1", "port": port, "port_retries": 0,
                                   "open_browser": False, "allow_root": True},
                     "LabApp": {"expose_app_in_browser": True}}
    (base / "config" / "jupyter_server_config.json").write_text(json.dumps(configuration))
    settings = {"notification": {"fetchNews": "false", "checkForUpdates": False},
                "themes": {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"}}
    plugin = base / "settings" / "@jupyterlab" / "apputils-extension"
    plugin.mkdir(parents=True)
    for name, values in settings.items():
        (plugin / f"{name}.jupyterlab-settings").write_text(json.dumps(values))
    return {variable: str(base / name) for variable, name in names.items()}


def _await_server(server: LabServer, process: subprocess.Popen[bytes], timeout: float) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(
            f"{server.url}/api?token={server.token}", timeout=2
        ):
            return
        time.sleep(0.1)
    tail = server.log.read_text(errors="replace")[-3000:]
    raise RuntimeError(f"JupyterLab did not come up at {server.url}. Its log ends:\n{tail}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server; asked politely it ends its kernels too, which are in other groups."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
