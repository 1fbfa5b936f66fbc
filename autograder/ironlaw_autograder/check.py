"""Nothing stale, nothing leaked: what must hold before a student sees `labs/`.

Every derived file is made again and compared. Independently of that, each notebook is
searched for what must never leave the instructor's side, so that a careless source is
caught as well as a careless edit. Each finding names file, cell and what was found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import giveaway
from .build import notebook, stamp
from .build.lab_source import Lab, label
from .course import Course

MARKS = ("BEGIN SOLUTION", "END SOLUTION", "BEGIN HIDDEN TESTS", "END HIDDEN TESTS",
         "BEGIN MARK SCHEME", "END MARK SCHEME")
_REGIONS = {"SOLUTION": "solution text", "HIDDEN TESTS": "a hidden test",
            "MARK SCHEME": "a rubric for graders"}
_CELL_METADATA = {"nbgrader", "tags", "jupyter", "deletable", "editable"}
_NBGRADER = {"cell_type", "checksum", "grade", "grade_id", "locked", "points",
             "schema_version", "solution", "task"}
_SHORTEST = 8  # a shorter line, such as `else:`, gives nothing away
_LONG = 24  # a longer one stands in the open by no accident


@dataclass(frozen=True)
class Finding:
    """Something wrong in a derived file; `cell` is empty when it concerns the whole file."""

    file: str
    cell: str
    what: str

    def __str__(self) -> str:
        where = f"{self.file}, cell {self.cell}" if self.cell else self.file
        return f"{where}: {self.what}"


def course(where: Course, derived: dict[Path, str], labs: list[Lab]) -> list[Finding]:
    """Every finding in the course's derived files; `derived` is what they must hold."""
    found = list(_stale(where, derived)) + list(_strays(where, derived))
    by_folder = {lab.name: lab for lab in labs}
    for path in sorted(where.labs.rglob("*.ipynb")):
        name = str(path.relative_to(where.root))
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as problem:
            found.append(Finding(name, "", f"is not a notebook ({problem})"))
            continue
        found += leaks(name, data, by_folder.get(path.parent.name))
    return found


def leaks(file: str, data: dict[str, Any], lab: Lab | None) -> list[Finding]:
    """What `data`, a student's notebook, holds that a student must not get."""
    found: list[Finding] = []
    allowed = _metadata(data, lab)
    if data.get("metadata") != allowed:
        extra = sorted(set(data.get("metadata", {})) - set(allowed))
        found.append(Finding(file, "", "has foreign notebook metadata: "
                             + (", ".join(extra) or "changed values")))
    secrets = secret_lines(lab) if lab is not None else {}
    for place, cell in enumerate(data.get("cells", []), start=1):
        name = str(cell.get("id", place))
        found += [Finding(file, name, what) for what in _cell_leaks(cell, secrets)]
    return found + (list(_given_away(file, data, lab)) if lab is not None else [])


def _metadata(data: dict[str, Any], lab: Lab | None) -> dict[str, Any]:
    """What a student's notebook may say of itself: its kernel, and for a lab its one stamp."""
    if lab is None:
        return notebook.metadata()
    try:
        made = stamp.of(lab.name, data.get("cells", []), lab.salt)
    except (AttributeError, KeyError, TypeError):
        return notebook.metadata()  # no cell that a stamp could be made from
    return notebook.metadata() | {stamp.KEY: made.to_metadata()}


def _given_away(file: str, data: dict[str, Any], lab: Lab) -> Iterator[Finding]:
    """Cells in the open, given ones and checks, that compute or call what an answer has to."""
    cells = [cell for cell in lab.source.cells
             if cell.cell_type == "code" and label(cell)["solution"]]
    answers = {label(cell)["grade_id"]: _solution(cell.source) for cell in cells}
    own = {name for cell in cells for name in giveaway.functions(cell.source)}
    for cell in data.get("cells", []):
        meta = cell.get("metadata", {}).get("nbgrader", {})
        if cell.get("cell_type") != "code" or meta.get("solution"):
            continue
        name, source = str(cell.get("id", "")), "".join(cell["source"])
        library = giveaway.checks_of_the_library(source)
        for answer, code in answers.items():
            formulas = giveaway.shared(source, code, 1 if meta.get("grade") else 2)
            for text in [*formulas, *giveaway.shared(library, code)]:
                yield Finding(file, name, f"computes {text!r}, as the answer to {answer!r} does; "
                              "compare with numbers instead, or compare in a hidden test")
            for text in giveaway.shared_calls(source, code, own):
                yield Finding(file, name, f"calls {text!r}, as the answer to {answer!r} does; "
                              "use what the student set, or call it in the library")


