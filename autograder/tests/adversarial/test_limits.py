"""Every limit bites, names itself, and costs one question alone."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from ironlaw_autograder.judge import watch
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.limits import Limits
from questions import grade, question, words

pytestmark = pytest.mark.sandbox
SHORT = Limits(cell_seconds=6.0, call_seconds=1.0, grace_seconds=0.4)

BURN = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        while True: pass
time.sleep(30)
"""
SOCKETS = """
import os, socket, time
for _ in range(20):
    if os.fork() == 0:
        kept = [socket.socketpair() for _ in range(25)]
        time.sleep(30)
time.sleep(30)
"""
CROWD = """
import os, time
for _ in range(len(os.sched_getaffinity(0)) + 4):
    if os.fork() == 0:
        os.setsid()
        while True: pass
time.sleep(30)
"""
FORKS_THAT_HOLD = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        block = bytearray(os.urandom(1)) * 80_000_000
        time.sleep(5)
time.sleep(5)
"""
FULL_FOLDERS = """
import time
for folder in ("/tmp", "/dev/shm"):
    with open(folder + "/full", "wb") as file:
        file.write(bytes(90_000_000))
time.sleep(2)
"""
MANY_PROCESSES = """
import subprocess
kept = [subprocess.Popen(["sleep", "9"]) for _ in range(60)]
"""
MANY_THREADS = """
import threading, time
for _ in range(60):
    threading.Thread(target=time.sleep, args=(9,)).start()
"""
MANY_FILES = """
for number in range(10**6):
    open(f"/tmp/{number}", "w").close()
"""
# What is set, what the student does, and how the limit names itself.
CELLS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a cell": ({"cell_seconds": 0.5}, "while True: pass", "the cell ran past its limit of 0.5 s"),
    "memory of a process": ({"memory_bytes": 250_000_000}, "bytearray(300_000_000)",
                            "MemoryError: (no message) (the limit is 0.25 GB of memory)"),
    "memory of all processes": ({"memory_bytes": 250_000_000}, FORKS_THAT_HOLD,
                                "the cell used more than 0.25 GB of memory"),
    "memory in private folders": ({"memory_bytes": 150_000_000}, FULL_FOLDERS,
                                  "the cell used more than 0.15 GB of memory"),
    "processor time of all processes": ({"processor_seconds": 1.0, "cell_seconds": 30.0}, BURN,
                                        "the cell used more than 1 s of processor time"),
    "processes at work": ({"busy": 2, "cell_seconds": 30.0}, CROWD,
                          "the cell kept too many processes or threads at work at once"),
    "processes": ({"processes": 40}, MANY_PROCESSES,
                  "Resource temporarily unavailable (the limit is 40 processes and threads)"),
    "threads": ({"processes": 40}, MANY_THREADS,
                "can't start new thread (the limit is 40 processes and threads)"),
    "a file": ({"file_bytes": 1_000_000}, "open('big', 'wb').write(bytes(2_000_000))",
               "File too large (the limit is 1 MB in a file)"),
    "a folder": ({"disk_bytes": 1_000_000}, "open('big', 'wb').write(bytes(2_000_000))",
                 "No space left on device (the limit is 1 MB in each folder)"),
    "files": ({"files": 1_000}, MANY_FILES, "the cell used more than 1,000 files"),
    "open sockets": ({"open_files": 70, "cell_seconds": 30.0}, SOCKETS,
                     "the cell used more than 560 open files, sockets and pipes"),
    "open files": ({"open_files": 64}, "kept = [open('/dev/null') for _ in range(70)]",
                   "Too many open files: '/dev/null' (the limit is 64 open files)"),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_limit_of_a_cell_bites_and_names_itself(name: str) -> None:
    change, source, said = CELLS[name]
    engine = Engine(dataclasses.replace(SHORT, **change))
    try:
        graded = grade(engine, *question(f"{source}\nx = 1"),
                       *question("y = 2", "student.close('y', student.value('y'), 2)", name="next"))
    finally:
        engine.close()
    assert [score.points for score in graded.scores] == [0, 2]
    assert [score.timed_out for score in graded.scores] == [name == "a cell", False]
    assert said in words(graded)


CALLS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a call": ({"call_seconds": 0.5}, "while True: pass", "student.call('f')",
               "f ran past its limit of 0.5 s"),
    "all calls of a check": ({"test_seconds": 0.8}, "import time; time.sleep(0.3); return 1",
                             "for _ in range(20):\n    student.call('f')",
                             "The calls of this check took more than 0.8 s together"),
    "memory of a call": ({"memory_bytes": 250_000_000}, "return len(bytearray(300_000_000))",
                         "student.call('f')",
                         "f raised MemoryError:  (the limit is 0.25 GB of memory)"),
    "the size of an answer": ({}, "return list(range(300_000))", "student.call('f')",
                              "nested too deeply or holds too many items"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_limit_of_a_check_bites_and_no_person_has_to_look(name: str) -> None:
    change, body, asked, said = CALLS[name]
    engine = Engine(dataclasses.replace(SHORT, **change))
    try:
        graded = grade(engine, *question(f"def f():\n    {body}", asked),
                       *question("y = 2", "student.close('y', student.value('y'), 2)", name="next"))
    finally:
        engine.close()
    assert [score.points for score in graded.scores] == [0, 2]
    slow = name in ("a call", "all calls of a check")
    assert [score.timed_out for score in graded.scores] == [slow, False]
    assert said in words(graded)


def test_output_is_bounded_by_stream_by_cell_and_by_notebook() -> None:
    engine = Engine(dataclasses.replace(SHORT, output_characters=2_000, display_count=3,
                                        notebook_characters=20_000))
    show = "from IPython.display import display\nfor i in range(9): display('x' * 1_000)\nx = 1"
    try:
        graded = grade(engine, *question("import os\nprint('a' * 10**7)\nos.system('yes | head -c "
                                         "5000000 >&2')\nx = 1"),
                       *(part for i in range(9) for part in question(show, name=f"q{i}")))
    finally:
        engine.close()
    assert {score.points for score in graded.scores} == {2.0}
    printed = [o for o in graded.notebook.cells[0].outputs if o.output_type == "stream"]
    assert [len(o.text) < 2_200 and "characters of output left out" in o.text
            for o in printed] == [True, True]
    assert len(graded.notebook.cells[2].outputs) == 3
    assert len(words(graded)) < 40_000
    assert "outputs of this notebook hold more than 20,000 characters" in words(graded)


def test_a_notebook_that_hangs_only_when_it_runs_again_ends_in_time() -> None:
    engine = Engine(dataclasses.replace(SHORT, cell_seconds=1.0, total_seconds=4.0,
                                        grace_seconds=0.2))
    # Swallows interrupts from a moment on that the first run does not reach.
    sour = """
