"""The scheduler of a Dask cluster: its address, the proof of who is who, and the connection.

Dask's protocol unpickles what it receives, so whoever reaches a scheduler's port can run code on
its workers. Without TLS a scheduler belongs on a network that holds nobody but graders.
"""

from __future__ import annotations

import importlib.util
import logging
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ironlaw.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from distributed import Client, Security

ALLOWED = "HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT"
_PORT = 8786  # Dask's own default
CONNECT_SECONDS = 10.0
_START = "Start it (`dask scheduler`), or look for a slip in the address."


@dataclass(frozen=True)
class Scheduler:
    """Where the cluster's scheduler listens, and the files that prove who is who.

    With `tls://` each of the three PEM files is needed, here as on scheduler and workers,
    unless Dask's own configuration names them.
    """

    address: str
    tls_ca_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None


def check(scheduler: Scheduler) -> Scheduler:
    """The scheduler with its address in full, once one has answered there.

    Raises `InputError` for what can be seen to be wrong, `UnavailableError` for the rest.
    """
    given = scheduler.address
    parts = urlsplit(given if "://" in given else f"tcp://{given}")
    try:
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host, port = None, 0
    if parts.scheme not in ("tcp", "tls") or not host or " " in host or parts.path.strip("/"):
        raise InputError("scheduler", given, ALLOWED)
    _check_files(scheduler, parts.scheme)
    if importlib.util.find_spec("distributed") is None:
        raise UnavailableError("Dask's `distributed`", "--scheduler names a Dask cluster.",
                               "Install it: pip install 'distributed>=2023.5'.")
    shown = f"[{host}]" if ":" in host else host
    found = replace(scheduler, address=f"{parts.scheme}://{shown}:{port}")
    _hear(found, host, port)
    return found


def connect(scheduler: Scheduler) -> Client:
    """A connection to the scheduler, which `check` has found."""
    from distributed import Client

    for name in ("distributed", "distributed.client"):  # what matters is told in our own words
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return Client(scheduler.address, timeout=CONNECT_SECONDS, set_as_default=False,
                      security=_security(scheduler), name="ironlaw-grader")
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as problem:
        raise _silent(scheduler, problem) from None


def _check_files(scheduler: Scheduler, scheme: str) -> None:
    files = {"tls_ca_file": scheduler.tls_ca_file, "tls_cert": scheduler.tls_cert,
             "tls_key": scheduler.tls_key}
    for name, file in files.items():
        if file is not None and not file.is_file():
            raise InputError(name, str(file), "a PEM file that is there")
    if any(files.values()) and not (all(files.values()) and scheme == "tls"):
        raise InputError("scheduler", scheduler.address, "tls://HOST:PORT with --tls-ca-file, "
                         "--tls-cert and --tls-key, or tcp://HOST:PORT with none of them")


def _hear(scheduler: Scheduler, host: str, port: int) -> None:
    """See that a scheduler speaks there: it greets first, and Dask's client would wait for ever
    for a greeting that does not come."""
    context = None
    if scheduler.address.startswith("tls:"):
        context = _security(scheduler).get_connection_args("client").get("ssl_context")
        if context is None:
            raise InputError("scheduler", scheduler.address, "tcp://HOST:PORT unless certificates "
                             "are named", "Add --tls-ca-file, --tls-cert and --tls-key.")
    try:
        line = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
    except OSError as problem:
        raise UnavailableError(f"The scheduler at {scheduler.address}", f"{problem}.",
                               _START) from None
    try:
        with line, context.wrap_socket(line) if context else line as talk:
            if not talk.recv(1):
                raise ConnectionError("it hung up")
    except OSError as problem:
        raise _silent(scheduler, problem) from None


def _silent(scheduler: Scheduler, problem: Exception) -> UnavailableError:
    return UnavailableError(f"The scheduler at {scheduler.address}",
                            f"what listens there did not answer as one ({problem}).", _START)


def _security(scheduler: Scheduler) -> Security:
    """The files that were named, or else what Dask's own configuration says."""
    from distributed import Security

    if scheduler.tls_cert is None:
        return Security()
    return Security(tls_ca_file=str(scheduler.tls_ca_file), require_encryption=True,
                    tls_client_cert=str(scheduler.tls_cert),
                    tls_client_key=str(scheduler.tls_key))