def _solution(source: str) -> str:
    """The lines of a cell that stand between the marks of a solution."""
    inside = False
    lines = []
    for line in source.splitlines():
        if "BEGIN SOLUTION" in line or "END SOLUTION" in line:
            inside = "BEGIN SOLUTION" in line
        elif inside:
            lines.append(line)
    return "\n".join(lines)


def secret_lines(lab: Lab) -> dict[str, str]:
    """Lines of solutions, hidden tests and rubrics, each with what it is.

    A hidden test may share a line with a visible one, and then it is no secret. A
    solution may not: a line of it in the open is what a careless source looks like.
    """
    secret: dict[str, str] = {}
    open_lines: set[str] = {lab.stub}
    for cell in lab.source.cells:
        region = ""
        whole = label(cell)["solution"] and not any(mark in cell.source for mark in MARKS)
        for line in cell.source.splitlines():
            text = line.strip()
            started = next((r for r in _REGIONS if f"BEGIN {r}" in text), "")
            if started or any(f"END {r}" in text for r in _REGIONS):
                region = started
            elif region or whole:
                secret.setdefault(text, _REGIONS[region or "SOLUTION"])
            else:
                open_lines.add(text)
    return {text: what for text, what in secret.items()
            if len(text) >= _SHORTEST and not text.startswith(("import ", "from "))
            and (text not in open_lines or what == _REGIONS["SOLUTION"])}


def _cell_leaks(cell: dict[str, Any], secrets: dict[str, str]) -> Iterator[str]:
    metadata = cell.get("metadata", {})
    for key in sorted(set(metadata) - _CELL_METADATA):
        yield f"has foreign metadata {key!r}"
    for key in sorted(set(metadata.get("nbgrader", {})) - _NBGRADER):
        yield f"has foreign nbgrader metadata {key!r}"
    if cell.get("attachments"):
        yield f"has attachments: {', '.join(sorted(cell['attachments']))}"
    if cell.get("outputs") or cell.get("execution_count") is not None:
        yield "holds outputs of a run"
    source = "".join(cell.get("source", []))
    for mark in MARKS:
        if mark in source:
            yield f"still has the mark {mark!r}"
    lines = {bare for line in source.splitlines()
             for bare in (line.strip(), line.strip("#>*-`~ \t"))}
    # Outside its source a cell may hide text in any other field.
    elsewhere = json.dumps({k: v for k, v in cell.items() if k != "source"}, ensure_ascii=False)
    for text, what in secrets.items():
        within = len(text) >= _LONG and text in source  # also in a comment or a longer line
        if text in lines or within or json.dumps(text, ensure_ascii=False)[1:-1] in elsewhere:
            yield f"contains {what}: {text[:60]!r}"


def _stale(where: Course, derived: dict[Path, str]) -> Iterator[Finding]:
    for path, content in derived.items():
        name = str(path.relative_to(where.root))
        if not path.exists():
            yield Finding(name, "", "is missing; run `ironlaw-autograder build`")
        elif path.read_bytes() != content.encode("utf-8"):
            cell = _first_difference(path.read_text("utf-8", errors="replace"), content)
            yield Finding(name, cell, "differs from its source; run `ironlaw-autograder build`, "
                          "and edit the source, never this file")


def _strays(where: Course, derived: dict[Path, str]) -> Iterator[Finding]:
    inside = [p for p in where.labs.rglob("*") if not p.is_dir() or p.is_symlink()]
    inside += [p for p in where.chapters.rglob("*") if p.is_symlink() or (
        p.is_file() and p.suffix != ".md" and p.parent != where.chapters / "images")]
    for path in sorted(set(inside) - set(derived)):
        if ".ipynb_checkpoints" not in path.parts:
            yield Finding(str(path.relative_to(where.root)), "",
                          "is derived from no source; remove it")


def _first_difference(have: str, want: str) -> str:
    """The id of the first cell in which two notebooks differ, or '' when it is not one cell."""
    try:
        cells = [json.loads(text)["cells"] for text in (have, want)]
    except (ValueError, KeyError, TypeError):
        return ""
    for mine, theirs in zip(*cells, strict=False):
        if mine != theirs:
            return str(theirs.get("id", ""))
    return ""
