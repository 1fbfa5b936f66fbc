"""Every notebook of the course runs from top to bottom in a fresh kernel.

A chapter's kernel must fit beside others on a small shared server, so its peak memory
is measured and bounded; the seconds it took are told but decide nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
LABS = sorted((ROOT / "labs").glob("*/*.ipynb"))
MEASURING = [file for file in LABS if file.stem.startswith("lab_")]
MEGABYTE = 1e6
CHAPTER_MEMORY_MB = 400
LAB_MEMORY_MB = 1800
# A guard against a cell that hangs, far above what any cell takes.
CELL_SECONDS = 900

# Appended to a copy of the notebook. Linux's own high-water mark comes first: there,
# `ru_maxrss` also remembers the process that started the kernel, with all that a test
# suite has loaded by then. Elsewhere it counts bytes.
PROBE = """
import json, pathlib, re, resource, sys
status = pathlib.Path("/proc/self/status")
if status.exists():
    peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1])
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"peak": peak, "torch": "torch" in sys.modules}))
"""


# Buffers grow with a processor's last cache, up to a share of the memory that there is. A
# server's large cache must not decide whether a lab fits the smallest machine it is meant for.
SMALLEST_MACHINE = """
from ironlaw.measure import host
host.memory_bytes = lambda *where: 2.0 * 2**30
"""


@dataclass
class Run:
    """A notebook after its run; `peak_mb` and `torch` are the kernel's own word."""

    book: Any
    seconds: float
    peak_mb: float
    torch: bool

    def outputs(self, kind: str) -> list[Any]:
        """Every output of one type (`error`, `stream`, `display_data` ...)."""
        return [output for cell in self.book.cells if cell.cell_type == "code"
                for output in cell.outputs if output.output_type == kind]


def execute(file: Path, folder: Path, *, allow_errors: bool = False, first: str = "") -> Run:
    """Run a copy of `file` in `folder`, in a kernel of its own; `first` is run before it."""
    book = nbformat.read(file, as_version=4)
    book.cells.insert(0, nbformat.v4.new_code_cell(first))
    book.cells.append(nbformat.v4.new_code_cell(PROBE))
    start = time.perf_counter()
    NotebookClient(book, timeout=CELL_SECONDS, kernel_name="python3", allow_errors=allow_errors,
                   resources={"metadata": {"path": str(folder)}}).execute()
    seconds = time.perf_counter() - start
    told = json.loads(book.cells.pop().outputs[0]["text"])
    assert not book.cells.pop(0).outputs
    return Run(book, seconds, told["peak"] / MEGABYTE, told["torch"])


def tell(file: Path, run: Run) -> None:
    """One line that pytest shows with -s or on failure."""
    print(f"{file.name}: {run.seconds:.1f} s, kernel peak {run.peak_mb:.0f} MB")


def test_there_are_chapters() -> None:
    assert CHAPTERS


@pytest.mark.parametrize("file", CHAPTERS, ids=lambda f: f.stem)
def test_chapter_runs(file: Path, tmp_path: Path,
                      record_property: Callable[[str, object], None]) -> None:
    run = execute(file, tmp_path)
    tell(file, run)
    record_property("seconds", run.seconds)
    record_property("kernel_peak_mb", run.peak_mb)
    assert run.peak_mb < CHAPTER_MEMORY_MB
    assert not run.torch, "a chapter never needs torch"
    complaints = [o.text for o in run.outputs("stream") if o.name == "stderr"]
    assert not complaints, "a warning in a chapter is noise to its reader"


# What an unanswered lab may say, by the kind of cell: a stub that is not written, a check
# that is not met, and what follows from the missing names.
UNANSWERED = {"answer": {"NotImplementedError"}, "check": {"CheckError"},
              "other": {"NotImplementedError", "NameError"}}


def kind_of(cell: Any) -> str:
    """Whether a lab's cell waits for an answer, checks one, or is there to be run."""
    marks = cell.metadata.get("nbgrader", {})
    return "answer" if marks.get("solution") else "check" if marks.get("grade") else "other"


def surprises(run: Run, also: frozenset[str] = frozenset()) -> list[str]:
    """The errors that an unanswered lab should not show; `also` names more that it may."""
    return [f"{cell.id}: {output.ename}: {output.evalue}"
            for cell in run.book.cells if cell.cell_type == "code" for output in cell.outputs
            if output.output_type == "error"
            and output.ename not in UNANSWERED[kind_of(cell)] | also]


@pytest.mark.parametrize("file", LABS, ids=lambda f: f.stem)
def test_unanswered_lab_runs_through(
        file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A student's first "run all": nothing but what is not answered, and nothing measured."""
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    run = execute(file, tmp_path, allow_errors=True)
    tell(file, run)
    assert surprises(run, also=frozenset({"NotMeasuredError"})) == []


@pytest.mark.slow
@pytest.mark.parametrize("file", MEASURING, ids=lambda f: f.stem)
def test_lab_measures_on_this_device(
        file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real measurement, within the memory of the smallest machine, and it stays in its cell."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    run = execute(file, tmp_path, allow_errors=True, first=SMALLEST_MACHINE)
    tell(file, run)
    assert surprises(run) == []
    assert run.peak_mb < LAB_MEMORY_MB
    shown = [output.data.get("text/html", "") for output in run.outputs("display_data")]
    assert any("This cell now holds the result" in html for html in shown)


def test_execute_reports_errors_and_memory(tmp_path: Path) -> None:
    """The runner itself: a failing cell fails; the kernel's memory is seen, not the suite's."""
    ballast = b"x" * 500_000_000
    book = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_code_cell("kept = bytearray(200_000_000)"),
        nbformat.v4.new_code_cell("1 / 0"),
    ])
    file = tmp_path / "broken.ipynb"
    nbformat.write(book, file)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        execute(file, tmp_path)
    run = execute(file, tmp_path, allow_errors=True)
    assert [error.ename for error in run.outputs("error")] == ["ZeroDivisionError"]
    assert 200 < run.peak_mb < 450 < len(ballast) / MEGABYTE
    assert not run.torch
