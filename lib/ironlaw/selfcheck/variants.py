"""Numeric problems whose figures differ from student to student.

A template holds the words and the values that each figure may take; a student's id and a
public salt choose among them, the same way on every machine. The right answers are not
here, nor anywhere in the learner's package: the autograder computes them with
`ironlaw.predict`, which is what the student is asked to do as well.

    STUDENT_ID = variants.sign_in("ada")
    variants.show("V1.1", STUDENT_ID)
"""

from __future__ import annotations

import hashlib
import os
import re
import string
import sys
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from types import SimpleNamespace
from typing import Any

from ..errors import InputError, choice, number
from .text import to_markdown, to_plain

SALT = "ironlaw-1"
"""Enters every draw; a class that is given another word gets other figures."""

_UNSAFE = re.compile(r"[\x00-\x1f/\\*?\[\]:<>|\"'+]")
_EMPTY_ID = re.compile(r"^(\s*STUDENT_ID\s*=\s*)(?:\"\"|'')", re.MULTILINE)
_FIELDS = {"id", "topic", "stem", "unit", "tolerance", "points", "minutes", "given"}
_HUB = "JUPYTERHUB_USER"


@dataclass(frozen=True)
class Problem:
    """A template. `given` maps each draw to its possible values; a value is a number or a
    record of figures that belong together. `tolerance` is relative; 0 means exact."""

    id: str
    section: int
    topic: str
    stem: str
    unit: str
    tolerance: float
    points: int
    minutes: int
    given: Mapping[str, tuple[Any, ...]]

    def values(self, picks: Mapping[str, Any]) -> dict[str, Any]:
        """The figures by name, records opened."""
        found: dict[str, Any] = {}
        for name, value in picks.items():
            found |= value if isinstance(value, dict) else {name: value}
        return found

    def combinations(self) -> Iterator[SimpleNamespace]:
        """Every set of figures that some student could get."""
        for picks in product(*self.given.values()):
            yield SimpleNamespace(**self.values(dict(zip(self.given, picks, strict=True))))

    @property
    def precision(self) -> str:
        """The tolerance in words."""
        return "exact" if self.tolerance == 0 else f"to within {100 * self.tolerance:g} %"


@dataclass(frozen=True)
class Variant:
    """One student's figures for a problem, and the words around them."""

    problem: Problem
    student: str
    given: SimpleNamespace

    @property
    def prompt(self) -> str:
        """The problem with this student's figures, unit and tolerance, in the bank's marks."""
        stem = self.problem.stem.format(**vars(self.given))
        return f"{stem} Answer in *{self.problem.unit}*, {self.problem.precision}."


class Shown:
    """A prompt that displays as Markdown in a notebook and prints as plain text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return to_plain(self._text)

    def _repr_markdown_(self) -> str:
        return to_markdown(self._text)


def canonical(student: Any) -> str:
    """An id as it is compared and drawn from: one spelling for what people type alike.

    Case, spaces and full-width forms do not count, and what cannot stand in a file name
    becomes an underscore, as where submissions are collected. '' for anything but text.
    """
    if not isinstance(student, str):
        return ""
    text, before = str.__str__(student)[:400], None
    while text != before:  # one step can open the way for another
        before = text
        text = unicodedata.normalize("NFKC", text).casefold()
        text = _UNSAFE.sub("_", "".join(text.split()))[:100].strip("._")
    return text


def variant(id: str, student: str, salt: str = SALT) -> Variant:
    """The figures that `student` gets for the problem `id`.

    Raises `InputError` for an unknown problem and for an id without a letter or digit.
    """
    problem = load()[choice("id", id, load())]
    name = canonical(student)
    if not name:
        raise InputError("student", student, "a user name or an e-mail address")
    picks = {draw: values[_pick(salt, name, id, draw, len(values))]
             for draw, values in problem.given.items()}
    return Variant(problem, name, SimpleNamespace(**problem.values(picks)))


def sign_in(student: Any = "") -> str:
    """The id that the notebook's figures are drawn from; '' while there is none.

    What the notebook says counts first. Where it says nothing, JupyterHub's user name is
    taken and written into the running cell, so that the notebook carries it along.
    """
    name = canonical(student)
    if name:
        print(f"Signed in as {name}. Your figures below belong to this id.")
        return name
    hub = canonical(os.environ.get(_HUB, ""))
    if hub and not os.environ.get("NBGRADER_EXECUTION"):
        _write_down(hub)
        print(f"Signed in as {hub}, your JupyterHub name. It is written into this cell: save the "
              "notebook.")
        return hub
    print("Write your id between the quotes of STUDENT_ID above, as your course lists you (a user "
          "name or an e-mail address), and run this cell again.")
    return ""


def show(id: str, student: Any, salt: str = SALT) -> Shown:
    """A problem with the figures of `student`, or what to do first.

    A class with a salt of its own gets notebooks that name it here; it keeps last year's
    answers from fitting and is no secret from the class.
    """
    if not canonical(student):
        return Shown("Sign in first: fill in `STUDENT_ID` above and run that cell, then this one.")
    return Shown(variant(id, student, salt).prompt)


def variable(id: str) -> str:
    """The name that holds the answer: `answer_V1_1`."""
    return f"answer_{id.replace('.', '_')}"


def read_back(id: str, found: float) -> str:
    """How a number will be read as the answer to problem `id`, without saying if it is right."""
    problem = load()[choice("id", id, load())]
    return f"Read as {found:.6g} {problem.unit}. {impossible(found)}".rstrip()


def impossible(found: float) -> str:
    """Why `found` cannot answer any problem, whatever its figures; '' when it could.

    Every problem asks for an amount that is greater than zero; the tests hold this for all
    figures that anybody can get.
    """
    if found > 0:
        return ""
    what = "a negative number" if found < 0 else "zero"
    return f"That is impossible: the answer is an amount greater than zero, and this is {what}."


def in_section(section: int) -> list[Problem]:
    """The problems of one chapter, in order."""
    return [p for p in load().values() if p.section == section]


@cache
def load() -> dict[str, Problem]:
    """Every problem by id; `InputError` names file, problem and field of what is wrong."""
    folder = resources.files(__package__).joinpath("problems")
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml"))
    return {p.id: p for name in names
            for p in parse(folder.joinpath(name).read_text("utf-8"), name)}


def parse(text: str, name: str) -> list[Problem]:
    """The problems of one file called `name` (02.toml holds chapter 2), checked."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(name, str(problem), "valid TOML", "Mend the line named here.") from None
    section = data.get("section")
    if type(section) is not int or name != f"{section:02d}.toml":
        raise InputError(f"{name}: section", section, "the number in the file's name")
    return [_problem(raw, section, f"V{section}.{place}", f"{name} problem {place}")
            for place, raw in enumerate(data.get("problem", []), start=1)]


