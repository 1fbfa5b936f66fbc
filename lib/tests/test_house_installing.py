"""What others install: exact pins that every promised Python takes, and the grader's image."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import lab_browser
import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "binder" / "constraints.txt"


def plain(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    """The exact versions that `make`, CI and Binder install."""
    lines = (line.split("#")[0].strip() for line in PINS.read_text(encoding="utf-8").splitlines())
    return {plain(name): version for name, _, version in (x.partition("==") for x in lines if x)}


def test_every_pin_takes_the_oldest_python_that_is_promised() -> None:
    """Debian 12 still has 3.11.2: a pin that asks for a later 3.11 stops `make lab` there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    wanted, refused = pins(), []
    seen = 0
    for installed in metadata.distributions():
        # A local build, such as `+cpu`, is the same release.
        if wanted.get(plain(installed.name)) != installed.version.partition("+")[0]:
            continue
        seen += 1
        asks = str(installed.metadata.json.get("requires_python", ""))
        if not SpecifierSet(asks).contains(oldest):
            refused.append(f"{installed.name} {installed.version} asks for Python {asks}")
    assert seen > len(wanted) * 0.9, f"only {seen} of {len(wanted)} pins are installed here"
    assert not refused, f"Python {oldest} is promised, but {refused}"


@pytest.mark.browser
def test_a_driver_that_does_not_start_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a bare Debian a library of Playwright's is missing: a reason to skip, not an error."""
    assert lab_browser.driver_problem() is None
    broken = tmp_path / "node"
    broken.write_text("#!/bin/sh\necho libatomic.so.1: not found >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(broken))
    assert "It said: libatomic.so.1: not found" in str(lab_browser.driver_problem())


# --- the container that grades ------------------------------------------------------------

def hidden(path: str, patterns: list[str]) -> bool:
    """Whether a `.dockerignore` of plain patterns leaves `path` or a folder above it out."""
    parts = path.split("/")
    folders = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return any(
        fnmatch.fnmatch(folder.rpartition("/")[2], pattern.removeprefix("**/"))
        if pattern.startswith("**/") else
        "/" not in folder and fnmatch.fnmatch(folder, pattern)
        for folder in folders for pattern in patterns)


def ignored() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_container_gets_all_of_the_course() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    tracked = [name for name in listed.stdout.decode().split("\0") if name]
    assert [name for name in tracked if hidden(name, ignored())] == [".ci/run"]


@pytest.mark.parametrize("path", [
    ".git/HEAD", ".venv/bin/python", "class12-graded/grades.csv", "somewhere/gradebook.db",
    "course/submitted/ada/lab_01_iron_law/lab_01_iron_law.ipynb", "lib/ironlaw/__pycache__/x.pyc",
])
def test_the_container_gets_nothing_of_students_and_of_this_machine(path: str) -> None:
    assert hidden(path, ignored())


def test_recipe_and_guide_name_the_same_rights() -> None:
    recipe = (ROOT / "autograder" / "Containerfile").read_text(encoding="utf-8")
    guide = (ROOT / "autograder" / "README.md").read_text(encoding="utf-8")
    runs = [text.split("\n#\n")[0] for text in recipe.split("docker run")[1:]]
    rights = [re.findall(r"--cap-add (\w+)|--security-opt (\w+=\w+)", run) for run in runs]
    assert len(rights) == 2
    assert rights[0] == rights[1]
    capabilities = {capability for capability, _ in rights[0] if capability}
    (paragraph,) = (text for text in guide.split("\n\n") if text.startswith("**Without bubblewrap"))
    assert capabilities == set(re.findall(r"(?:SYS|NET)_[A-Z]+", paragraph))
