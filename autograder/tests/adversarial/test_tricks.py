"""Tricks on the judge itself: what a student's process claims, and where the judge looks."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.lab import wire
from ironlaw_autograder.grading.work import Marking
from ironlaw_autograder.judge import engine as engines
from ironlaw_autograder.judge import words
from ironlaw_autograder.judge.channel import Channel, LostError
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.inside import frames, syscalls
from ironlaw_autograder.judge.kernel import Kernel
from ironlaw_autograder.judge.limits import Limits
from ironlaw_autograder.judge.referee_process import Referee
from questions import grade, question
from questions import words as said


def frame(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def test_a_frame_is_read_only_as_it_was_agreed() -> None:
    for text in (b'{"sizes": [], "body": []}', b'{"sizes": [-1], "body": {}}', b"[",
                 b"\xff\xfe{\x00", b'{"sizes": [99999999999], "body": {}}',
                 b'{"sizes": [1e3], "body": {}}',
                 b'{"sizes": [true], "body": {}}', b'{"body": {}}', b"[" * 100_000,
                 b'{"sizes": [], "body": {"x": ' + b"9" * 10_000 + b"}}",
                 b'{"sizes": ' + json.dumps([0] * 20_000).encode() + b', "body": {}}'):
        reader = frames.Reader()
        reader.feed(frame(text))
        with pytest.raises(frames.FrameError):
            reader.frame()


def test_a_reply_of_millions_of_values_is_refused_before_any_is_made() -> None:
    reader = frames.Reader()
    reader.feed(frame(b'{"sizes": [], "body": {"x": [' + b"[]," * 5_000_000 + b"[]]}}"))
    with pytest.raises(frames.FrameError, match="more than 2,500,000 values"):
        reader.frame()


def test_the_largest_answer_fits_into_a_reply() -> None:
    # Each of its items takes two commas at most, and its texts may be nothing else.
    assert 3 * wire.MAX_ITEMS + wire.MAX_TEXT < frames.MAX_COMMAS
    reader = frames.Reader()
    tree, blobs = wire.encode([*np.arange(wire.MAX_ARRAYS), *["," * 100] * 9_000])
    reader.feed(frames.pack({"value": tree}, blobs))
    assert reader.frame() == ({"value": tree}, blobs)


def test_half_characters_are_mended_before_anybody_stores_them() -> None:
    reader = frames.Reader()
    reader.feed(frame(b'{"sizes": [], "body": {"a\\uD800": ["\\udc00x", "\\ud83d\\ude00"]}}'))
    found = reader.frame()
    assert found is not None
    assert found[0] == {"a?": ["?x", "\U0001f600"]}


def test_whoever_sends_without_end_is_stopped_before_memory_is() -> None:
    reader = frames.Reader()
    piece = bytes(10_000_000)
    reader.feed(struct.pack(">I", frames.MAX_HEADER) + piece)
    for _ in range(9):
        reader.feed(piece)
    with pytest.raises(frames.FrameError, match="more than anybody asked for"):
        reader.feed(piece)


def test_a_relayed_header_may_be_longer_than_it_came() -> None:
    text = ('{"sizes":[],"body":{"x":[' + ",".join(["1e9", '"é"'] * 50_000) + "]}}").encode()
    first = frames.Reader()
    first.feed(frame(text))
    found = first.frame()
    assert found is not None
    relayed = frames.pack(*found)
    assert len(text) < len(relayed) <= 6 * len(text)
    second = frames.Reader(frames.MAX_RELAYED)
    second.feed(relayed)
    assert second.frame() == found


COLLIDING = [{"t": "int", "v": hex(k * (2**61 - 1))} for k in range(1, 40_001)]


@pytest.mark.parametrize("tree", [
    {"t": "dict", "v": [[key, 0] for key in COLLIDING]},
    {"t": "set", "v": COLLIDING},
    {"t": "frozenset", "v": COLLIDING},
    {"t": "list", "v": [{"t": "set", "v": COLLIDING[:2_000]}] * 20},
])
def test_keys_made_to_collide_are_refused_before_they_cost_anything(tree: Any) -> None:
    start = time.process_time()
    with pytest.raises(wire.WireError, match="keys"):
        wire.decode(tree, [])
    assert time.process_time() - start < 10  # read in full they would take minutes


@settings(max_examples=150, deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["t", "v", "name", "kind", "dtype", "shape", "blob"]),
        inner | st.sampled_from(["int", "float", "complex", "list", "set", "dict", "record",
                                 "opaque", "array", "nan", "0x1", "numpy", "float64"]),
        max_size=5), max_leaves=25))
def test_whatever_is_claimed_to_be_a_value_decodes_or_is_refused(tree: Any) -> None:
    try:
        wire.decode(tree, [b"12345678"])
    except wire.WireError:
        return


def test_no_text_acts_on_a_terminal_a_file_or_a_reader() -> None:
    dirty = "a\x1b[2J\x1b[31mb\x1b]0;title\x07c\x00d\x9b31me\u202etxt\ud800 50%\r100%\nnext\tline"
    tidy = words.clean(dirty)
    assert tidy == "100%\nnext\tline"
    assert words.clean("a\x1b[31mb\x1b]0;t\x07c\x00d\u202e\ud800") == "abc\ufffdd\ufffd\ufffd"
    for long in ("\x1b[" * 200_000, "\r" * 400_000, "\x1b]" * 200_000, "x" * 400_000 + "\r"):
        start = time.process_time()
        words.clean(long).encode()
        assert time.process_time() - start < 5


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_the_filter_lands_inside_it(machine: str) -> None:
    code = syscalls.program(machine)
    steps = [struct.unpack_from("HBBI", code, at) for at in range(0, len(code), 8)]
    for place, (kind, yes, no, _) in enumerate(steps):
        if kind & 7 == 5:  # a jump
            assert place + 1 + max(yes, no) < len(steps)
    assert steps[-1][0] == 6  # a return
    assert len(steps) < 256


@pytest.mark.parametrize("name", ["numpy.py", "ironlaw.py", "json.py", "ironlaw_autograder.py"])
def test_the_judge_imports_nothing_from_the_folder_it_is_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text("raise SystemExit('a file of a student ran as the grader')")
    monkeypatch.chdir(tmp_path)
    referee = Referee(Limits())
    try:
        outcome = referee.judge("check(lambda student: None)", "c", lambda q, b: ({}, []))
    finally:
        referee.close()
    assert outcome["share"] == 1.0


BROKEN = "run = student.value('x')\nrun['peak'] + 1"


@pytest.mark.sandbox
def test_a_value_that_stops_a_sound_check_earns_nothing_and_is_named(strict: Engine) -> None:
    graded = grade(strict, *question("x = 3", BROKEN), sound=lambda check: check == "check")
    assert [score.points for score in graded.scores] == [0.0]
    assert graded.scores[0].message == engines.STOPPED
    shown = graded.notebook.cells[1].outputs
    assert shown[1]["data"]["text/plain"] == "0.0"
    assert "TypeError" in graded.events[0]
    assert "this student's value stopped it" in graded.events[1]


@pytest.mark.sandbox
@pytest.mark.parametrize(("body", "sound"), [
    (BROKEN, None), (BROKEN, False), ("student.valeu('x')", False),
    ("import os; os._exit(9)", True),
])
def test_a_check_that_nobody_has_seen_work_or_that_died_waits_for_a_person(
    strict: Engine, body: str, sound: bool | None
) -> None:
    known: Callable[[str], bool] | None = None if sound is None else lambda check: bool(sound)
    graded = grade(strict, *question("x = 3", body), sound=known)
    assert [score.points for score in graded.scores] == [None]
    assert len(graded.events) == 1


@pytest.mark.sandbox
def test_the_checks_of_a_lab_are_proven_on_its_own_answers(
    strict: Engine, marking: Marking
) -> None:
    graded = {cell.metadata.nbgrader.grade_id for cell in marking.template.cells
              if cell.metadata.nbgrader.grade and not cell.metadata.nbgrader.solution}
    assert {name for name in graded if marking.sound(strict, name)} == graded
    assert not marking.sound(strict, "explain")


@pytest.mark.sandbox
def test_nothing_of_the_graders_environment_passes_through_any_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRADEBOOK_PASSWORD", "correct horse")
    kernel = Kernel((), Limits())
    source = """
