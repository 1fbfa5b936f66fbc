"""Everything that was handed in, each notebook with what its name says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection as Names
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ironlaw.errors import InputError
from nbformat import NotebookNode

from ..build.stamp import UNKNOWN, Stamp
from . import files, names, times
from .archives import Found, is_notebook, stem
from .names import Name
from .notebooks import labels, read_stamped
from .roster import Enrolled, Roster
from .spelling import key, shown

_KINDS = "a folder, a .zip archive or an .ipynb file"
# What lies beside `submitted/` in nbgrader's course folder, and beside `inbound/` in its exchange.
_BESIDE = {"submitted": {"source", "release", "autograded", "feedback", "gradebook.db",
                         "nbgrader_config.py"},
           "inbound": {"outbound", "feedback"}}


@dataclass(frozen=True)
class Candidate:
    """One notebook, or what stands where one should be, and then `problem` says why.

    `when` is the time that file or archive records; `enrolled` whom the class list knows by
    the name. Equal notebooks have equal `digest`.
    """

    parts: tuple[str, ...]
    name: Name
    notebook: NotebookNode | None = None
    stamp: Stamp = UNKNOWN
    problem: str = ""
    when: datetime | None = None
    digest: str = ""
    enrolled: Enrolled | None = None
    by_name: bool = False

    @property
    def labels(self) -> set[str]:
        """The labels that the notebook carries."""
        return labels(self.notebook) if self.notebook is not None else set()

    @property
    def shown(self) -> str:
        """The path, fit for a table."""
        return shown("/".join(self.parts), 300)


@dataclass(frozen=True)
class Collection:
    """What was found, in the order of the names, and what an instructor should know of it."""

    path: Path
    candidates: tuple[Candidate, ...]
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Item:
    """A thing found, without the bytes: a class's outputs would not fit into memory."""

    parts: tuple[str, ...]
    notebook: NotebookNode | None = None
    stamp: Stamp = UNKNOWN
    problem: str = ""
    when: datetime | None = None
    digest: str = ""
    folder: bool = False
    time: str = ""


def collect(path: Path, labs: Names[str] = (), roster: Roster | None = None) -> Collection:
    """Everything under `path`: a folder, a platform's archive, or one notebook.

    `labs` are the names of the course's labs, which say nothing about a student.
    """
    if not path.exists():
        raise InputError("path", str(path), _KINDS,
                         "Nothing has this name: look for a slip in the path.")
    if not path.is_dir() and path.suffix.lower() != ".zip" and not is_notebook(path.name):
        raise InputError("path", str(path), _KINDS)
    items = [_item(found) for found in files.walk(path)]
    broken = next((item for item in items if not item.parts), None)
    if broken is not None:
        raise InputError("path", str(path), "an archive that can be opened",
                         f"Here {broken.problem}. Unpack it yourself and name the folder.")
    items, said = _unwrapped(items, path, labs, roster)
    found = list(_candidates(items, labs, roster))
    if not path.is_dir() and found and not any(c.name.student for c in found) \
            and not names.says_nothing(stem(path.name), labs):
        whose = names.without_copy(stem(path.name))[0]
        found = [_known(replace(c, name=replace(c.name, student=whose, ids=(whose,))), roster)
                 for c in found]
    if not found:
        raise InputError("path", str(path), "where submissions lie, as files or folders",
                         "It holds no .ipynb file and no student's folder.")
    left = [item.parts[0] for item in items if _left_alone(item) and len(item.parts) == 1
            and item.parts not in {c.parts for c in found}]
    if left:
        said.append(f"left alone, no notebooks: {', '.join(map(shown, left[:20]))}"
                    + (f" and {len(left) - 20} more" if len(left) > 20 else ""))
    return Collection(path, tuple(found), tuple(said))


def _item(found: Found) -> _Item:
    """A notebook is read at once and its bytes are let go."""
    if found.problem or found.data is None:
        return _Item(found.parts, problem=found.problem, when=found.when, folder=found.folder)
    if found.is_time:
        return _Item(found.parts, time=found.data.decode("utf-8", "replace"))
    digest = hashlib.sha256(found.data).hexdigest()
    try:
        notebook, stamp = read_stamped(found.data)
    except ValueError as problem:
        return _Item(found.parts, problem=str(problem), when=found.when, digest=digest)
    return _Item(found.parts, notebook, stamp, "", found.when, digest)


def _unwrapped(items: list[_Item], path: Path, labs: Names[str], roster: Roster | None
               ) -> tuple[list[_Item], list[str]]:
    """The items without folders that are nobody's, such as an archive's or a group's.

    What lies deeper is a student's to name, and no student may pass for another by it. So a
    level of folders goes for all of the class or for none of it.
    """
    said: list[str] = []
    while True:
        tops = {item.parts[0] for item in items}
        for name, beside in _BESIDE.items():
            if name in tops and tops & beside:
                said.append(f"only {name}/ was read; beside it lie nbgrader's own folders")
                items, tops = [i for i in items if i.parts[0] == name], {name}
        inside: dict[str, set[str]] = {top: set() for top in tops}
        for item in items:
            if len(item.parts) > 1 and not item.time:
                inside[item.parts[0]].add(item.parts[1])
        flat = any(len(i.parts) == 1 and not i.folder for i in items)
        if not tops or flat or not all(inside.values()) or any(map(names.of_platform, tops)):
            return items, said
        cover = len(tops) == 1 and _is_a_cover(min(tops), path, labs, roster)
        if not cover and not all(_is_a_group(top, within, roster)
                                 for top, within in inside.items()):
            return items, said
        items = [replace(i, parts=i.parts[1:]) for i in items if len(i.parts) > 1]


