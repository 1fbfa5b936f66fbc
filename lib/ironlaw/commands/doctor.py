"""`ironlaw doctor`: what works here, and how to mend the rest."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .. import hardware, workspace
from ..errors import IronlawError
from ..units import GB, duration, gigabytes

OK, MISSING, BROKEN = "ok", "missing", "broken"
_OLDEST_PYTHON = (3, 11)
_LITTLE_DISK = 2 * GB
_OLD_PROFILE_SECONDS = 90 * 86_400.0
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass(frozen=True)
class Check:
    """One line of the report.

    `state` is ok, missing (the course works, less one thing that `found` names) or
    broken; `next_step` is empty when there is nothing to do. Only a broken
    `essential` makes the command fail.
    """

    name: str
    state: str
    found: str
    next_step: str = ""
    essential: bool = False


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ironlaw doctor`."""
    parser.add_argument("--json", action="store_true",
                        help="print [{name, state, found, next_step, essential}]")


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 when something without which nothing works is broken."""
    checks = examine()
    if args.json:
        print(json.dumps([dataclasses.asdict(check) for check in checks], indent=1))
    else:
        print(report(checks))
    return 1 if any(c.essential and c.state == BROKEN for c in checks) else 0


def examine() -> list[Check]:
    """All checks, in the order in which a newcomer meets them."""
    checks = [python(sys.version_info[:3]), *base_libraries(), catalogue(), state_folder(),
              front_end(os.environ), library("jupyterlab", "JupyterLab", "the course opens in it"),
              pytorch()]
    if checks[-1].state == OK:
        checks += [device(), profile()]
    return [*checks, library("tokenizers", "tokenizers", "training on text needs it"),
            library("nbgrader", "nbgrader", "validating a lab needs it"), sandbox(),
            chromium(), disk(workspace.home())]


def report(checks: list[Check]) -> str:
    """The checks as text, each problem with its next step below it."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.state:<8} {check.name:<{width}}  {check.found}")
        if check.next_step:
            lines.append(f"{'':<8} {'':<{width}}  -> {check.next_step}")
    broken = [c.name for c in checks if c.essential and c.state == BROKEN]
    todo = [c.name for c in checks if c.state != OK and c.name not in broken]
    lines.append("")
    if broken:
        lines.append(f"Mend first: {', '.join(broken)}. The course cannot run without.")
    elif todo:
        lines.append(f"The course runs. What is not there yet: {', '.join(todo)}.")
    else:
        lines.append("Everything works.")
    return "\n".join(lines)


def python(version: tuple[int, ...]) -> Check:
    """Whether this Python is new enough."""
    shown = ".".join(map(str, version))
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    if version[:2] >= _OLDEST_PYTHON:
        return Check("Python", OK, shown, essential=True)
    return Check("Python", BROKEN, f"{shown}, older than {oldest}",
                 f"Install Python {oldest} or newer and build the environment again.", True)


def base_libraries() -> list[Check]:
    """The libraries that every chapter needs, imported for real."""
    return [_imported(name, "pip install ironlaw", essential=True)
            for name in ("numpy", "matplotlib", "ipywidgets")]


def catalogue() -> Check:
    """Whether the accelerator catalogue that ships with the course can be read."""
    try:
        return Check("accelerators", OK, f"{len(hardware.names())} in the catalogue",
                     essential=True)
    except (OSError, ValueError, KeyError, IronlawError) as problem:
        return Check("accelerators", BROKEN, f"the catalogue cannot be read ({problem})",
                     "Install ironlaw again.", True)


def state_folder() -> Check:
    """Whether answers, guesses and the device profile can be saved."""
    folder = workspace.home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
            file.write(b"x")
    except OSError as problem:
        return Check("your state", BROKEN, f"{folder} cannot be written ({problem.strerror})",
                     "Make that folder writable, or name another in IRONLAW_HOME.", True)
    return Check("your state", OK, str(folder), essential=True)


def front_end(environment: Mapping[str, str]) -> Check:
    """Where notebooks are shown, and whether its widgets fit the ipywidgets here.

    ipywidgets 8 draws through jupyterlab_widgets 3, ipywidgets 7 through 1: with the
    wrong pair sliders stay blank without any error.
    """
    if "COLAB_RELEASE_TAG" in environment:
        return Check("front end", OK, "Colab, which brings its own ipywidgets")
    if any(name.startswith("BINDER_") for name in environment):
        return Check("front end", OK, "Binder: your work is lost when it closes; "
                     "download what you want to keep")
    kernel, drawer = _version("ipywidgets"), _version("jupyterlab_widgets")
    if kernel is None or drawer is None:
        return Check("front end", MISSING, "widgets have nothing to draw them in JupyterLab here",
                     "pip install 'ironlaw[labs]', then restart JupyterLab.")
    wanted = {"7": "1", "8": "3"}.get(kernel.split(".")[0])
    if wanted is not None and drawer.split(".")[0] != wanted:
        return Check("front end", BROKEN, f"ipywidgets {kernel} with jupyterlab_widgets {drawer}: "
                     "sliders would stay blank",
                     f"pip install 'jupyterlab_widgets=={wanted}.*', then reload the page.")
    return Check("front end", OK, f"ipywidgets {kernel} with jupyterlab_widgets {drawer}")


def library(package: str, name: str, use: str) -> Check:
    """An optional library, by its installed version; it is not imported."""
    version = _version(package)
    if version:
        return Check(name, OK, version)
    return Check(name, MISSING, f"not installed; {use}", "pip install 'ironlaw[labs]'")


def pytorch() -> Check:
    """PyTorch, imported for real: a half-installed one is worse than none."""
    return _imported("torch", "pip install 'ironlaw[labs]'", essential=False, name="PyTorch")