def _problem(raw: dict[str, Any], section: int, id: str, where: str) -> Problem:
    if set(raw) != _FIELDS:
        odd = sorted(set(raw) ^ _FIELDS)
        raise InputError(f"{where}: fields missing or unknown", odd,
                         "none: a problem has exactly " + ", ".join(sorted(_FIELDS)),
                         "Add what is missing and remove what is unknown.")
    if raw["id"] != id:
        raise InputError(f"{where}: id", raw["id"], f"{id!r}, the next in the file")
    for field in ("topic", "stem", "unit"):
        if not isinstance(raw[field], str) or not raw[field].strip():
            raise InputError(f"{where}: {field}", raw[field], "a text, not empty")
    number(f"{where}: tolerance", raw["tolerance"], low=0.0, high=0.05)
    for field in ("points", "minutes"):
        if type(raw[field]) is not int or not 1 <= raw[field] <= 20:
            raise InputError(f"{where}: {field}", raw[field], "a whole number from 1 to 20")
    given = {draw: tuple(values) for draw, values in raw["given"].items()}
    made = Problem(id, section, raw["topic"], " ".join(raw["stem"].split()), raw["unit"],
                   float(raw["tolerance"]), raw["points"], raw["minutes"], given)
    _check_given(made, where)
    return made


def _check_given(problem: Problem, where: str) -> None:
    names: set[str] = set()
    for draw, values in problem.given.items():
        records = [v if isinstance(v, dict) else {draw: v} for v in values]
        if not records or any(set(r) != set(records[0]) for r in records):
            raise InputError(f"{where}: given.{draw}", list(values),
                             "a list, not empty, whose records all have the same fields")
        if names & set(records[0]):
            raise InputError(f"{where}: given.{draw}", sorted(names & set(records[0])),
                             "named differently from every other figure")
        if len({repr(v) for v in values}) < len(values):
            raise InputError(f"{where}: given.{draw}", list(values), "without repetitions")
        names |= set(records[0])
    used = {f for _, f, _, _ in string.Formatter().parse(problem.stem) if f}
    if not used <= names:
        raise InputError(f"{where}: stem", sorted(used - names), "figures from given")


def _pick(salt: str, student: str, id: str, draw: str, size: int) -> int:
    # Lengths keep ("ab", "c") apart from ("a", "bc").
    text = "|".join(f"{len(part)}:{part}" for part in (salt, student, id, draw))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8]) % size


def _write_down(student: str) -> None:
    """Put the id into the running cell, where a notebook runs it."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive else None
    if shell is None:
        return
    raw = shell.history_manager.input_hist_raw if shell.history_manager else []
    if raw and _EMPTY_ID.search(raw[-1]):
        filled = _EMPTY_ID.sub(lambda m: f'{m[1]}"{student}"', raw[-1], count=1)
        shell.set_next_input(filled, replace=True)