import pathlib
seen = []
for place in pathlib.Path("/proc").glob("[0-9]*"):
    for name in ("environ", "cmdline", "mem"):
        try:
            seen.append((place.name, name, (place / name).open("rb").read(100_000)))
        except OSError:
            pass
leaked = [s for s in seen if b"correct horse" in s[2] or b"GRADEBOOK" in s[2]]
first = pathlib.Path("/proc/1/mem").exists()
"""
    try:
        assert kernel.run(source, 10.0).status == "ok"
        values = {name: kernel.ask({"op": "value", "name": name}, [], 2.0)[0]["value"]
                  for name in ("leaked", "first")}
    finally:
        kernel.close()
    assert values == {"leaked": {"t": "list", "v": []}, "first": False}


LINE = """
import gc, json, os, signal, socket, struct
from inside import frames
line = next(thing for thing in gc.get_objects() if isinstance(thing, socket.socket))
"""
STALLS = {
    "announces a reply and keeps it back": """
def x():
    header = json.dumps({"sizes": [70_000_000], "body": {}}).encode()
    line.sendall(struct.pack(">I", len(header)) + header)
""",
    "switches its alarm off and stops itself": """
def x():
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.kill(os.getpid(), signal.SIGSTOP)
""",
    "sends displays without end": """