def device() -> Check:
    """The device that measurements will run on, and whether its threads fit."""
    from ..measure import host
    from ..measure.device import find

    try:
        here = find()
    except IronlawError as problem:
        return Check("device", BROKEN, str(problem), "Unset IRONLAW_DEVICE, or correct it.")
    memory = gigabytes(here.memory_bytes) if here.memory_bytes else "memory unknown"
    known = f"in the catalogue as {here.catalogue_name}" if here.catalogue_name else (
        "" if here.type == "cpu" else "not in the catalogue: its own calibration counts")
    found = ", ".join(filter(None, (f"{here.name} ({here.type})", memory,
                                    f"{here.threads} threads", known)))
    quota = host.cpu_quota()
    if quota is not None and here.threads > quota:
        return Check("device", MISSING, f"{found}; only {quota:g} CPUs may be used",
                     f"Set OMP_NUM_THREADS={max(1, int(quota))} before starting: more threads "
                     "than CPUs make everything slower.")
    return Check("device", OK, found)


def profile() -> Check:
    """Whether this device has been calibrated, and how long ago."""
    from ..measure.device import find

    again = "Run `ironlaw calibrate`."
    try:
        saved, here = workspace.profile(), find()
    except IronlawError as problem:
        return Check("calibration", MISSING, str(problem), again)
    if saved is None:
        return Check("calibration", MISSING, "not done yet; without it no MFU", again)
    if (saved.name, saved.device_type) != (here.name, here.type):
        return Check("calibration", MISSING, f"made on another device, {saved.name}", again)
    age = _age_seconds(saved.measured_on)
    found = f"{', '.join(saved.matmul)} peaks, {duration(age)} old"
    if age > _OLD_PROFILE_SECONDS:
        return Check("calibration", MISSING, found, again)
    if saved.versions.get("torch") != _version("torch"):
        return Check("calibration", MISSING, f"made with PyTorch {saved.versions.get('torch')}",
                     again)
    if "busy" in saved.notes:
        return Check("calibration", OK, f"{found}; the machine was busy then",
                     "Run `ironlaw calibrate` again when it is quiet.")
    return Check("calibration", OK, found)


def sandbox() -> Check:
    """Bubblewrap, tried for real: many systems have it and forbid what it does."""
    program = shutil.which("bwrap")
    need = "only instructors who grade need it"
    if program is None:
        return Check("sandbox", MISSING, f"bubblewrap is not installed; {need}",
                     "Debian, Ubuntu: apt-get install bubblewrap. It exists for Linux alone.")
    try:
        failure, next_step = _isolation(program)
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        failure, next_step = str(problem), "Try `bwrap --unshare-all --ro-bind / / true`."
    if failure:
        return Check("sandbox", MISSING, f"{failure}; {need}", next_step)
    return Check("sandbox", OK, f"bubblewrap at {program}")


def _isolation(program: str) -> tuple[str, str]:
    """What fails when a sandbox is made, and what to do; both empty when one works.

    Where the autograder is installed, it makes one as it does for grading: whether this
    Python and this course can be seen inside depends on where they lie.
    """
    grader = Path(sys.executable).with_name("ironlaw-autograder")
    if grader.exists():
        said = subprocess.run([str(grader), "sandbox", "--json"], capture_output=True, text=True,
                              timeout=90, check=False)
        told = json.loads(said.stdout)
        return str(told["reason"]), str(told["next_step"])
    trial = subprocess.run([program, "--unshare-all", "--ro-bind", "/", "/", "true"],
                           capture_output=True, text=True, timeout=20, check=False)
    if trial.returncode == 0:
        return "", ""
    return (f"bubblewrap may not make namespaces ({trial.stderr.strip()})",
            "Allow unprivileged user namespaces on this system.")


def chromium() -> Check:
    """A browser for the browser tests."""
    named = os.environ.get("IRONLAW_CHROMIUM")
    own = sorted(Path.home().glob(".cache/ms-playwright/chromium-*/chrome-*/chrome"))
    found = [p for p in (named, *map(shutil.which, _CHROMIUM_NAMES), *map(str, own)) if p]
    if found and Path(found[0]).exists():
        return Check("Chromium", OK, found[0])
    return Check("Chromium", MISSING, "not found; only the browser tests need it",
                 "Debian: apt-get install chromium; elsewhere: python -m playwright install "
                 "chromium.")


def disk(folder: Path) -> Check:
    """Room for corpora and checkpoints where the state lives."""
    present = next(p for p in (folder, *folder.parents) if p.exists())
    free = float(shutil.disk_usage(present).free)
    if free < _LITTLE_DISK:
        return Check("disk", MISSING, f"{gigabytes(free)} free; checkpoints may not fit",
                     f"Free some space, or point IRONLAW_HOME away from {present}.")
    return Check("disk", OK, f"{gigabytes(free)} free")


def _imported(module: str, install: str, *, essential: bool, name: str | None = None) -> Check:
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name == module:
            return Check(name or module, BROKEN if essential else MISSING, "not installed",
                         install, essential)
        return Check(name or module, BROKEN, f"lacks {problem.name}", install, essential)
    except (ImportError, OSError) as problem:  # a shared library that does not load
        first = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        return Check(name or module, BROKEN, f"installed, but does not load: {first}",
                     f"Install it again: {install}", essential)
    return Check(name or module, OK, str(loaded.__version__), essential=essential)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _age_seconds(moment: str) -> float:
    then = datetime.datetime.fromisoformat(moment)
    return (datetime.datetime.now(datetime.UTC) - then).total_seconds()
