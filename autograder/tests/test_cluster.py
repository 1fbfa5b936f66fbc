"""Grading on a Dask cluster: the same outcomes, deaths that cost nothing, and early refusals."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dask_processes import Cluster
from distributed import Security
from ironlaw.errors import InputError, UnavailableError
from ironlaw_autograder.build.lab_source import Lab
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading import cluster, cluster_scheduler, pool
from ironlaw_autograder.grading.cluster_scheduler import Scheduler
from ironlaw_autograder.grading.work import Outcome, Task
from ironlaw_autograder.simulate.submissions import Desk

ROOT = Path(__file__).resolve().parents[2]
# What a worker that cannot survive one submission does.
# It dies a moment late, when what it judged before has reached the scheduler: otherwise chance
# would decide how much came back.
POISON = """
import os, signal, time
from ironlaw_autograder.grading.work import Worker

def grade(self, task, safe=Worker.grade):
    if task.student in {names!r}:
        time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return safe(self, task)

if Worker.grade.__module__ != __name__:  # a nanny runs this twice
    Worker.grade = grade
"""


@pytest.fixture(scope="module")
def tasks(desk: Desk) -> list[Task]:
    """Ten submissions of a few kinds, one of them hostile."""
    kinds = [desk.reference(), desk.untouched(),
             desk.reference({"mfu": "def mfu(*a):\n    return 0.5"}),
             desk.reference({"residual": "import os\nos._exit(1)"}), desk.reference()]
    return [Task.of(f"student {n}", desk.lab.name, kinds[n % 5]) for n in range(10)]


@pytest.fixture(scope="module")
def local(tasks: list[Task], course: Course, lab_01: Lab) -> dict[str, Any]:
    """The outcomes of the first five from this machine's own pool."""
    return plain(pool.run(tasks[:5], course, lab_01.name))


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler that nobody works for yet."""
    made = Cluster(tmp_path)
    yield made
    made.stop()


def plain(outcomes: Any) -> dict[str, Any]:
    """Outcomes by student, without the time they took."""
    with contextlib.closing(outcomes):
        return {outcome.student: {**outcome.to_json(), "seconds": 0} for outcome in outcomes}


@pytest.mark.sandbox
def test_a_cluster_gives_what_this_machine_gives_and_a_dead_worker_costs_nothing(
    empty: Cluster, tasks: list[Task], local: dict[str, Any], course: Course, lab_01: Lab
) -> None:
    first, _ = empty.add(), empty.add()
    empty.wait_for(2)
    outcomes = cluster.run(tasks, course, lab_01.name, scheduler=Scheduler(empty.address))
    found: list[Outcome] = [next(outcomes)]
    first.kill()
    assert empty.known() <= 4  # for each worker one in work and one that waits
    found += outcomes
    outcomes.close()
    by_name = {outcome.student: {**outcome.to_json(), "seconds": 0} for outcome in found}
    assert len(found) == len(by_name) == len(tasks)
    for place, task in enumerate(tasks):
        twin = {**local[f"student {place % 5}"], "student": task.student}
        assert by_name[task.student] == twin


@pytest.mark.sandbox
def test_a_submission_that_takes_two_workers_along_is_named_and_no_other_is_lost(
    empty: Cluster, tasks: list[Task], local: dict[str, Any], course: Course, lab_01: Lab,
    tmp_path: Path
) -> None:
    preload = tmp_path / "preload.py"
    preload.write_text(POISON.format(names=("poison",)))
    empty.add("--preload", str(preload))
    empty.add("--preload", str(preload), nanny=True)  # the nanny starts it again
    empty.wait_for(2)
    poison = Task("poison", lab_01.name, tasks[0].notebook)
    found = plain(cluster.run([poison, *tasks[:3]], course, lab_01.name,
                              scheduler=Scheduler(empty.address)))
    assert "the worker that judged it ended 2 times (last: tcp://" in found["poison"]["problem"]
    assert found["poison"]["scores"] == []
    del found["poison"]
    assert found == {task.student: local[task.student] for task in tasks[:3]}


@pytest.mark.sandbox
def test_when_the_only_worker_dies_the_rest_is_graded_by_the_next_one(
    empty: Cluster, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_SECONDS", 2.0)
    folder, out = tmp_path / "class", tmp_path / "out"
    folder.mkdir()
    for name in ("a", "b", "c", "d"):
        (folder / f"{name}.ipynb").write_text(json.dumps(desk.reference()), encoding="utf-8")
    words = ["grade", str(folder), "--out", str(out), "--root", str(ROOT), "--json",
             "--scheduler", empty.address.removeprefix("tcp://")]
    for dies_at in (("c",), ("a", "b")):  # the second would not survive what is graded already
        preload = tmp_path / f"{dies_at[0]}.py"
        preload.write_text(POISON.format(names=dies_at))
        empty.add("--preload", str(preload))
        empty.wait_for(1)
        status = main(words)
        said = capsys.readouterr()
        if dies_at == ("c",):
            assert status == 2
            assert "2 of 4 submissions came back" in said.err
            assert "run the same command again" in said.err
    assert status == 0
    assert {r["student"]: r["score"] for r in json.loads(said.out)["results"]} == {
        "a": 18, "b": 18, "c": 18, "d": 18}


@pytest.mark.sandbox
def test_workers_that_would_grade_otherwise_are_named_before_anything_runs(
    empty: Cluster, tasks: list[Task], course: Course, lab_01: Lab, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "chapters").mkdir(parents=True)
    shutil.copytree(course.solutions, other / "solutions")
    source = other / "solutions" / f"{lab_01.name}.py"
    source.write_text(source.read_text(encoding="utf-8").replace(
        "### BEGIN HIDDEN TESTS\n", "### BEGIN HIDDEN TESTS\nassert True\n", 1), encoding="utf-8")
    empty.add(cwd=other)
    empty.add(environment={"PATH": str(tmp_path)})  # no bubblewrap there
    empty.wait_for(2)
    outcomes = cluster.run(tasks, course, lab_01.name, scheduler=Scheduler(empty.address))
    with contextlib.closing(outcomes), pytest.raises(UnavailableError) as refusal:
        next(outcomes)
    said = str(refusal.value)
    assert "tests and code is " in said
    assert "`bwrap`) is not installed" in said
    assert said.count(" (host ") == 2
    assert empty.known() == 0


@pytest.mark.sandbox
def test_a_cluster_with_certificates_serves_those_who_show_one(
    tasks: list[Task], local: dict[str, Any], course: Course, lab_01: Lab, tmp_path: Path
) -> None:
    ca, cert, key = certificates(tmp_path)
    made = Cluster(tmp_path, "--tls-ca-file", str(ca), "--tls-cert", str(cert), "--tls-key",
                   str(key), security=Security(tls_ca_file=str(ca), tls_client_cert=str(cert),
                                               tls_client_key=str(key)))
    try:
        assert made.address.startswith("tls://")
        with pytest.raises(UnavailableError, match="did not answer as one"):
            cluster.run(tasks, course, lab_01.name, scheduler=Scheduler(
                made.address.replace("tls", "tcp")))
        made.add()
        outcomes = cluster.run(tasks, course, lab_01.name,
                               scheduler=Scheduler(made.address, ca, cert, key))
        with contextlib.closing(outcomes):
            first = next(outcomes)
            assert {**first.to_json(), "seconds": 0} == local[first.student]
            made.processes[0].kill()  # the scheduler itself
            with pytest.raises(UnavailableError, match=r"it went away.*is kept"):
                list(outcomes)
    finally:
        made.stop()


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority of one's own, and a certificate and key that it has signed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl was not found. Install it (Debian: apt-get install openssl).")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=graders", "-keyout", str(key), "-out", str(cert)],
                   check=True, capture_output=True)
    return cert, cert, key


@pytest.fixture
def listener() -> Iterator[str]:
    """The address of a port that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_where_nobody_answers_is_named_soon(
    listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnavailableError, match="Connection refused"):
        cluster_scheduler.check(Scheduler("127.0.0.1:1"))
    monkeypatch.setattr(cluster_scheduler, "CONNECT_SECONDS", 1.0)
    with pytest.raises(UnavailableError, match="did not answer as one"):
        cluster_scheduler.check(Scheduler(listener))
    with pytest.raises(InputError, match="Add --tls-ca-file"):
        cluster_scheduler.check(Scheduler(f"tls://{listener}"))


