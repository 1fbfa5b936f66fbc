"""`ironlaw lab`: JupyterLab on chapter 1, in a working copy of the course."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from .. import course
from ..errors import InputError, UnavailableError, count

HOST = "127.0.0.1"
FIRST_PORT = 8888
PORTS_TRIED = 100
# What an instructor's nbgrader adds to JupyterLab and a learner has no use for: they
# need a gradebook or an exchange folder, and show errors without one. Validate stays.
SERVER_PARTS_OFF = ("formgrader", "course_list", "assignment_list")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ironlaw lab`."""
    parser.add_argument("--port", type=int, metavar="N",
                        help=f"this port and no other (default: the first free from {FIRST_PORT})")
    parser.add_argument("--dir", type=Path, metavar="DIR",
                        help=f"the working copy (default: {course.default_folder()})")
    parser.add_argument("--no-browser", action="store_true",
                        help="print the address instead of opening a browser")
    parser.add_argument("jupyter", nargs="*", metavar="-- JUPYTER OPTIONS",
                        help="after --: options handed to JupyterLab as they are")


def run(args: argparse.Namespace) -> int:
    """Lay the working copy, then serve it until interrupted."""
    if find_spec("jupyterlab") is None:
        raise UnavailableError("JupyterLab", "this installation has the library alone.",
                               "Install it with: pip install 'ironlaw[labs]'")
    port = chosen_port(args.port)
    laid = course.lay(args.dir or course.default_folder())
    for line in laid.lines():
        print(line)
    if args.port is None and port != FIRST_PORT:
        print(f"Port {FIRST_PORT} is taken; using {port}.")
    options = jupyter_options(laid.folder, port, not args.no_browser)
    prepare_environment(laid.folder)
    print(f"You work in {laid.folder}.")
    print(f"Open {address(port, start_page(laid.folder))}")
    print("Press Ctrl-C here to stop.", flush=True)
    return _serve(options + args.jupyter)


def chosen_port(asked: int | None) -> int:
    """The port asked for, or the first free one from 8888; refuses a taken port by name."""
    if asked is not None:
        port = count("port", asked, low=1, high=65535)
        if obstacle := _obstacle(port):
            raise InputError("port", port, f"free, and this one is not ({obstacle})",
                             "Leave --port out and the first free one is taken.")
        return port
    for port in range(FIRST_PORT, FIRST_PORT + PORTS_TRIED):
        if not _obstacle(port):
            return port
    raise UnavailableError("a free port", f"{FIRST_PORT} to {FIRST_PORT + PORTS_TRIED - 1} "
                           "are all taken.", "Name one with --port.")


def start_page(folder: Path) -> str:
    """The first chapter's place in JupyterLab; Lab's own front page where it is missing."""
    has_first = (folder / course.FIRST_CHAPTER).is_file()
    return f"/lab/tree/{course.FIRST_CHAPTER}" if has_first else "/lab"


def address(port: int, page: str) -> str:
    """Where the course opens, with the token that lets only its reader in."""
    return f"http://{HOST}:{port}{page}?token={os.environ['JUPYTER_TOKEN']}"


def jupyter_options(folder: Path, port: int, browser: bool) -> list[str]:
    """JupyterLab's own options for serving `folder`, opened at the first chapter."""
    options = [
        f"--ServerApp.root_dir={folder}",
        f"--ServerApp.ip={HOST}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.open_browser={browser}",
        "--ServerApp.answer_yes=True",
        "--ServerApp.log_level=WARN",
        "--LabApp.log_level=WARN",
        f"--LabApp.default_url={start_page(folder)}",
    ]
    options += [f"--ServerApp.jpserver_extensions=nbgrader.server_extensions.{part}=False"
                for part in SERVER_PARTS_OFF]
    # Containers run as root; on 127.0.0.1 behind a token that adds no exposure.
    if getattr(os, "geteuid", lambda: 1)() == 0:
        options.append("--ServerApp.allow_root=True")
    return options


def prepare_environment(folder: Path) -> None:
    """Put the course's JupyterLab defaults first, and keep its window layout with the copy.

    These are defaults, not settings: what a learner chooses in Lab's menus wins.
    """
    ours = str(Path(course.__file__).parent / "jupyter")
    theirs = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([ours, theirs] if theirs else [ours])
    os.environ.setdefault("JUPYTERLAB_WORKSPACES_DIR",
                          str(folder / course.STATE_FOLDER / "workspaces"))
    if not os.environ.get("JUPYTER_TOKEN"):
        os.environ["JUPYTER_TOKEN"] = secrets.token_hex(24)


def _obstacle(port: int) -> str:
    """Why nobody can listen on `port` now; empty when one can."""
    with socket.socket() as probe:
        if sys.platform != "win32":  # there the option would let two servers share a port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as problem:
            return (problem.strerror or str(problem)).lower()
    return ""


def _serve(options: list[str]) -> int:
    from jupyterlab.labapp import LabApp

    try:
        LabApp.launch_instance(argv=options)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
