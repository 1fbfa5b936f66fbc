"""A student's tree: what the course gives away, and nothing of the instructor's side."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ironlaw.errors import InputError

from . import check
from .build import labs, notebook
from .course import Course

# Named one by one: a new folder at the top is withheld until somebody decides.
GIVEN = ("README.md", "LICENSE", "pyproject.toml", "Makefile", "chapters", "labs", "lib/ironlaw",
         "binder")
_LEFT_OUT = {"__pycache__", ".ipynb_checkpoints"}


def salted(course: Course, salt: str) -> dict[Path, str]:
    """The labs whose figures are drawn from `salt`, by the files that they replace."""
    own = Course(course.root, salt)
    made = {}
    for lab in labs.labs(own):
        if lab.salt == salt:
            path = course.labs / lab.name / f"{lab.name}.ipynb"
            made[path] = notebook.text(labs.release(lab))
            found = check.leaks(path.name, json.loads(made[path]), lab)
            if found:
                raise InputError("salt", salt, "a word that gives nothing away", str(found[0]))
    return made


def write(course: Course, folder: Path, instead: Mapping[Path, str] | None = None) -> int:
    """Copy the student's part of `course` into `folder`; returns the number of files.

    `instead` holds other contents for some of the files.
    """
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
        if instead and path in instead:
            copy.write_text(instead[path], encoding="utf-8", newline="\n")
        else:
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
