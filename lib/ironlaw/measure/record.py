"""A recording: every instrument on this device, one after the other, into small JSON files.

Instruments run in order of value, each within its share of the time that is left, so that
a short recording holds the important half rather than half of everything. What fails or
finds no time is named in the index with the reason. A second run keeps what is fresh and
makes the rest. Files hold no name of a host, a user or a folder.
"""

from __future__ import annotations

import datetime
import getpass
import hashlib
import json
import math
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import RunConfig
from ..errors import InputError, IronlawError, choice, number
from ..results import Result
from ..results_systems import RecordedFile, RecordingIndex
from ..units import MB, duration
from . import calibration, host, timing
from .device import Device, find, obstacle
from .origin import origin

INDEX = "index.json"
LARGEST = MB
FRESH_DAYS = 30
_DIGITS = 7
_PROSE = ("reasons", "notes", "evidence")
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+@-]+){2,}/?|\b[A-Za-z]:\\[^\s\"',;]+")


@dataclass(frozen=True)
class Instrument:
    """One file of a recording: `make(device, seconds)`; `weight` is its share of the time.

    `least` is how many seconds it needs to be worth starting.
    """

    name: str
    weight: float
    least: float
    make: Callable[[Device, float], Result]


def record(
    out: Path,
    *,
    minutes: float = 8.0,
    only: Sequence[str] | None = None,
    again: bool = False,
    device: str | Device | None = None,
    say: Callable[[str], None] = lambda line: None,
    instruments: Sequence[Instrument] | None = None,
) -> RecordingIndex:
    """Record this device into `out`/NAME within about `minutes`; returns the index written.

    `only` names instruments (default: all). What is there and fresh (same device, threads
    and versions, at most 30 days old, untouched) is kept unless `again`; what was made
    beside other programs is not fresh once the machine is quiet. Interrupted or killed, it
    leaves a whole index of what was done. Raises `InputError` for a name that is unknown.
    """
    here = find(device)
    number("minutes", minutes, low=0.05, high=600.0)
    folder = Path(out) / recording_name(here)
    todo = list(instruments if instruments is not None else available(here, folder))
    chosen = [choice("only", name, [one.name for one in todo]) for name in only or []]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError("out", str(out), "a folder that can be made", f"{problem}.") from None
    share = timing.processor_share() if here.type == "cpu" else None
    book = _Book(folder, here, host.circumstances(here.threads, share))
    wanted = [one for one in todo if not chosen or one.name in chosen]
    left = [one for one in wanted if again or not book.is_fresh(one.name)]
    for one in wanted:
        if one not in left:
            say(f"{one.name}: fresh, kept")
    ends = time.perf_counter() + 60.0 * minutes
    try:
        for place, one in enumerate(left):
            remaining = ends - time.perf_counter()
            if remaining < one.least:
                book.missing(one.name, f"No time was left: it needs about {one.least:g} s.")
                say(f"{one.name}: no time left")
                continue
            seconds = max(one.least, remaining * one.weight / sum(o.weight for o in left[place:]))
            say(f"{one.name}: up to about {duration(seconds)}, {duration(remaining)} left")
            _one(book, one, here, seconds, say)
    finally:
        book.write()
    return book.index()


def _one(book: _Book, one: Instrument, here: Device, seconds: float,
         say: Callable[[str], None]) -> None:
    began = time.perf_counter()
    try:
        result = one.make(here, seconds)
    except Exception as problem:  # one instrument's failure must not cost the others
        text = str(problem).strip().split("\n")[0]
        why = text if isinstance(problem, IronlawError) else f"{type(problem).__name__}: {text}"
        book.missing(one.name, why)
        say(f"{one.name}: not recorded. {why}")
        return
    took = time.perf_counter() - began
    why = book.keep(one.name, result, took)
    say(f"{one.name}: {why or 'done in ' + duration(took)}")


def recording_name(here: Device) -> str:
    """The folder's name: the kind of device, and nothing about whose it is."""
    if here.type == "cpu":
        return f"cpu_{here.threads}core"
    known = here.catalogue_name or here.name
    return re.sub(r"[^a-z0-9]+", "_", known.lower()).strip("_")


