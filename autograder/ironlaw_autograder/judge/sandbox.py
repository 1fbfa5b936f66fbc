"""The bubblewrap sandbox: what a student's process sees of the machine, and as whom it runs.

Read-only: the system's libraries, the Python environment, the learner's package without
what the lab asks for. Private and limited: home and temporary folders. Absent: network,
other processes, the gradebook, solutions, hidden tests and other students' files.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import ironlaw
from ironlaw.errors import UnavailableError

from . import slots

HOME = "/home/student"
_INSIDE = Path(__file__).with_name("inside")
# Where bubblewrap is missing, or must not work, a container brings it.
_RECIPE = " `autograder/Containerfile` says how to grade in a container, on any system."
# What a system's or an environment's own folder holds. Others in it are somebody's work: a
# checkout, say, with solutions and a gradebook.
_OWN = frozenset(("bin", "etc", "include", "lib", "lib32", "lib64", "libexec", "libx32", "local",
                  "sbin", "share", "ssl"))
# Writable, limited in size, and empty at first: where a student's process may write.
PRIVATE = ("/tmp", "/dev/shm", HOME)
_OPEN = " Without isolation, and only for a class that you trust: --accept-risk."
_INSTALL = ("Install bubblewrap on Linux (Debian, Ubuntu: `apt-get install bubblewrap`)." + _RECIPE
            + _OPEN)
_ALLOW = ("Allow user namespaces on this system, or grade as root; start a container with the "
          "capabilities SYS_ADMIN and NET_ADMIN." + _RECIPE + _OPEN)
_MOVE = ("Bubblewrap itself works, but this Python or the course cannot be read inside it. Put "
         "both into folders that every user may read." + _OPEN)
_WINDOWS = ("Use WSL, the Windows Subsystem for Linux: clone the course, install bubblewrap and "
            "grade inside it. Or use the container." + _RECIPE)
_SYSTEMS = {"darwin": "macOS", "win32": "Windows"}


def first_user(uid_map: str) -> int:
    """The first of the users that sandboxes become, or 0 where there are none to hand out.

    `uid_map` is the text of /proc/self/uid_map: the users that exist here. On a whole machine
    nobody owns the ones chosen: they lie above the 65,536 of a container and of people's accounts,
    and below 100,000, from where systems hand out ranges to their users by default
    (SUB_UID_MIN in /etc/login.defs). A container may have 65,536 in all, or itself alone.
    """
    ranges = [[int(number) for number in line.split()] for line in uid_map.splitlines()]
    usual = 70_000
    if any(first <= usual <= first + count - slots.COUNT for first, _, count in ranges):
        return usual
    # The last ones, but for `nobody` (65,534).
    return max((first + count - 2 * slots.COUNT for first, _, count in ranges
                if count > 4 * slots.COUNT), default=0)


def _users_here() -> str:
    try:
        return Path("/proc/self/uid_map").read_text()
    except OSError:  # not Linux
        return ""


# One user per concurrent sandbox: the limit on processes counts per user.
FIRST_UID = first_user(_users_here())


@dataclass(frozen=True)
class Identity:
    """The unprivileged user that student code becomes; None keeps the grader's own."""

    uid: int | None
    gid: int | None


def identity(slot: int = 0) -> Identity:
    """The user for the sandbox in `slot`; only root can hand out users of its own."""
    if os.getuid() == 0 and FIRST_UID:
        return Identity(FIRST_UID + slot, FIRST_UID + slot)
    return Identity(None, None)


def command(blocked: tuple[str, ...], disk_bytes: int) -> list[str]:
    """The bubblewrap command line, up to the program that runs inside."""
    package = Path(ironlaw.__file__).parent
    words = [_bubblewrap(), "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
             "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv",
             "--hostname", "sandbox"]
    if identity().uid is not None:
        # Root mounts what its own folders hold; the first process inside then drops to a
        # real unprivileged user before it reads a single cell.
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        words += ["--unshare-user", "--disable-userns"]
    words += _system()
    # Process 1 is bubblewrap's own. Where it runs as the student's user, whoever reads and
    # writes it would be rid of every limit that is set further in.
    words += ["--proc", "/proc", *_empty("/proc/1"), "--dev", "/dev"]
    # It reads as zeros too, but nobody can map it: shared memory that escapes every count.
    words += ["--dev-bind", "/dev/full", "/dev/zero"]
    for folder in PRIVATE:
        words += [*_parents(folder), "--perms", "1777", "--size", str(disk_bytes),
                  "--tmpfs", folder]
    # Later mounts cover earlier ones: whatever must be seen comes after the private folders,
    # because a checkout or an environment may well lie inside one of them.
    covered = _strangers("/usr") + _strangers("/usr/local")
    for folder in covered:
        words += ["--perms", "0755", "--tmpfs", folder]
    mounted = [prefix for prefix in dict.fromkeys((sys.base_prefix, sys.prefix))
               if not _within(prefix, "/usr") or any(_within(prefix, f) for f in covered)]
    for prefix in mounted:
        words += _mount(prefix, prefix)
        words += [word for folder in _strangers(prefix) for word in _empty(folder)]
    words += _hidden_packages(mounted, covered)
    words += _mount(str(package), "/course/ironlaw") + _mount(str(_INSIDE), "/agent/inside")
    for module in blocked:
        words += _blocked(package, module)
    for folder in ("/", "/dev", *covered):
        words += ["--remount-ro", folder]
    words += ["--chdir", HOME]
    for name, value in environment().items():
        words += ["--setenv", name, value]
    return words


