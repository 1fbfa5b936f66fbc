"""What a Dask worker runs for a grader elsewhere: it says who it is, then judges submissions.

Only JSON text crosses the network, both ways; the code is the worker's own checkout. A worker
never judges for a grader whose lab, tests or packages differ from its own, and never runs a
student's cells outside its sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ironlaw
from ironlaw.errors import IronlawError

from ..course import Course, find
from ..judge import sandbox
from ..judge.limits import Limits
from .work import Task, Worker, marking

# Packages whose version can change what a student's code or a test computes.
_PACKAGES = ("numpy", "torch", "nbgrader")
_lock = threading.Lock()
_idle: dict[str, list[Worker]] = {}


def checkout(salt: str) -> Course:
    """The course around the folder where this process started, or around this package."""
    try:
        return find(None, salt)
    except IronlawError:
        return find(Path(__file__).parent, salt)


def identity(course: Course, lab: str) -> dict[str, str]:
    """What two machines must share to give one submission one grade, by name."""
    with _lock:  # threads of one worker would all build the same template
        made = marking(course, lab)
        digest = made.digest
    found = {"course": ironlaw.__version__, "python": platform.python_version().rpartition(".")[0],
             "tests and code": digest[:12]}
    for name in _PACKAGES:
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def inspect(order: str) -> str:
    """This worker's identity and whether its sandbox works, as JSON."""
    given = json.loads(order)
    said: dict[str, Any] = {"host": socket.gethostname(), "process": os.getpid()}
    try:
        said["identity"] = identity(checkout(given["salt"]), given["lab"])
        reason = sandbox.problem()
        if reason is not None:
            said["problem"] = f"{reason} `ironlaw-autograder sandbox` there says what to do"
    except Exception as problem:  # whatever it is, the grader must hear it
        said["problem"] = f"{type(problem).__name__}: {problem}"
    return json.dumps(said)


def grade(order: str) -> str:
    """The outcome of one order, or why it was refused or broke off, as JSON.

    Nothing is raised: an exception would be pickled, and not every one can be.
    """
    try:
        return json.dumps(_graded(json.loads(order)))
    except BaseException as problem:
        return json.dumps({"broke": f"{type(problem).__name__}: {problem}"[:2_000]})


def _graded(order: dict[str, Any]) -> dict[str, Any]:
    course, lab = checkout(order["salt"]), order["task"]["lab"]
    mine = identity(course, lab)
    if mine != order["identity"]:  # the checkout changed since this worker was looked at
        return {"refused": difference(order["identity"], mine)}
    kind = json.dumps([lab, course.salt, mine, order["limits"]])
    try:
        worker = _taken(kind) or Worker(course, lab, Limits(**order["limits"]), isolated=True)
    except IronlawError as problem:
        return {"refused": str(problem)}
    try:
        outcome = worker.grade(Task.from_json(order["task"])).to_json()
    except BaseException:
        worker.close()
        raise
    with _lock:
        _idle.setdefault(kind, []).append(worker)
    return outcome


def release() -> None:
    """End the judges that wait for work and give their sandboxes' places back."""
    with _lock:
        waiting = [worker for kind in _idle.values() for worker in kind]
        _idle.clear()
    for worker in waiting:
        with contextlib.suppress(OSError):
            worker.close()


def difference(wanted: dict[str, str], found: dict[str, str]) -> str:
    """In words, what a worker has that the grader has otherwise."""
    return "; ".join(f"{name} is {found.get(name, 'unknown')}, here {wanted[name]}"
                     for name in wanted if found.get(name) != wanted[name])


def _taken(kind: str) -> Worker | None:
    with _lock:
        waiting = _idle.get(kind)
        return waiting.pop() if waiting else None