class _Book:
    """The folder and its index; every entry is on disk before the next one starts."""

    def __init__(self, folder: Path, here: Device, notes: dict[str, str]) -> None:
        self.folder, self.here = folder, here
        self.quiet = "busy" not in notes
        self.notes = {name: said for name, said in notes.items() if name != "busy"}
        self.busy: set[str] = set()
        self.versions = calibration.versions(here)
        self.entries: dict[str, RecordedFile] = {}
        self.reasons: dict[str, str] = {}
        self._before: RecordingIndex | None = None
        try:
            text = (folder / INDEX).read_text(encoding="utf-8")
            self._before = RecordingIndex.from_json(text)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return  # none yet, or one that cannot be read: everything is measured anew
        if self._same_device(self._before):
            self.entries = {name: entry for name, entry in self._before.instruments.items()
                            if self._whole(entry)}
            self.reasons = dict(self._before.reasons)
            self.busy = {name for name, entry in self.entries.items()
                         if _says_busy((folder / entry.file).read_text(encoding="utf-8"))}

    def _same_device(self, other: RecordingIndex) -> bool:
        here = self.here
        return (other.device, other.device_type, other.threads) == (
            here.name, here.type, here.threads)

    def _whole(self, entry: RecordedFile) -> bool:
        try:
            data = (self.folder / entry.file).read_bytes()
        except OSError:
            return False
        return hashlib.sha256(data).hexdigest() == entry.sha256

    def is_fresh(self, name: str) -> bool:
        """Whether the entry `name` was made lately, by this software, as quietly as can be now."""
        entry = self.entries.get(name)
        if entry is None or entry.versions != self.versions or (
                self.quiet and name in self.busy):
            return False
        age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(
            entry.measured_on)
        return age <= datetime.timedelta(days=FRESH_DAYS)

    def missing(self, name: str, why: str) -> None:
        """Note why there is no new entry; an older one stays."""
        self.reasons[name] = anonymous(why)
        self.write()

    def keep(self, name: str, result: Result, seconds: float) -> str:
        """Write the file and its entry; returns "" or why it was not written."""
        data = (json.dumps(compact(result.to_json()), separators=(",", ":")) + "\n").encode()
        if len(data) > LARGEST:
            why = f"Its {len(data)} bytes are more than a recording's file may have."
            self.missing(name, why)
            return why
        file = f"{name}.json"
        _replace(self.folder / file, data)
        self.reasons.pop(name, None)
        self.busy.discard(name)
        if "busy" in result.notes:
            self.busy.add(name)
        self.entries[name] = RecordedFile(
            file=file, kind=result.kind, seconds=round(seconds, 1),
            sha256=hashlib.sha256(data).hexdigest(), measured_on=_now(), versions=self.versions)
        self.write()
        return ""

    def index(self) -> RecordingIndex:
        """The index as it stands."""
        about = origin(self.here)
        return RecordingIndex(
            **about, name=self.folder.name, memory_bytes=self.here.memory_bytes,
            instruments=self.entries, reasons=self.reasons, notes={**self.notes, **self._noise()})

    def _noise(self) -> dict[str, str]:
        noisy = [name for name in self.entries if name in self.busy]
        if not noisy:
            return {}
        return {"busy": f"Other programs were running beside {', '.join(noisy)}: their times are "
                        "long and uneven. Record again when the machine is quiet."}

    def write(self) -> None:
        """Put the index on disk, whole or not at all."""
        text = json.dumps(compact(self.index().to_json()), indent=1) + "\n"
        _replace(self.folder / INDEX, text.encode())


def _says_busy(text: str) -> bool:
    """Whether a recorded result was made beside other programs, by its own notes."""
    notes = json.loads(text).get("notes")
    return isinstance(notes, dict) and "busy" in notes


def compact(value: Any, *, prose: bool = False) -> Any:
    """`value` with fractions at 7 digits and no folder named in any text.

    Whole numbers stay exact: they count FLOP and bytes. In `prose` (reasons, notes and
    evidence) the host's and the user's names are left out, too; elsewhere text is ours, and
    a user called "step" must not change it.
    """
    if isinstance(value, dict):
        return {k: compact(v, prose=prose or k in _PROSE) for k, v in value.items()}
    if isinstance(value, list):
        return [compact(v, prose=prose) for v in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError("result", value, "made of finite numbers", "JSON has no others.")
        return value if value == int(value) else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, str):
        return anonymous(value) if prose else _without_folders(value)
    return value


def anonymous(text: str) -> str:
    """`text` without this machine's name, this user's name, and the folders of either."""
    text = _without_folders(text)
    for name, instead in ((platform.node(), "[host]"), (_user(), "[user]")):
        if len(name) > 2 and name not in ("root", "localhost"):
            text = re.sub(rf"\b{re.escape(name)}\b", instead, text)
    return text


def _without_folders(text: str) -> str:
    return _PATH.sub(
        lambda found: "[" + (Path(found[0].replace("\\", "/")).name or "path") + "]", text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number without a name
        return ""


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _replace(file: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# --- what is recorded ---------------------------------------------------------------------

def available(here: Device, folder: Path) -> list[Instrument]:
    """The instruments for `here`, the most valuable first, with sizes that suit it.

    A step's MFU takes the peak that `folder` holds, where it is not measured anew. Each
    imports its module when it runs. On an accelerator models are real ones; a CPU gets
    nano, whose step takes a fraction of a second, in the forms that `ironlaw train` chooses
    there.
    """
    from . import record_plan

    base = RunConfig(batch=4, seq=128, optimizer="adamw-fused")
    if here.type == "cuda":
        half = "amp-fp16" if obstacle(here.torch_device, "bf16") else "amp-bf16"
        base = RunConfig(model="gpt2-124m", batch=16, precision=half, optimizer="adamw-fused")
    elif here.type == "cpu":
        base = base.replace(attention="materialised", loss_rows=512)
    return record_plan.instruments(here, base, folder)