def _is_a_cover(top: str, path: Path, labs: Names[str], roster: Roster | None) -> bool:
    """Whether the one folder that holds everything is called as nobody is, or as its archive."""
    if roster is not None and _listed(top, roster):
        return False
    return names.says_nothing(top, labs) or key(top) == key(path.stem)


def _is_a_group(top: str, inside: set[str], roster: Roster | None) -> bool:
    """Whether a folder is nobody's and holds what a platform named, or people of the list."""
    if roster is not None and _listed(top, roster):
        return False
    return (any(map(names.of_platform, inside))
            or (roster is not None and any(_listed(stem(name), roster) for name in inside)))


def _listed(name: str, roster: Roster) -> bool:
    return bool(roster.by_id([name]) or roster.by_name(name))


def _candidates(items: list[_Item], labs: Names[str],
                roster: Roster | None) -> Iterator[Candidate]:
    stamped = {item.parts[:-1]: item.time for item in items if item.time}
    found = []
    others: dict[tuple[str, ...], list[_Item]] = {}
    for item in items:
        if item.time:
            continue
        name = _named(item.parts, labs, roster, stamped)
        place = Candidate(item.parts, name, item.notebook, item.stamp, item.problem, item.when,
                          item.digest)
        if item.notebook is not None or item.problem:
            found.append(_known(place, roster))
        else:
            others.setdefault(_whole(item, name), []).append(item)
    have = {_whole(c, c.name) for c in found}
    for whole, inside in others.items():
        if whole in have:
            continue
        named = sorted((i for i in inside if not i.folder), key=lambda item: item.parts)
        name = _named((named or inside)[0].parts, labs, roster, stamped)
        where = (named or inside)[0].parts if name.platform else whole
        candidate = _known(Candidate(where, name, problem=_no_notebook(named, name)), roster)
        on_top = len(named) == 1 and len(named[0].parts) == 1
        if not on_top or name.platform or candidate.enrolled:
            found.append(candidate)
    yield from sorted(found, key=lambda candidate: candidate.parts)


def _whole(item: _Item | Candidate, name: Name) -> tuple[str, ...]:
    """What is one student's: the platform's name for it, or the outermost folder or file."""
    if name.platform:
        return (f"{name.platform}:{name.student}",)
    return item.parts[:1]


def _no_notebook(others: list[_Item], name: Name) -> str:
    listed = ", ".join(shown(item.parts[-1]) for item in others[:5])
    if name.typed:
        return f"no notebook was handed in, but what was typed into a form ({listed})"
    return f"no notebook was handed in, but {listed}" if others else "the folder holds no notebook"


def _left_alone(item: _Item) -> bool:
    return item.notebook is None and not (item.problem or item.folder or item.time)


def _named(parts: tuple[str, ...], labs: Names[str], roster: Roster | None,
           stamped: dict[tuple[str, ...], str]) -> Name:
    name = names.of_platform(parts[0]) or names.of_path(parts, labs)
    if roster is not None and len(parts) == 1 and not name.platform:
        name = _in_the_name(parts[0], name, labs, roster)
    # nbgrader's tree, STUDENT/LAB/timestamp.txt: elsewhere it is a student's own file.
    written = stamped.get(parts[:2], "") if not name.platform else ""
    if written and name.submitted is None:
        name = replace(name, submitted=times.of_nbgrader(written))
    return name


def _in_the_name(file: str, name: Name, labs: Names[str], roster: Roster) -> Name:
    """With a class list, an id counts beside words that say nothing, such as the lab's."""
    whole = names.without_copy(stem(file))[0]
    if roster.by_id([stem(file), whole]):
        return replace(name, student=name.student or whole)
    words = whole.replace("-", "_").replace(" ", "_").split("_")
    found = {known.id for a in range(len(words)) for b in range(a + 1, len(words) + 1)
             if (known := roster.by_id(["_".join(words[a:b])]))
             and names.says_nothing("_".join([*words[:a], *words[b:]]), labs)}
    if len(found) == 1:
        (id_,) = found
        return replace(name, student=id_, ids=(id_,),
                       said=f"{id_!r} was found in the file's name, {file!r}")
    return name


def _known(candidate: Candidate, roster: Roster | None) -> Candidate:
    """The candidate with the person whom the class list knows by its name."""
    if roster is None:
        return candidate
    name = candidate.name
    enrolled = roster.by_platform(name.ids) if name.platform else None
    enrolled = enrolled or roster.by_id(_ids(name))
    if enrolled is not None:
        return replace(candidate, enrolled=enrolled)
    by_name = roster.by_name(candidate.name.person)
    return replace(candidate, enrolled=by_name, by_name=by_name is not None)


def _ids(name: Name) -> Iterable[str]:
    """What a general id may be. A platform's own number is looked for among its numbers alone."""
    if name.platform in ("Canvas", "Moodle"):
        return (name.student,)
    return (*name.ids, name.student) if name.student else name.ids
