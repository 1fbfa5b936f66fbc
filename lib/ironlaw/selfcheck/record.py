"""What the learner has answered so far, kept in the workspace at once.

One entry per item: the last answer, its verdict, the number of tries, and whether the very
first try was right (the figure that says what was understood before any feedback).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from .. import workspace
from .checks import Verdict
from .kinds import Item, Written
from .loader import load

SECTION = "answers"


@dataclass(frozen=True)
class ChapterProgress:
    """How far one chapter's self-check has come; `points` counts what was earned."""

    section: int
    answered: int
    right: int
    total: int
    points: float
    out_of: int


def entry(item: Item) -> dict[str, Any]:
    """The stored entry of `item`, empty when it was never answered."""
    stored = workspace.get(SECTION).get(item.id)
    return stored if isinstance(stored, dict) else {}


def keep(item: Item, answer: Any, verdict: Verdict, **more: Any) -> dict[str, Any]:
    """Store an answer and its verdict; returns the entry. `more` is kept beside it."""
    before = entry(item)
    tries = tries_in(before) + 1
    after = {
        **before, "answer": answer, "state": verdict.state, "points_share": verdict.points_share,
        "tries": tries, "time": time.time(),
        "first_right": before.get("first_right", verdict.correct), **more,
    }
    workspace.put(SECTION, item.id, after)
    return after


def amend(item: Item, **more: Any) -> dict[str, Any]:
    """Change parts of an entry without counting a try (a draft, marks, a reason)."""
    after = {**entry(item), **more}
    workspace.put(SECTION, item.id, after)
    return after


def mark(item: Written, ticked: list[bool]) -> float:
    """Store the learner's own marks, one per rubric line; returns the share of points."""
    earned = sum(line.points for line, yes in zip(item.rubric, ticked, strict=True) if yes)
    share = earned / item.points
    amend(item, marks=[bool(t) for t in ticked], points_share=share, state="marked")
    return share


def state(item: Item) -> str:
    """`not answered`, `wrong`, `partly right`, `right`, `to be marked` or `marked`."""
    return str(entry(item).get("state", "not answered"))


def chapters() -> list[ChapterProgress]:
    """One row per section that the bank holds."""
    stored = workspace.get(SECTION)
    rows = []
    for section in sorted({item.section for item in load().values()}):
        items = [i for i in load().values() if i.section == section]
        entries = [(i, e) for i in items if isinstance(e := stored.get(i.id), dict)
                   and e.get("state") is not None]
        rows.append(ChapterProgress(
            section=section, total=len(items), answered=len(entries),
            right=sum(_complete(e) for _, e in entries),
            points=sum(i.points * share_in(e) for i, e in entries),
            out_of=sum(i.points for i in items)))
    return rows


def share_in(stored: dict[str, Any]) -> float:
    """The share of points in an entry; 0 where a restored file holds no such number."""
    share = stored.get("points_share")
    return float(share) if isinstance(share, int | float) and 0 <= share <= 1 else 0.0


def tries_in(stored: dict[str, Any]) -> int:
    """The number of tries in an entry; 0 where a restored file holds no such number."""
    tries = stored.get("tries")
    return tries if isinstance(tries, int) and tries > 0 else 0


def _complete(stored: dict[str, Any]) -> bool:
    return share_in(stored) >= 1.0
