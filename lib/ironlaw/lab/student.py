"""A handle on a student's work, for checks: ask by name, receive plain values.

Checks never touch the student's objects. `Student` asks and compares; how a question
reaches the student's code is the part that differs: in the same kernel (`LocalStudent`,
for the learner and for plain nbgrader) or in a sandbox (the autograder's handle). Both
answer through `serve`, so a check sees the same values either way.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..units import significant
from . import wire

_HINTS = ((1e3, "a thousand times too large: a unit prefix?"),
          (1e-3, "a thousand times too small: a unit prefix?"),
          (100.0, "a hundred times too large: a percentage instead of a fraction?"),
          (0.01, "a hundred times too small: a percentage instead of a fraction?"),
          (3600.0, "3,600 times too large: hours instead of seconds?"),
          (1 / 3600.0, "3,600 times too small: hours instead of seconds?"),
          (86_400.0, "86,400 times too large: days instead of seconds?"),
          (1 / 86_400.0, "86,400 times too small: days instead of seconds?"),
          (2.0, "twice too large"), (0.5, "half of what it should be"),
          (-1.0, "right in size, but with the wrong sign"))
# What an answer that was left as handed out raises; PyTorch raises the same with other words.
_UNWRITTEN = ("", "Not written yet.")


class WrongAnswerError(AssertionError):
    """An answer does not pass a check; the text says why, for the student.

    `got` is the value that was wrong as short text, '' where the check names none.
    """

    def __init__(self, message: str, got: str = "") -> None:
        super().__init__(message)
        self.got = got


class StudentFault(BaseException):
    """The student's code could not answer: it is missing, raised, hung or died.

    Not an `Exception`, so that no check swallows it by accident.
    """

    def __init__(self, message: str, kinds: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.kinds = kinds


class Student:
    """What a check sees of a student's notebook, after the cells above it have run.

    `owner` is the id that the submission belongs to, '' where nobody knows it.
    """

    owner = ""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._answers: dict[str, Any] = {}

    def _ask(self, question: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any],
                                                                          list[bytes]]:
        raise NotImplementedError

    def offending(self, problem: BaseException | None = None) -> str:
        """The value that a check refused, as short text; '' where that is not certain.

        It is what `problem` carries, or else the one value that the check has asked for.
        """
        named = str(getattr(problem, "got", ""))
        if named or len(self._answers) != 1:
            return named
        (only,) = self._answers.values()
        return _as_got(only)

    # Questions

    def value(self, name: str) -> Any:
        """The student's variable `name` as plain data."""
        return self._answer({"op": "value", "name": name}, [])

    def call(self, function: str, *args: Any, **kwargs: Any) -> Any:
        """The result of the student's `function` on fresh copies of the arguments."""
        tree, blobs = wire.encode([list(args), kwargs])
        return self._answer({"op": "call", "name": function, "arguments": tree}, blobs)

    def run(self, source: str, result: str) -> Any:
        """`result` after running `source` beside the student's names, which stay as they are."""
        return self._answer({"op": "run", "source": source, "name": result}, [])

    def raises(self, function: str, *args: Any, error: str = "ValueError", **kwargs: Any) -> None:
        """Wrong unless `function` refuses these arguments with `error` or a kind of it."""
        shown = ", ".join([*map(_short, args), *(f"{k}={_short(v)}" for k, v in kwargs.items())])
        try:
            got = self.call(function, *args, **kwargs)
        except StudentFault as fault:
            if error in fault.kinds:
                return
            if not fault.kinds:
                raise
            did, instead = f"it raised {fault.kinds[0]}", fault.kinds[0]
        else:
            did, instead = f"it returned {_short(got)}", _as_got(got)
        raise WrongAnswerError(f"{function}({shown}) should raise {error}; {did}.", instead)

    # Answers: types first, then values

    def say(self, note: str) -> None:
        """Leave a remark for the student; it changes no score."""
        self.notes.append(str(note)[:2_000])

    def fail(self, message: str, *, got: Any = None) -> None:
        """WrongAnswerError, with `message` for the student; `got` is the value that was wrong."""
        raise _wrong(message, got)

    def require(self, holds: bool, message: str, *, got: Any = None) -> None:
        """Wrong with `message` unless `holds`."""
        if holds is not True:
            self.fail(message, got=got)

    def number(self, what: str, got: Any, low: float = -math.inf, high: float = math.inf) -> float:
        """`got` as a finite float within [low, high]; anything else is Wrong."""
        shape = getattr(got, "shape", ())
        if isinstance(got, bool | str | bytes) or got is None or isinstance(got, wire.Opaque):
            raise _wrong(f"{what} should be a number; it is {_short(got)}.", got)
        if shape != () or isinstance(got, list | tuple | dict | set | frozenset | wire.Record):
            raise _wrong(f"{what} should be one number; it is {_kind(got)}.", got)
        if getattr(getattr(got, "dtype", None), "kind", "f") == "b" or isinstance(got, complex):
            raise _wrong(f"{what} should be a real number; it is {_short(got)}.", got)
        try:
            found = float(got.item() if hasattr(got, "item") else got)
        except (TypeError, ValueError, OverflowError):
            raise _wrong(f"{what} should be a number; it is {_short(got)}.", got) from None
        if not math.isfinite(found):
            raise _wrong(f"{what} should be a finite number; it is {found}.", found)
        if not low <= found <= high:
            raise WrongAnswerError(f"{what} is {significant(found, 4)}; it should lie between "
                        f"{significant(low, 4)} and {significant(high, 4)}.",
                        significant(found, 5))
        return found

    def record(self, name: str, type_name: str) -> Any:
        """The student's variable `name`, which must be an object of the course's `type_name`."""
        got = self.value(name)
        if not isinstance(got, wire.Record) or got.type_name != type_name:
            raise _wrong(f"{name} should be a {type_name}; it is {_kind(got)}.", got)
        return got

    def close(self, what: str, got: Any, want: float, *, rtol: float = 1e-6, atol: float = 0.0,
              tell: bool = True) -> None:
        """Wrong unless `got` is a number within the tolerances of `want`.

        `tell` shows the right value; a hidden check passes False and gives only the slip
        that the ratio suggests.
        """
        found = self.number(what, got)
        if math.isclose(found, want, rel_tol=rtol, abs_tol=atol):
            return
        said = f"{what} is {significant(found, 5)}"
        if tell:
            said += f"; it should be {significant(want, 5)}"
        raise WrongAnswerError(f"{said}{_slip(found, want)}.", significant(found, 5))

    # Inside

    def _answer(self, question: dict[str, Any], blobs: list[bytes]) -> Any:
        reply, back = self._ask(question, blobs)
        status = reply.get("status")
        if status == "ok":
            try:
                value = wire.decode(reply.get("value"), back)
            except wire.WireError as problem:
                raise StudentFault(f"{question['name']} gave {problem}.") from None
            # A variable that is looked up twice is one answer; every call is another.
            name, op = str(question["name"]), question["op"]
            self._answers[name if op == "value" else f"{name} #{len(self._answers)}"] = value
            return value
        kinds = reply.get("kinds")
        known = tuple(str(k)[:100] for k in kinds[:20]) if isinstance(kinds, list) else ()
        message = str(reply.get("message") or "the student's code gave no answer")[:2_000]
        raise StudentFault(message, known if status == "error" else ())


