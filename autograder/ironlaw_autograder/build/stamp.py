"""Which version of a lab a notebook is: a stamp in its metadata, and what it can be used for.

Every notebook that is handed out carries `ironlaw` in its metadata: the course's version, the
lab's name and a short hash of the cells as handed out; a class with a salt of its own has that
too. The stamp depends on the text alone, so that a rebuild gives the same bytes. It tells an
instructor which version a student worked on. It is no signature: a student can edit it, so it
decides no points.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ironlaw
from ironlaw.selfcheck import variants

KEY = "ironlaw"
_DIGITS = 12
_LONGEST = 100


@dataclass(frozen=True)
class Stamp:
    """What a notebook says about its version; an empty field says nothing."""

    course: str = ""
    lab: str = ""
    hash: str = ""
    salt: str = ""

    def __bool__(self) -> bool:
        return bool(self.hash)

    def __str__(self) -> str:
        return f"{self.course} ({self.hash})" if self else "unknown"

    def to_metadata(self) -> dict[str, str]:
        """The entry under `KEY`; the course's own salt goes without saying."""
        entry = {"course": self.course, "hash": self.hash, "lab": self.lab}
        return entry | ({"salt": self.salt} if self.salt not in ("", variants.SALT) else {})


UNKNOWN = Stamp()


def of(name: str, cells: list[Any], salt: str = "") -> Stamp:
    """The stamp of the lab `name` handed out with `cells` (notebook cells or plain JSON)."""
    kept = [{"id": cell.get("id"), "type": cell["cell_type"], "source": _text(cell["source"]),
             "label": dict(cell["metadata"].get("nbgrader", {}))} for cell in cells]
    content = json.dumps([name, kept], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(content.encode("utf-8")).hexdigest()[:_DIGITS]
    return Stamp(ironlaw.__version__, name, digest, salt)


def read(metadata: Any) -> Stamp:
    """The stamp in a notebook's metadata, whatever a student made of it."""
    found = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    if not isinstance(found, Mapping):
        return Stamp()
    kept = {name: _printable(found.get(name)) for name in ("course", "lab", "hash", "salt")}
    return Stamp(**kept)


def _printable(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(c for c in text[:_LONGEST] if c.isprintable())


def _text(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)
