"""Reading what students handed in, whatever it is, without ever changing it.

A folder of submissions holds one notebook, or one folder, per student. What cannot be
read is named with its reason and stops nobody else.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from ironlaw.errors import InputError
from nbformat import NotebookNode, v4

MAX_BYTES = 30_000_000
_UNSAFE = re.compile(r"[\x00-\x1f/\\*?\[\]:<>|\"+]")

_RECORD = {"cell_type", "checksum", "grade", "grade_id", "locked", "points", "schema_version",
           "solution", "task"}


@dataclass(frozen=True)
class Submission:
    """One student's file; `notebook` is None when it cannot be graded, and `problem` says why."""

    student: str
    file: Path
    notebook: NotebookNode | None
    problem: str = ""


def read_folder(folder: Path, lab_name: str | None = None) -> list[Submission]:
    """All submissions in `folder`, by student; `lab_name` chooses among several notebooks."""
    if not folder.is_dir():
        raise InputError("folder", str(folder), "a folder with one notebook or folder per student",
                         "This is a file: put it into a folder of its own." if folder.exists()
                         else "Nothing has this name: look for a slip in the path.")
    found = [_entry(path, lab_name) for path in sorted(folder.iterdir())
             if not path.name.startswith((".", "__"))
             and (path.is_dir() or path.is_symlink() or path.suffix.lower() == ".ipynb")]
    if not found:
        raise InputError("folder", str(folder), "a folder with one notebook or folder per student",
                         "It holds no .ipynb file and no folder.")
    seen = Counter(submission.student for submission in found)
    twice = sorted(name for name, count in seen.items() if count > 1)
    if twice:
        raise InputError("folder", twice, "one submission per student",
                         "Two entries have the same name: keep one of them.")
    return found


def read_notebook(data: bytes) -> NotebookNode:
    """A notebook from the bytes of a file; `ValueError` says in words what is wrong with it."""
    if not data.strip():
        raise ValueError("the file is empty")
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file is larger than {MAX_BYTES / 1e6:.0f} MB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8 text") from None
    if text.lstrip()[:1] == "<":
        raise ValueError("the file is a web page, not a notebook; download the .ipynb itself")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"the file is cut off or damaged ({problem})") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("cells"), list):
        raise ValueError("the file is JSON, but not a notebook with cells")
    made = v4.new_notebook()
    made.cells = [_cell(cell) for cell in raw["cells"] if isinstance(cell, dict)]
    return made


def student_name(stem: str) -> str:
    """A student's id from a file or folder name, fit for paths and gradebooks."""
    name = _UNSAFE.sub("_", unicodedata.normalize("NFC", stem)).strip(" .")
    return name[:100] or "unnamed"


def _entry(path: Path, lab_name: str | None) -> Submission:
    student = student_name(path.stem if path.suffix.lower() == ".ipynb" else path.name)
    if path.is_symlink():
        return Submission(student, path, None, "it is a link to another place; links are refused")
    file = path
    if path.is_dir():
        inside = [p for p in sorted(path.rglob("*.ipynb"))
                  if ".ipynb_checkpoints" not in p.parts and not p.is_symlink()]
        named = [p for p in inside if p.stem == lab_name]
        chosen = named or inside
        if len(chosen) != 1:
            what = "no notebook" if not inside else f"{len(inside)} notebooks"
            return Submission(student, path, None, f"the folder holds {what} instead of one")
        file = chosen[0]
        if not file.resolve().is_relative_to(path.resolve()):
            return Submission(student, path, None, "it leads out of the student's folder")
    try:
        return Submission(student, file, read_notebook(file.read_bytes()))
    except (ValueError, OSError) as problem:
        return Submission(student, file, None, str(problem))


def _cell(raw: dict[str, Any]) -> NotebookNode:
    """A cell's type, text and label; everything else that a file may carry is dropped."""
    source = raw.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    text = source.encode("utf-8", "replace").decode() if isinstance(source, str) else ""
    makers = {"code": v4.new_code_cell, "raw": v4.new_raw_cell}
    made = makers.get(str(raw.get("cell_type")), v4.new_markdown_cell)(text)
    metadata = raw.get("metadata")
    record = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if isinstance(record, dict) and isinstance(record.get("grade_id"), str):
        kept = {key: value for key, value in record.items()
                if key in _RECORD and isinstance(value, str | int | float | bool)}
        made.metadata["nbgrader"] = nbformat.from_dict(kept)
    return made


def labels(notebook: NotebookNode) -> set[str]:
    """The labels that a submission still carries."""
    return {cell.metadata.nbgrader.grade_id for cell in notebook.cells
            if "nbgrader" in cell.metadata}