class LocalStudent(Student):
    """The handle in the student's own kernel: the same answers, without isolation."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        super().__init__()
        self._namespace = namespace

    def _ask(self, question: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any],
                                                                          list[bytes]]:
        return serve(self._namespace, question, blobs)


def serve(namespace: dict[str, Any], question: Mapping[str, Any], blobs: list[bytes],
          ) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one question from a notebook's names; whatever happens, a reply comes back."""
    name = str(question.get("name"))
    deeds: dict[str, Callable[[], Any]] = {
        "value": lambda: _look_up(namespace, name),
        "call": lambda: _call(namespace, name, wire.decode(question["arguments"], blobs)),
        "run": lambda: _run(namespace, str(question["source"]), name),
    }
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            tree, back = wire.encode(deeds[str(question.get("op"))]())
        return {"status": "ok", "value": tree}, back
    except _MissingError:
        return {"status": "missing", "message": f"{name} is not defined: the cell that should "
                "define it was not run, was left empty or stopped with an error."}, []
    except wire.WireError as problem:
        return {"status": "refused", "message": f"{name} gave {problem}."}, []
    except (Exception, SystemExit) as problem:
        if type(problem) is NotImplementedError and _text(problem) in _UNWRITTEN:
            return {"status": "empty", "message": f"{name} is not written yet."}, []
        kinds = [kind.__name__ for kind in type(problem).__mro__]
        return {"status": "error", "kinds": kinds,
                "message": f"{name} raised {type(problem).__name__}: {_text(problem)}"}, []


class _MissingError(Exception):
    pass


def _look_up(namespace: dict[str, Any], name: str) -> Any:
    if name not in namespace:
        raise _MissingError
    return namespace[name]


def _call(namespace: dict[str, Any], name: str, arguments: Any) -> Any:
    function = _look_up(namespace, name)
    args, kwargs = arguments
    if not callable(function):
        raise TypeError(f"{name} is {_kind(function)}, not a function")
    return function(*args, **kwargs)


def _run(namespace: dict[str, Any], source: str, name: str) -> Any:
    scope = dict(namespace)
    exec(compile(source, "<check>", "exec"), scope)
    return _look_up(scope, name)


def _text(problem: BaseException) -> str:
    try:
        return str(problem)[:500]
    except Exception:
        return "(its message cannot be shown)"


def _slip(found: float, want: float) -> str:
    if want == 0 or found == 0:
        return ""
    ratio = found / want
    for factor, words in _HINTS:
        if math.isclose(ratio, factor, rel_tol=1e-3):
            return f" ({words})"
    return ""


def _kind(value: Any) -> str:
    if isinstance(value, wire.Opaque | wire.Record):
        return f"an object of type {value.type_name}"
    shape = getattr(value, "shape", None)
    name = type(value).__name__
    return f"an array of shape {shape}" if shape else f"a value of type {name}"


def _wrong(message: str, got: Any) -> WrongAnswerError:
    return WrongAnswerError(message, "" if got is None else _as_got(got))


def _as_got(value: Any) -> str:
    """A wrong value as text that is the same for equal values, whatever type holds them."""
    # By type and not by attributes: a student's record can have fields of any name.
    scalar = type(value).__module__ == "numpy" and value.shape == ()
    return _short(value.item() if scalar else value)


def _short(value: Any) -> str:
    if isinstance(value, wire.Opaque | wire.Record) or getattr(value, "shape", ()) != ():
        return _kind(value)
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
