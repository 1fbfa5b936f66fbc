"""The sandbox wherever a checkout lies: private folders must not cover what has to be seen."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import ironlaw
import pytest
import traitlets
from ironlaw.errors import UnavailableError
from ironlaw_autograder.cli import main
from ironlaw_autograder.judge import sandbox, slots

BLOCKED = "ironlaw.predict.iron_law"
LOOK = """
import json, os, sys, ironlaw.units
if user := json.loads(sys.argv[1]):
    os.setresuid(user, user, user)

def can_write(folder):
    try:
        with open(os.path.join(folder, "mine"), "w") as file:
            file.write("x")
    except OSError:
        return False
    return True

def blocked():
    try:
        import ironlaw.predict.iron_law
    except ImportError as problem:
        return "closed while this lab is graded" in str(problem)
    return False

course = os.path.dirname(sys.prefix)
print(json.dumps({
    "prefix": sys.prefix, "others": os.listdir(sys.prefix + "/src"),
    "blocked": blocked(), "package": os.path.dirname(ironlaw.__file__),
    "beside": sorted(os.listdir(course)), "place": sorted(os.listdir(os.path.dirname(course))),
    "can_write": [f for f in ("/", "/dev", "/course", "/course/ironlaw", "/agent", sys.prefix,
                              sys.prefix + "/bin", "/tmp", "/dev/shm", sys.argv[2])
                  if can_write(f)],
}))
"""


@pytest.fixture(params=["/tmp", "/dev/shm"])
def checkout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout with an environment of its own in a folder that is private in the sandbox."""
    if not os.access(request.param, os.W_OK):
        pytest.skip(f"{request.param} cannot be written here")
    folder = Path(tempfile.mkdtemp(prefix="ironlaw-checkout-", dir=request.param))
    folder.chmod(0o755)
    try:
        venv.create(folder / ".venv", symlinks=True)
        (packages,) = (folder / ".venv" / "lib").glob("python3*/site-packages")
        for module, target in ((ironlaw, folder / "lib"), (traitlets, packages)):
            source = Path(str(module.__file__)).parent
            shutil.copytree(source, target / source.name,
                            ignore=shutil.ignore_patterns("recordings", "__pycache__"))
        (folder / "solutions").mkdir()
        (folder / ".venv" / "src" / "solutions").mkdir(parents=True)  # as `pip install -e git+...`
        monkeypatch.setattr(ironlaw, "__file__", str(folder / "lib" / "ironlaw" / "__init__.py"))
        monkeypatch.setattr(sys, "prefix", str(folder / ".venv"))
        monkeypatch.setattr(sys, "executable", str(folder / ".venv" / "bin" / "python"))
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.mark.sandbox
def test_a_checkout_inside_a_private_folder_can_grade(checkout: Path) -> None:
    assert sandbox.problem.__wrapped__() is None
    user = sandbox.identity().uid
    words = [*sandbox.command((BLOCKED,), 1_000_000), sys.executable, "-c", LOOK,
             json.dumps(user), sandbox.HOME]
    tried = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert tried.returncode == 0, tried.stderr
    seen = json.loads(tried.stdout)
    assert seen["prefix"] == str(checkout / ".venv")
    assert seen["package"] == "/course/ironlaw"
    assert seen["blocked"]
    assert seen["others"] == []  # a checkout inside the environment
    assert seen["beside"] == [".venv"]  # neither solutions nor the learner's package
    assert seen["place"] == [checkout.name]  # nothing else of the grader's private folder
    assert seen["can_write"] == ["/tmp", "/dev/shm", sandbox.HOME]


@pytest.mark.sandbox
def test_an_environment_that_others_may_not_read_is_found_before_grading(checkout: Path) -> None:
    (checkout / ".venv").chmod(0o700)
    reason = sandbox.problem.__wrapped__()
    if os.getuid() != 0:  # then student code runs as the owner, who may read it
        assert reason is None
        return
    assert reason is not None
    assert "traitlets" in reason
    assert "every user may read" in sandbox.next_step(reason)


