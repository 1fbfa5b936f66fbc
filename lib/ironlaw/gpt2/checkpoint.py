"""Checkpoints that survive a power cut: written aside, flushed, then given their name.

A run keeps its two newest, `step-00000150.pt` and the one before. Whatever moment the
process dies at, at least one of them is whole. Each is a zip archive with a checksum per
tensor, so a damaged file is recognised and the other one is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch

from ..errors import InputError, IronlawError, UnavailableError
from .model import GPT
from .settings import TrainSettings

VERSION = 1
KEEP = 2
SETTINGS = "settings.json"
_NAME = re.compile(r"step-(\d{8})\.pt")


class DamagedCheckpointError(IronlawError):
    """A checkpoint that cannot be read. `path` names it, `why` says what is wrong."""

    def __init__(self, path: Path, why: str, next_step: str = "") -> None:
        self.path, self.why = path, why
        super().__init__(f"The checkpoint {path} is damaged: {why}. {next_step}".rstrip())


def saved(folder: Path) -> list[Path]:
    """The checkpoints in `folder`, newest first."""
    found = [file for file in folder.glob("step-*.pt") if _NAME.fullmatch(file.name)]
    return sorted(found, key=lambda file: file.name, reverse=True)


def step_of(path: Path) -> int:
    """The step that a checkpoint's name tells."""
    return int(path.stem.removeprefix("step-"))


def save(folder: Path, step: int, state: dict[str, Any],
         regular: Callable[[int], bool] | None = None) -> Path:
    """Write `state` as the checkpoint of `step`; older ones go once this one is whole.

    The two newest stay. With `regular` so do the two newest at steps for which it is true:
    a run can go back to those however often it was interrupted in between. Raises
    `UnavailableError` when it cannot be written (a full disk, a read-only folder); the
    checkpoints before it stay.
    """
    target = folder / f"step-{step:08d}.pt"
    _write(target, lambda handle: torch.save({"version": VERSION, **state}, handle))
    _tidy(folder, target, regular)
    return target


def save_settings(folder: Path, settings: TrainSettings) -> None:
    """Note what the run in `folder` is, before its first checkpoint exists."""
    text = json.dumps(settings.to_json(), indent=1).encode()
    _write(folder / SETTINGS, lambda handle: handle.write(text))


def settings_of(folder: Path) -> TrainSettings | None:
    """What the run in `folder` is, or None when there is no run in it."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return TrainSettings.from_json(json.loads((folder / SETTINGS).read_text("utf-8")))
    found = newest_whole(folder)
    return None if found is None else TrainSettings.from_json(found[1]["settings"])


def load(path: Path) -> dict[str, Any]:
    """The state in `path`, on the CPU. Raises `DamagedCheckpointError` when it is not whole.

    Only tensors and plain values are read: a checkpoint from elsewhere can run no code.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise DamagedCheckpointError(path, f"the checksum of {broken} does not fit")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, zipfile.BadZipFile, RuntimeError, ValueError, EOFError) as problem:
        raise DamagedCheckpointError(path, str(problem).splitlines()[0]) from None
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise DamagedCheckpointError(path, "it is no checkpoint of this version of the course")
    return state


def newest_whole(folder: Path) -> tuple[Path, dict[str, Any], list[DamagedCheckpointError]] | None:
    """The newest checkpoint that can be read, and the damaged ones that were passed over.

    None when `folder` holds no checkpoint at all; `DamagedCheckpointError` when it holds some
    and none can be read.
    """
    damaged: list[DamagedCheckpointError] = []
    for path in saved(folder):
        try:
            return path, load(path), damaged
        except DamagedCheckpointError as problem:
            damaged.append(problem)
    if damaged:
        newest = damaged[0]
        raise DamagedCheckpointError(
            newest.path, newest.why, "No older one here can be read. Bring one back from a copy, "
            "or start a new run with another --out.")
    return None


def before(folder: Path, step: int, distance: int,
           regular: Callable[[int], bool]) -> dict[str, Any]:
    """The newest whole checkpoint at a `regular` step at least `distance` before `step`.

    The oldest one before `step` where none lies so far back. `InputError` when there is none.
    """
    earlier = [path for path in saved(folder) if step_of(path) < step and regular(step_of(path))]
    far = [path for path in earlier if step_of(path) <= step - distance]
    damaged: DamagedCheckpointError | None = None
    for path in far or earlier[::-1]:
        try:
            return load(path)
        except DamagedCheckpointError as problem:
            damaged = problem
    if damaged is not None:
        raise damaged
    raise InputError("out", str(folder), f"a folder with a checkpoint from before step {step}",
                     "Resume the run with the checkpoints that it wrote, or start it anew.")


def remove_after(folder: Path, kept: Path) -> None:
    """Remove the checkpoints of later steps than `kept`, from which the run has gone back."""
    for path in saved(folder):
        if step_of(path) > step_of(kept):
            path.unlink(missing_ok=True)


def load_model(path: str | Path) -> GPT:
    """The model of a checkpoint (or of the newest in a run's folder), ready for `sample`."""
    place = Path(path)
    if place.is_dir():
        found = newest_whole(place)
        if found is None:
            raise InputError("path", str(place), "a folder with a checkpoint step-*.pt")
        state = found[1]
    else:
        state = load(place)
    settings = TrainSettings.from_json(state["settings"])
    model = GPT(settings.run.shape, attention=settings.run.attention,
                pad_vocab=settings.pad_vocab)
    model.load_state_dict(state["model"])
    return model.eval()


def _write(target: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Fill a file beside `target`, flush it to the disk, and only then give it the name."""
    name = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".writing-", suffix=".tmp")
        with os.fdopen(descriptor, "wb") as handle:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(name, target)
        _flush_folder(target.parent)
    except BaseException as problem:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
        # torch.save reports a failed write as a RuntimeError of its own.
        if isinstance(problem, OSError | RuntimeError):
            why = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise UnavailableError(
                f"Room for {target}", f"it could not be written ({why}).",
                "Free some space or name another folder with --out. What was saved before "
                "is still there.") from problem
        raise


def _tidy(folder: Path, newest: Path, regular: Callable[[int], bool] | None) -> None:
    """Remove what is superseded: older checkpoints, and files that a killed writer left."""
    found = saved(folder)
    keep = {newest, *found[:KEEP]}
    if regular is not None:
        keep.update([file for file in found if regular(step_of(file))][:KEEP])
    for file in [*found, *folder.glob(".writing-*.tmp")]:
        if file not in keep:
            with contextlib.suppress(OSError):
                file.unlink()


def _flush_folder(folder: Path) -> None:
    """Make the new name itself durable, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