@pytest.mark.parametrize("address", ["", "http://host:1", "tcp://", "host:port", "host:99999",
                                     "tcp://host:1/path", "lab 7:8786"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="tcp://HOST:PORT") as problem:
        cluster_scheduler.check(Scheduler(address))
    assert problem.value.argument == "scheduler"


def test_certificates_go_with_tls_and_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "some.pem"
    file.write_text("")
    for scheduler in (Scheduler("host:1", file, file, file), Scheduler("tls://host:1", file)):
        with pytest.raises(InputError, match="--tls-ca-file, --tls-cert and --tls-key"):
            cluster_scheduler.check(scheduler)
    with pytest.raises(InputError, match="tls_key"):
        cluster_scheduler.check(Scheduler("tls://host:1", file, file, tmp_path / "none"))


@pytest.mark.parametrize(("words", "told"), [
    (["--accept-risk"], "in their sandbox or not at all"),
    (["--workers", "3"], "where the workers are started"),
])
def test_options_of_this_machine_do_not_go_with_a_cluster(
    words: list[str], told: str, tmp_path: Path, course: Course, lab_01: Lab,
    capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", str(tmp_path), "--root", str(ROOT), "--scheduler", "127.0.0.1:1",
                 *words]) == 2
    assert told in capsys.readouterr().err
    with pytest.raises(InputError, match="in their sandbox or not at all"):
        cluster.run([], course, lab_01.name, scheduler=Scheduler("127.0.0.1:1"), isolated=False)


def test_without_dask_its_package_is_named(monkeypatch: pytest.MonkeyPatch, listener: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match="pip install 'distributed"):
        cluster_scheduler.check(Scheduler(listener))
