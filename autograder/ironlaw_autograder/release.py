"""A student's tree: what the course gives away, and nothing of the instructor's side."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ironlaw.errors import InputError

from .course import Course

# Named one by one: a new folder at the top is withheld until somebody decides.
GIVEN = ("README.md", "LICENSE", "pyproject.toml", "Makefile", "chapters", "labs", "lib/ironlaw",
         "binder")
_LEFT_OUT = {"__pycache__", ".ipynb_checkpoints"}


def write(course: Course, folder: Path) -> int:
    """Copy the student's part of `course` into `folder`; returns the number of files."""
    target = folder.resolve()
    if target.is_relative_to(course.root) and _tracked(course, target):
        raise InputError("folder", str(folder), "outside the course's own files")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError("folder", str(folder), "a new or empty folder",
                         "Name another one, or empty it; nothing was written.")
    files = [path for name in GIVEN for path in _files(course.root / name)]
    for path in files:
        copy = target / path.relative_to(course.root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return len(files)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [p for p in sorted(path.rglob("*"))
            if p.is_file() and not p.is_symlink() and not _LEFT_OUT & set(p.parts)]


def _tracked(course: Course, target: Path) -> bool:
    """Whether `target` lies in a folder of the course that git knows."""
    listed = subprocess.run(["git", "ls-files", "--", str(target)], cwd=course.root,
                            capture_output=True, text=True, check=False)
    return bool(listed.stdout.strip())
