"""Measurements that come with the course, for learners whose device cannot make them.

Each folder holds one device, recorded by `ironlaw record`: an index and one JSON file per
instrument. Reading them needs no PyTorch.
"""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable

from .. import results
from ..errors import choice
from ..results import Result
from ..results_systems import RecordingIndex

INDEX = "index.json"


def names() -> list[str]:
    """The recordings that come with the course."""
    return sorted(entry.name for entry in _root().iterdir()
                  if entry.is_dir() and entry.joinpath(INDEX).is_file())


def index(name: str) -> RecordingIndex:
    """What the recording called `name` holds, or `InputError` listing those there are."""
    folder = _root().joinpath(choice("recording", name, names()))
    return RecordingIndex.from_json(json.loads(folder.joinpath(INDEX).read_text("utf-8")))


def load(name: str, instrument: str) -> Result:
    """The result of `instrument` in the recording `name`, or `InputError` listing what is there."""
    held = index(name).instruments
    entry = held[choice("instrument", instrument, held)]
    return results.load(_root().joinpath(name, entry.file).read_text("utf-8"))


def _root() -> Traversable:
    return resources.files(__name__)