@pytest.mark.parametrize("place", ["/tmp/course", "/dev/shm/course", f"{sandbox.HOME}/course"])
def test_what_must_be_seen_is_mounted_after_the_private_folders(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(sandbox, "_bubblewrap", lambda: "bwrap")
    monkeypatch.setattr(sys, "prefix", f"{place}/.venv")
    monkeypatch.setattr(ironlaw, "__file__", f"{place}/lib/ironlaw/__init__.py")
    words = sandbox.command((), 1_000_000)
    private = [at for at, word in enumerate(words) if word == "--tmpfs"
               and words[at + 1] in ("/tmp", "/dev/shm", sandbox.HOME)]
    needed = (f"{place}/.venv", "/course/ironlaw", "/agent/inside")
    seen = [words.index(target) for target in needed]
    assert len(private) == 3
    assert max(private) < min(seen)


@pytest.mark.parametrize(("prefix", "package", "hidden"), [
    ("/usr/local", "/usr/src/course/lib/ironlaw", False),  # the container: gone with /usr/src
    ("/usr/local", "/usr/local/lib/python3/site-packages/ironlaw", True),
    ("/usr/src/course/.venv", "/usr/src/course/.venv/lib/site-packages/ironlaw", True),
    ("/usr/src/course/.venv", "/usr/src/course/lib/ironlaw", False),
    ("/elsewhere/.venv", "/elsewhere/.venv/lib/site-packages/ironlaw", True),
    ("/elsewhere/.venv", "/elsewhere/.venv/src/course/lib/ironlaw", False),  # `-e git+...`
    ("/elsewhere/.venv", "/elsewhere/lib/ironlaw", False),
])
def test_a_package_is_covered_where_it_would_be_seen_and_left_out_where_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, prefix: str, package: str, hidden: bool
) -> None:
    monkeypatch.setattr(sandbox, "_bubblewrap", lambda: "bwrap")
    monkeypatch.setattr(sandbox, "_strangers",
                        lambda folder: [f"{folder}/src"] if folder != "/usr/local" else [])
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "base_prefix", "/usr/local")
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name: SimpleNamespace(origin=f"{package}/__init__.py"))
    words = sandbox.command((), 1_000_000)
    assert (package in words) == hidden


@pytest.mark.parametrize(("reason", "advice"), [
    ("bubblewrap (`bwrap`) is not installed.", "apt-get install bubblewrap"),
    ("bubblewrap needs Linux; this is darwin.", "Linux"),
    ("bubblewrap fails: bwrap: No permissions to create new namespace", "user namespaces"),
    ("bubblewrap fails: bwrap: execvp /tmp/x/bin/python: No such file or directory",
     "every user may read"),
    ("bubblewrap fails: ModuleNotFoundError: No module named 'traitlets'", "every user may read"),
])
def test_the_advice_fits_the_cause(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: str, advice: str
) -> None:
    monkeypatch.setattr(sandbox, "problem", lambda: reason)
    with pytest.raises(UnavailableError, match="accept-risk"):
        sandbox.require()
    assert advice in sandbox.next_step(reason)
    assert ("apt-get" in sandbox.next_step(reason)) == ("fails" not in reason)
    assert main(["sandbox"]) == 2
    assert reason in capsys.readouterr().err
    assert main(["sandbox", "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {
        "works": False, "reason": reason, "next_step": sandbox.next_step(reason)}


@pytest.mark.parametrize(("users", "first"), [
    ("         0          0 4294967295\n", 70_000),  # a whole machine
    ("         0     100000      65536\n", 64_512),  # a container of somebody without rights
    ("         0       1000          1\n         1     100000      65536\n", 64_513),
    ("         0       1000          1\n", 0), ("", 0),
])
def test_the_users_of_sandboxes_are_ones_that_exist_here(users: str, first: int) -> None:
    assert sandbox.first_user(users) == first


def test_no_sandbox_becomes_somebody_elses_user() -> None:
    first = sandbox.first_user("0 0 4294967295")
    last = first + slots.COUNT - 1
    assert first >= 65_536  # people, services, `nobody`, and the users of a container
    assert last < 100_000  # SUB_UID_MIN: Debian, Fedora and others hand out ranges from there


@pytest.mark.sandbox
@pytest.mark.skipif(os.getuid() != 0, reason="needs a mount of its own")
def test_a_checkout_below_usr_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "solutions").mkdir()
    user = sandbox.identity().uid
    become = "" if user is None else f"os.setresuid({user}, {user}, {user}); "
    inner = [*sandbox.command((), 1_000_000), sys.executable, "-c",
             f"import os; {become}print(os.listdir('/usr/src'))"]
    words = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /usr/src && exec "$@"',
             str(tmp_path), *inner]
    tried = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert tried.stdout == "[]\n", tried.stderr
