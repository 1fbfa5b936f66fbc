"""How fast a class is graded, against one `nbgrader autograde` call over the same folder.

    python autograder/benchmarks/grading_speed.py [--students 40] [--rounds 1] [--json]

Both run as commands, from cold, on the same two processor cores and the same honest
submissions to lab 1, whose measurements are replayed. nbgrader runs student code as the grader
and makes no feedback pages; `ironlaw-autograder grade` runs it in sandboxes and makes them, so
it is timed with and without. The contestants take turns within each round, the order turning
too, so that whatever else the machine does meets all of them: give it a quiet one all the same.
The speeds count only if all award the same points, which is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ironlaw_autograder import course as courses
from ironlaw_autograder.build import lab_source, labs
from ironlaw_autograder.build.lab_source import Lab
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import database
from ironlaw_autograder.grading.adapter import at_peace
from ironlaw_autograder.simulate.classroom import Member, members, write
from ironlaw_autograder.simulate.submissions import Desk
from nbgrader.api import Gradebook
from traitlets.config import Config

LAB = "lab_01_iron_law"
PLAIN, OURS, BARE = "nbgrader autograde", "grade", "grade --no-feedback"

Points = dict[str, dict[str, float | None]]


def main() -> int:
    """Time the contestants and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=40, help="size of the class (40)")
    parser.add_argument("--rounds", type=int, default=1, help="times that each one runs (1)")
    parser.add_argument("--cores", type=int, default=2, help="processor cores for each (2)")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    args = parser.parse_args()
    course = courses.find(Path(__file__).parent)
    lab = lab_source.read(course.solutions / f"{LAB}.py")
    found = members(Desk(lab), args.students, 0)
    seconds: dict[str, list[float]] = {PLAIN: [], OURS: [], BARE: []}
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.cores])
    for turn in range(args.rounds):
        order = list(seconds)[turn % 3:] + list(seconds)[:turn % 3]
        awarded = {}
        for name in order:
            with tempfile.TemporaryDirectory(prefix="ironlaw-speed-") as folder:
                took, awarded[name] = _CONTESTANTS[name](course, lab, found, Path(folder))
            seconds[name].append(took)
            print(f"round {turn + 1}: {name:<20} {took:6.1f} s", file=sys.stderr)
        if not awarded[PLAIN] == awarded[OURS] == awarded[BARE]:
            raise SystemExit("the contestants award different points: no speed counts")
    data = report(seconds, args.students, args.cores)
    print(json.dumps(data, indent=1) if args.json else _table(data))
    return 0


def report(seconds: dict[str, list[float]], students: int, cores: int) -> dict[str, Any]:
    """Submissions per minute, and how many times nbgrader's, each the median over rounds."""
    rows = {}
    for name, times in seconds.items():
        against = [plain / ours for plain, ours in zip(seconds[PLAIN], times, strict=True)]
        rows[name] = {"seconds": [round(t, 2) for t in times],
                      "per_minute": round(60 * students / statistics.median(times), 1),
                      "times_nbgrader": round(statistics.median(against), 2)}
    return {"lab": LAB, "students": students, "cores": cores,
            "load_average": round(os.getloadavg()[0], 1), "contestants": rows}


def _table(data: dict[str, Any]) -> str:
    lines = [f"{data['students']} submissions to {data['lab']} on {data['cores']} cores "
             f"(load average at the end: {data['load_average']})",
             f"{'':<22}{'seconds':>9}{'a minute':>10}{'ratio':>8}"]
    for name, row in data["contestants"].items():
        lines.append(f"{name:<22}{statistics.median(row['seconds']):>9.1f}"
                     f"{row['per_minute']:>10.1f}{row['times_nbgrader']:>8.2f}")
    return "\n".join(lines)


def _plain(course: Course, lab: Lab, found: list[Member], where: Path) -> tuple[float, Points]:
    """nbgrader by itself, in a tree whose configuration file is as plain as can be."""
    config = labs.settings(where, lab)
    labs.write_source(lab, where)
    with at_peace():
        labs.generate(lab, Config(config))
    for member in found:
        folder = where / "submitted" / member.name / lab.name
        folder.mkdir(parents=True)
        (folder / f"{lab.name}.ipynb").write_bytes(member.content)
    url = str(config.CourseDirectory.db_url)
    (where / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.CourseDirectory.root = {str(where)!r}\n"
        f"c.CourseDirectory.db_url = {url!r}\nc.ClearMarkScheme.enforce_metadata = False\n",
        encoding="utf-8")
    took = _run(["nbgrader", "autograde", lab.name], where)
    return took, _points(Gradebook(url), lab, found)


def _ours(course: Course, lab: Lab, found: list[Member], where: Path,
          *flags: str) -> tuple[float, Points]:
    write(where / "class", found)
    took = _run(["ironlaw_autograder.cli", "grade", "class", "--out", "out", "--root",
                 str(course.root), *flags], where)
    return took, _points(Gradebook(database.of(where / "out"), database.COURSE), lab, found)


def _bare(course: Course, lab: Lab, found: list[Member], where: Path) -> tuple[float, Points]:
    return _ours(course, lab, found, where, "--no-feedback")


_CONTESTANTS: dict[str, Callable[[Course, Lab, list[Member], Path], tuple[float, Points]]] = {
    PLAIN: _plain, OURS: _ours, BARE: _bare}


def _run(words: list[str], where: Path) -> float:
    """What a Python module costs as a command in `where`; it must succeed."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", *words], cwd=where, capture_output=True,
                          text=True, check=False, env={**os.environ, "PATH": paths})
    took = time.monotonic() - start
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-2_000:]}")
    return took


def _points(book: Gradebook, lab: Lab, found: list[Member]) -> Points:
    """Points that the machine awarded, by student and question."""
    with book:
        return {member.name: {
            grade.name: grade.auto_score
            for part in book.find_submission(lab.name, member.name).notebooks
            for grade in part.grades} for member in found}


if __name__ == "__main__":
    raise SystemExit(main())