import time
start = time.clock_gettime(time.CLOCK_BOOTTIME)
while start > {until}:
    try:
        time.sleep(9)
    except BaseException:
        pass
"""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    cells = [part for i in range(40) for part in
             question(sour.format(until=now + 2.0), "return None", name=f"q{i}")]
    deadly = [part for i in range(3) for part in
              question(f"import os, time; time.sleep(0.9)\ndef f{i}(): os._exit(1)",
                       f"student.call('f{i}')", name=f"deadly{i}")]
    try:
        graded = grade(engine, *cells[:60], *deadly, *cells[60:])
    finally:
        engine.close()
    assert graded.seconds < 4.0 * 3
    assert len(graded.scores) == 43


def test_pages_that_a_fork_shares_are_counted_once() -> None:
    source = """
import os, time
block = bytearray(os.urandom(1)) * 120_000_000
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        time.sleep(0.8)
        os._exit(0)
    children.append(child)
x = [os.waitpid(child, 0)[1] for child in children]
"""
    engine = Engine(dataclasses.replace(SHORT, memory_bytes=300_000_000))
    try:
        graded = grade(engine, *question(source, "student.require(student.value('x') == [0] * 4, "
                                                 "'a child was killed')"))
    finally:
        engine.close()
    assert [score.points for score in graded.scores] == [2], words(graded)


def test_the_watch_adds_up_a_tree_and_its_folders_and_nothing_else() -> None:
    mine = watch.measure(1 << 22, ())  # no such process
    assert (mine.memory, mine.seconds, mine.files) == (0, 0.0, 0)