def x():
    while True:
        try:
            frames.send(line, {"event": {"output_type": "display_data", "data": {}}})
        except BaseException:
            pass
""",
    "ignores its alarm and sleeps": """
def x():
    import time
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(99)
""",
}


@pytest.mark.sandbox
@pytest.mark.parametrize("name", STALLS)
def test_a_reply_that_never_comes_costs_its_question_alone(strict: Engine, name: str) -> None:
    graded = grade(strict, *question(LINE + STALLS[name], "student.call('x')"),
                   *question("y = 1", "student.close('y', student.value('y'), 1)", name="next"))
    assert [score.points for score in graded.scores] == [0, 2]
    assert "x ran past its limit of 1 s and could not be interrupted" in graded.scores[0].message
    assert [score.timed_out for score in graded.scores] == [True, False]
    assert graded.seconds < 30


@pytest.mark.sandbox
def test_what_a_student_prints_or_raises_is_shown_without_its_commands(strict: Engine) -> None:
    source = ("print('\\x1b[31mred\\x1b[0m\\x00 \\u202e')\nfor i in range(3): print(i, end='\\r')\n"
              "raise ValueError('\\x1b]0;owned\\x07\\ud800')")
    graded = grade(strict, *question(source, "return None"))
    assert "red\ufffd \ufffd" in said(graded)
    assert words.clean(said(graded)) == said(graded)


@pytest.mark.sandbox
def test_a_process_that_was_closed_is_gone_with_all_that_it_started() -> None:
    kernel = Kernel((), Limits())
    process = kernel._channel._process.pid
    kernel.run("import subprocess\nfor _ in range(20): subprocess.Popen(['sleep', '99'], "
               "start_new_session=True)", 10.0)
    inside = int(Path(f"/proc/{process}/task/{process}/children").read_text())
    kernel.close()
    assert not is_running(inside)  # the first process ends after all others


def test_without_isolation_too_a_closed_process_takes_its_children_along() -> None:
    kernel = Kernel((), Limits(), isolated=False)
    kernel.run("import subprocess\nchild = subprocess.Popen(['sleep', '99']).pid", 10.0)
    child = kernel.ask({"op": "value", "name": "child"}, [], 2.0)[0]["value"]
    kernel.close()
    until = time.monotonic() + 5
    while is_running(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_that_does_not_listen_is_given_up() -> None:
    channel = Channel(["sleep", "9"], lambda number: [], 1_000)
    try:
        with pytest.raises(LostError, match=r"stopped listening|its process ended"):
            channel.send({"x": "y" * 10_000_000}, [], 0.3)
        with pytest.raises(LostError):
            channel.receive(0.1)
    finally:
        channel.close()
