"""The first process in the sandbox: gives up its rights, then runs a student's cells.

It runs as `python -m inside.agent SETTINGS` with one inherited socket. Everything after the
first cell is the student's: nothing here is trusted by the other side.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import resource
import signal
import socket
import sys
from typing import Any

from ironlaw.lab.student import serve

from . import frames, syscalls


class TimeLimitError(BaseException):
    """The cell or call ran past its time limit."""


def give_up_rights(settings: dict[str, Any]) -> None:
    """Become the unprivileged user for good, and bind the limits to this process tree."""
    if settings["uid"] is not None:
        os.setgroups([])
        os.setresgid(settings["gid"], settings["gid"], settings["gid"])
        os.setresuid(settings["uid"], settings["uid"], settings["uid"])
    for name, value in settings["limits"].items():
        kind = getattr(resource, name)
        resource.setrlimit(kind, (value, value))
    if settings["filter"]:
        syscalls.install()


class Alarm:
    """Raises `TimeLimitError` in the running code; the grader kills what does not heed it."""

    def __init__(self) -> None:
        self.rang = False
        self._armed = False
        signal.signal(signal.SIGALRM, self._ring)

    def __call__(self, seconds: float) -> Alarm:
        self._seconds = seconds
        return self

    def __enter__(self) -> None:
        self.rang = False
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, self._seconds, 0.5)

    def __exit__(self, *problem: object) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *ignored: object) -> None:
        if self._armed:
            self.rang = True
            raise TimeLimitError("stopped at its time limit")


def make_shell(channel: socket.socket) -> Any:
    """An IPython shell that sends displays and errors as frames."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config

    def tell(event: dict[str, Any]) -> None:
        frames.send(channel, {"event": event})

    class Publisher(DisplayPublisher):
        def publish(self, data: Any, metadata: Any = None, source: Any = None, *,
                    transient: Any = None, update: Any = False, **others: Any) -> None:
            tell({"output_type": "display_data", "data": plain(data)})

    class Hook(DisplayHook):
        def write_output_prompt(self) -> None:
            return

        def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
            tell({"output_type": "execute_result", "data": plain(format_dict)})

        def finish_displayhook(self) -> None:
            sys.stdout.flush()

    class Shell(InteractiveShell):
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)

        def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
            lines = stb if isinstance(stb, list) else [str(stb)]
            tell({"output_type": "error", "ename": str(getattr(etype, "__name__", etype))[:200],
                  "evalue": text_of(evalue)[:2_000],
                  "traceback": ["\n".join(map(str, lines))[-20_000:]]})

        def enable_gui(self, gui: Any = None) -> None:
            return

        def ask_exit(self) -> None:  # `exit()` would close the notebook, whose cells go on here
            return

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryAccessor.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.cache_size = 0
    shell = Shell.instance(config=config)
    vars(builtins)["input"] = no_input
    return shell


def no_input(*ignored: object) -> str:
    """In place of `input`: nobody is there to answer."""
    raise RuntimeError("input() has no one to answer it while a notebook is graded; "
                       "assign the value in the cell instead.")


def plain(data: Any) -> dict[str, Any]:
    """The parts of a display that are worth keeping, as text and capped."""
    kept = {}
    for mime in ("text/plain", "text/markdown", "image/png"):
        value = data.get(mime) if isinstance(data, dict) else None
        if isinstance(value, bytes):
            import base64
            value = base64.b64encode(value).decode()
        if isinstance(value, str) and len(value) <= 1_000_000:
            kept[mime] = value.encode("utf-8", "replace").decode()
    return kept


def text_of(problem: object) -> str:
    """A message, whatever the student's class does when asked for one."""
    try:
        return str(problem).encode("utf-8", "replace").decode()
    except Exception:
        return "(its message cannot be shown)"


def run_cell(shell: Any, alarm: Alarm, question: dict[str, Any]) -> dict[str, Any]:
    """Run one cell; how it ended."""
    _seed(question["source"])
    try:
        with alarm(question["seconds"]):
            result = shell.run_cell(question["source"], store_history=False)
        failed = not result.success
    except BaseException:  # a student's code may raise anything, through IPython too
        failed = True
    flush()
    return {"status": "timeout" if alarm.rang else "error" if failed else "ok"}


def _seed(source: str) -> None:
    """The same random numbers when the notebook is run again; numpy only once it is used."""
    if "numpy" in source and "numpy" not in sys.modules:
        import numpy

        numpy.random.seed(0)


def flush() -> None:
    """Text printed so far belongs to the cell that just ran."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__


def answer(shell: Any, alarm: Alarm, question: dict[str, Any],
           blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one question of a hidden test."""
    try:
        with alarm(question["seconds"]):
            return serve(shell.user_ns, question, blobs)
    except TimeLimitError:
        return {"status": "timeout"}, []
    except BaseException as problem:
        return {"status": "error", "kinds": [type(problem).__name__],
                "message": f"{question.get('name')} raised {type(problem).__name__}"}, []
    finally:
        flush()


def main() -> None:
    settings = json.loads(sys.argv[1])
    give_up_rights(settings)
    channel = socket.socket(fileno=settings["channel"])
    random.seed(0)
    alarm = Alarm()
    shell = make_shell(channel)
    sys.argv = ["notebook"]
    frames.send(channel, {"done": {"status": "ready"}, "number": 0})
    home = os.getpid()
    reader = frames.Reader()
    while True:
        found = frames.receive(channel, reader)
        if found is None:
            return
        question, blobs = found
        back: list[bytes] = []
        if question["op"] == "cell":
            reply = run_cell(shell, alarm, question)
        else:
            reply, back = answer(shell, alarm, question, blobs)
        if os.getpid() != home:  # a copy that the cell made of this process
            os._exit(0)
        frames.send(channel, {"done": reply, "number": question["number"]}, back)


if __name__ == "__main__":
    main()