def environment() -> dict[str, str]:
    """The environment inside: nothing of the grader's own passes through."""
    return {
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "HOME": HOME, "TMPDIR": "/tmp",
        "LANG": "C.UTF-8", "USER": "student", "LOGNAME": "student",
        "PYTHONPATH": "/course:/agent", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline", "MPLCONFIGDIR": "/tmp/mpl",
        "NBGRADER_EXECUTION": "autograde", "IRONLAW_HOME": f"{HOME}/.ironlaw",
    }


def open_environment(folder: str) -> dict[str, str]:
    """The environment of a student's process without isolation, at home in `folder`."""
    places = (str(Path(ironlaw.__file__).parent.parent), str(_INSIDE.parent))
    return environment() | {"HOME": folder, "TMPDIR": folder, "MPLCONFIGDIR": folder,
                            "IRONLAW_HOME": folder, "PYTHONPATH": os.pathsep.join(places)}


@functools.cache
def problem() -> str | None:
    """Why no sandbox can be made here, or None when one works."""
    if sys.platform != "linux":
        return f"bubblewrap needs Linux; this is {_SYSTEMS.get(sys.platform, sys.platform)}."
    if shutil.which("bwrap") is None:
        return "bubblewrap (`bwrap`) is not installed."
    who = identity()
    # As that user, because a folder that only root may enter looks fine to root.
    become = "" if who.uid is None else f"os.setresuid({who.uid}, {who.uid}, {who.uid}); "
    words = [*command((), 1_000_000), sys.executable, "-c",
             f"import os; {become}import inside, ironlaw.errors, traitlets"]
    tried = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env={})
    return None if tried.returncode == 0 else f"bubblewrap fails: {tried.stderr.strip()[-300:]}"


def require() -> None:
    """Raise `UnavailableError` with reason and fix unless a sandbox works here."""
    reason = problem()
    if reason is not None:
        raise UnavailableError("The sandbox", reason, next_step(reason))


def require_processes() -> None:
    """Raise `UnavailableError` where student code cannot run even without isolation."""
    if sys.platform == "win32":
        raise UnavailableError("Running student code", "Windows has neither the limits on a "
                               "process nor the sockets between processes that grading uses.",
                               _WINDOWS)


def next_step(reason: str) -> str:
    """What to do about a `problem`; installing bubblewrap mends only its absence."""
    if sys.platform == "win32":
        return _WINDOWS
    if not reason.startswith("bubblewrap fails"):
        return _INSTALL
    began = any(word in reason for word in ("execvp", "Error: ", "Fatal Python error"))
    return _MOVE if began else _ALLOW


def _bubblewrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        raise UnavailableError("bubblewrap", "student code runs inside it.", _INSTALL)
    return found


def _system() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/") / name
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime"):
        if Path(name).exists():
            words += [*_parents(name), "--ro-bind", os.path.realpath(name), name]
    return words


def _mount(source: str, target: str) -> list[str]:
    return [*_parents(target), "--ro-bind", source, target]


def _parents(target: str) -> list[str]:
    """Folders above a mount, readable: bubblewrap would make them for root alone."""
    words: list[str] = []
    for folder in reversed(Path(target).parents):
        if str(folder) not in ("/", "/dev", "/usr", *PRIVATE):
            words += ["--perms", "0755", "--dir", str(folder)]
    return words


def _within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _strangers(prefix: str) -> list[str]:
    """Folders in `prefix` that belong to no system and no environment."""
    place = Path(prefix)
    inside = sorted(place.iterdir()) if place.is_dir() else []
    return [str(f) for f in inside if f.name not in _OWN and f.is_dir() and not f.is_symlink()]


def _hidden_packages(mounted: list[str], covered: list[str]) -> list[str]:
    """Cover what is installed where the sandbox looks and must not be seen there.

    The autograder holds hidden tests; a second copy of the learner's package would hold
    the modules that a lab blocks. What lies in a folder that is covered already is gone: to
    cover it once more would put an empty package of that name there.
    """
    words: list[str] = []
    for name in ("ironlaw", "ironlaw_autograder"):
        found = importlib.util.find_spec(name)
        folder = Path(str(found.origin)).parent if found and found.origin else Path("/nowhere")
        places = [("/usr", covered), *((prefix, _strangers(prefix)) for prefix in mounted)]
        if any(_within(str(folder), place) and not any(_within(str(folder), g) for g in gone)
               for place, gone in places):
            words += _empty(str(folder))
    return words


def _blocked(package: Path, module: str) -> list[str]:
    """Cover one module of the learner's package, which the lab asks the student to write."""
    path = package.joinpath(*module.split(".")[1:])
    inside = Path("/course") / path.relative_to(package.parent)
    if path.is_dir():
        return ["--ro-bind", str(_INSIDE / "blocked"), str(inside)]
    words = ["--ro-bind", str(_INSIDE / "blocked" / "__init__.py"), f"{inside}.py"]
    if (path.parent / "__pycache__").is_dir():  # compiled copies tell as much as the source
        words += _empty(str(inside.parent / "__pycache__"))
    return words


def _empty(folder: str) -> list[str]:
    return ["--tmpfs", folder, "--remount-ro", folder]
