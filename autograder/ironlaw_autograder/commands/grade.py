"""`ironlaw-autograder grade PATH`: grade what a class handed in, in isolation."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
from pathlib import Path

from ironlaw.errors import InputError, count

from .. import course as courses
from ..build import notebook
from ..grading import changes, cluster, cluster_scheduler, database, tables
from ..grading.grade import Runner, grade_folder
from ..grading.progress import Progress
from ..judge import sandbox
from . import _taking

_SHOWN = 12  # lines of changed points; all of them are in the table


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="a folder with one .ipynb or one folder for each "
                        "student, or the archive that Canvas, Moodle or JupyterHub gave")
    parser.add_argument("--lab", help="the lab that was handed in (default: read from the files)")
    parser.add_argument("--out", type=Path, help="where gradebook, feedback and tables go "
                        "(default: PATH-graded beside it)")
    parser.add_argument("--workers", type=int, help="submissions judged at once (default: one "
                        "for each processor core)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="judge on the workers of the Dask "
                        f"scheduler at {cluster_scheduler.ALLOWED}")
    for name, what in (("ca-file", "authority's certificate"), ("cert", "own certificate"),
                       ("key", "own key")):
        parser.add_argument(f"--tls-{name}", type=Path, metavar="FILE",
                            help=f"with tls://: the {what}, in PEM")
    parser.add_argument("--database", metavar="URL", help="where the gradebook lies: "
                        f"{database.ALLOWED} (default: a file in the folder --out)")
    _taking.add_flags(parser)
    parser.add_argument("--fresh", action="store_true",
                        help="judge and enter everything again, also what has not changed")
    parser.add_argument("--no-feedback", action="store_true",
                        help="write no feedback pages; `feedback` makes them later")
    parser.add_argument("--accept-risk", action="store_true",
                        help="run student code without isolation; only for a class you trust")
    parser.add_argument("--root", type=Path, help="the course's checkout (default: around here)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def run(args: argparse.Namespace) -> int:
    if args.accept_risk:
        sandbox.require_processes()
    course = courses.find(args.root, args.salt)
    path = args.path.resolve()
    out = args.out or path.with_name(f"{path.name if path.is_dir() else path.stem}-graded")
    taking = _taking.taking(args, out)
    workers = None if args.workers is None else count("workers", args.workers)
    runner = None if args.scheduler is None else _on_cluster(args)
    before = changes.previous(out)
    try:
        with contextlib.closing(Progress()) as progress:
            lab, results = grade_folder(course, path, out, lab_name=args.lab, workers=workers,
                                        isolated=not args.accept_risk, fresh=args.fresh,
                                        pages=not args.no_feedback,
                                        runner=runner, url=args.database, report=progress,
                                        taking=taking, notice=_note)
    except KeyboardInterrupt:
        print(f"\nStopped. What has been judged is kept in {out}; the same command goes on from "
              "there.", file=sys.stderr)
        return 130
    data = {"lab": lab.name, "maximum": lab.points, "out": str(out),
            "results": [result.to_json() for result in results]}
    notebook.write_if_changed(out / "grades.csv", tables.grades_csv(lab, results))
    notebook.write_if_changed(out / "grades.json", json.dumps(data, indent=1) + "\n")
    changed = changes.write(out, before, lab.name, results)
    if args.json:
        print(json.dumps(data, indent=1))
        return 0
    waiting = sum(1 for result in results if result.waiting)
    print(f"\n{lab.name}: {len(results)} graded, {waiting} with answers that wait for a person")
    print(f"table     {out / 'grades.csv'}\nfeedback  {out / 'feedback'}")
    if changed == []:
        print("no points changed since the last time")
    elif changed:
        print(f"changed   {out / changes.FILE}")
        for change in changed[:_SHOWN]:
            print(f"          {change}")
        if len(changed) > _SHOWN:
            print(f"          and {len(changed) - _SHOWN} more")
    return 0


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _on_cluster(args: argparse.Namespace) -> Runner:
    """What judges on other machines; that somebody listens there is seen to at once."""
    if args.workers is not None:
        raise InputError("workers", args.workers, "left out together with --scheduler",
                         "How many work at once is decided where the workers are started.")
    cluster.require_isolation(not args.accept_risk)
    scheduler = cluster_scheduler.check(cluster_scheduler.Scheduler(
        args.scheduler, args.tls_ca_file, args.tls_cert, args.tls_key))
    return functools.partial(cluster.run, scheduler=scheduler,
                             notice=lambda text: print(text, file=sys.stderr))
