"""Builds `.venv` with pip: what `make lab` and `make test` do first.

    python binder/build_env.py [labs|dev] [--torch cpu]

Needs nothing but Python 3.11 or newer, so it also serves where there is no make.
It writes down what it installed and does nothing while that still holds. `labs` is
what a learner needs; `dev` adds the tests' tools and the instructor's autograder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "installed.json"
LOG = VENV / "pip.log"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
PINS = ROOT / "binder" / "constraints.txt"
AUTOGRADER = ROOT / "autograder"
INPUTS = (ROOT / "pyproject.toml", PINS, AUTOGRADER / "pyproject.toml", Path(__file__))
OLDEST = (3, 11)
# PyTorch's own index of builds without CUDA: a tenth of the download on Linux.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NETWORK_WORDS = ("NewConnectionError", "Temporary failure in name resolution",
                 "Name or service not known", "Network is unreachable", "ConnectTimeout",
                 "ReadTimeout", "Failed to resolve", "getaddrinfo failed", "ProxyError",
                 "Connection refused", "Connection reset", "SSLError")


def main() -> None:
    """Parse the command line and bring `.venv` up to date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extra", nargs="?", choices=("labs", "dev"), default="labs")
    parser.add_argument("--torch", choices=("", "default", "cpu"), default="",
                        help="cpu: take PyTorch's small build without CUDA")
    args = parser.parse_args()
    if sys.version_info < OLDEST:
        stop(f"Python {'.'.join(map(str, sys.version_info[:3]))} is too old: the course needs "
             f"{'.'.join(map(str, OLDEST))} or newer. Name one: make lab PYTHON=python3.12")
    wanted = {"inputs": digest(), "extra": args.extra, "torch": args.torch}
    if holds(wanted):
        return
    make_venv()
    print(f"Installing the course into {VENV}; the first time takes some minutes "
          "and downloads PyTorch.", flush=True)
    install(pip_arguments(args.extra, args.torch))
    STAMP.write_text(json.dumps(wanted), encoding="utf-8")
    print("Installed.", flush=True)


def digest() -> str:
    """A hash of the files that decide what is installed."""
    total = hashlib.sha256()
    for file in INPUTS:
        total.update(file.read_bytes() if file.is_file() else b"absent")
    return total.hexdigest()


def holds(wanted: dict[str, str]) -> bool:
    """Whether `.venv` works and already has what is wanted; `dev` includes `labs`."""
    try:
        have = json.loads(STAMP.read_text(encoding="utf-8"))
        enough = have["extra"] in (wanted["extra"], "dev")
        same = have["inputs"] == wanted["inputs"]
        torch = not wanted["torch"] or have["torch"] == wanted["torch"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return enough and same and torch and works()


def works() -> bool:
    """Whether the environment's interpreter starts: it does not after its Python is gone."""
    try:
        done = subprocess.run([str(PYTHON), "-c", "import pip"], capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


def make_venv() -> None:
    """Make `.venv` unless a working one is there."""
    if works():
        return
    if find_spec("ensurepip") is None:  # Debian ships it in a package of its own
        stop(f"This Python cannot make environments. On Debian or Ubuntu: apt-get install "
             f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")
    try:
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=os.name != "nt").create(VENV)
    except (OSError, subprocess.CalledProcessError) as problem:
        stop(f"{VENV} could not be made: {problem}")


def pip_arguments(extra: str, torch: str) -> list[str]:
    """What `pip install` is asked for, from the root of the checkout."""
    arguments = ["-c", str(PINS), "-e", f".[{extra}]"]
    if extra == "dev" and (AUTOGRADER / "pyproject.toml").is_file():
        arguments += ["-e", str(AUTOGRADER)]
    if torch == "cpu":
        arguments += ["--extra-index-url", TORCH_CPU_INDEX]
    return arguments


def install(arguments: list[str]) -> None:
    """Run pip; on failure say the reason in one line, with the log's place."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install",
               "--retries", "2", "--log", str(LOG), *arguments]
    LOG.unlink(missing_ok=True)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as process:
        said = []
        for line in process.stdout or ():
            said.append(line)
            progress(line)
    if sys.stdout.isatty():
        print("\r" + " " * 78 + "\r", end="", flush=True)
    if process.returncode:
        stop(reason("".join(said)))


def progress(line: str) -> None:
    """Show on a terminal, in place, what pip is busy with."""
    if sys.stdout.isatty() and line.startswith(("Collecting", "  Downloading", "Installing")):
        print("\r" + line.strip()[:77].ljust(78), end="", flush=True)


def reason(said: str) -> str:
    """Why pip failed, in one line."""
    if any(word in said for word in NETWORK_WORDS):
        return ("No network: the package index could not be reached. Connect and run the same "
                f"command again; it goes on where it stopped. Details: {LOG}")
    if "No space left on device" in said:
        return "The disk is full: the environment needs about 3 GB. Free some and run again."
    errors = [line.strip() for line in said.splitlines() if "error" in line.lower()]
    return f"pip failed: {errors[-1] if errors else 'it gave no reason.'} Details: {LOG}"


def stop(message: str) -> NoReturn:
    """End with one line."""
    print(message, file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
