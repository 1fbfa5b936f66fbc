"""A Dask scheduler and workers as processes of their own, on loopback, as on other machines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from distributed import Client, Security

_DASK = [sys.executable, "-m", "dask"]
_WAIT = 60.0


class Cluster:
    """A scheduler on a free port; `add` starts workers, `stop` ends everything."""

    def __init__(self, folder: Path, *words: str, security: Security | None = None) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._words = words
        self._security = security
        file = folder / "scheduler.json"
        self._start("scheduler", ["--host", "127.0.0.1", "--port", "0", "--protocol",
                                  "tcp" if security is None else "tls",
                                  "--scheduler-file", str(file)])
        until = time.monotonic() + _WAIT
        while True:
            try:
                self.address: str = json.loads(file.read_text())["address"]
                return
            except (OSError, ValueError):  # not there yet, or half written
                if time.monotonic() > until or self.processes[0].poll() is not None:
                    self.stop()
                    raise AssertionError((folder / "scheduler-0.log").read_text()) from None
                time.sleep(0.05)

    def add(self, *words: str, nanny: bool = False, cwd: Path | None = None,
            environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start one worker with one thread; it joins when it is ready."""
        return self._start("worker", [self.address, "--host", "127.0.0.1", "--nthreads", "1",
                                      "--nanny" if nanny else "--no-nanny",
                                      "--local-directory", str(self.folder), *words],
                           cwd=cwd, environment=environment)

    def wait_for(self, count: int) -> None:
        """Return once this many workers have joined."""
        with self._client() as client:
            client.wait_for_workers(count, timeout=_WAIT)

    def known(self) -> int:
        """How many submissions the scheduler holds at this moment."""
        with self._client() as client:
            return client.run_on_scheduler(lambda dask_scheduler: sum(
                key.startswith("grade") for key in dask_scheduler.tasks))

    def stop(self) -> None:
        """End every process that was started here, and what a nanny started."""
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _client(self) -> Client:
        return Client(self.address, set_as_default=False, security=self._security)

    def _start(self, kind: str, words: list[str], cwd: Path | None = None,
               environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        log = self.folder / f"{kind}-{len(self.processes)}.log"
        quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": cwd or Path(__file__).parent,
                                 "env": {**os.environ, **(environment or {})}}
        with log.open("wb") as file:
            made = subprocess.Popen([*_DASK, kind, "--no-dashboard", *self._words, *words],
                                    stdout=file, stderr=file, start_new_session=True, **quiet)
        self.processes.append(made)
        return made
