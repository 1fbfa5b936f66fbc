"""Two pictures for the instructor, as SVG to stand inside a page: all totals, and each question.

Each comes with its numbers in words, for whoever does not see it. Colours are Okabe and Ito's,
which differ for colour-blind readers too; hatching tells what is not final without any colour.
"""

from __future__ import annotations

import functools
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec

import numpy as np

from .cells import number
from .items import Item
from .marks import Book

BLUE, ORANGE, GREY, LINE = "#0072B2", "#E69F00", "#D9D9D9", "#222222"
_WAITING = {"facecolor": "white", "edgecolor": "#555555", "hatch": "////", "linewidth": 0.6}
_STYLE: dict[Any, Any] = {"font.size": 9.0, "font.family": "sans-serif", "axes.spines.top": False,
          "axes.spines.right": False, "axes.axisbelow": True, "hatch.linewidth": 0.6,
          "text.parse_math": False, "svg.fonttype": "path", "svg.hashsalt": "ironlaw"}

P = ParamSpec("P")


def _styled(draw: Callable[P, str]) -> Callable[P, str]:
    """`draw` with this module's look, and matplotlib loaded only when it is called."""
    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> str:
        from matplotlib import rc_context

        with rc_context(_STYLE):
            return draw(*args, **kwargs)
    return drawn


@dataclass(frozen=True)
class Distribution:
    """Totals of everybody who was judged, in points: settled ones, and those so far.

    The quartiles are NumPy's: linear interpolation between neighbours.
    """

    maximum: float
    settled: tuple[float, ...]
    so_far: tuple[float, ...]

    @property
    def quartiles(self) -> tuple[float, float, float] | None:
        """Lower quartile, median and upper quartile of all totals, or None without any."""
        totals = self.settled + self.so_far
        if not totals:
            return None
        low, middle, high = (float(q) for q in np.percentile(totals, (25, 50, 75)))
        return low, middle, high

    @property
    def mean(self) -> float | None:
        """Mean of all totals, or None without any."""
        totals = self.settled + self.so_far
        return float(np.mean(totals)) if totals else None

    def words(self) -> str:
        """The distribution in words and numbers."""
        quartiles = self.quartiles
        if quartiles is None:
            return "No notebook was judged, so there are no totals."
        totals = self.settled + self.so_far
        low, middle, high = map(number, quartiles)
        said = (f"{_people(len(totals))}, from {number(min(totals))} to {number(max(totals))} of "
                f"{number(self.maximum)} points; median {middle}, quartiles {low} and {high}.")
        if self.so_far:
            said += (f" {len(self.so_far)} of them still "
                     f"{'waits' if len(self.so_far) == 1 else 'wait'} for a person: what they "
                     "have so far is hatched.")
        return said

    def bars(self) -> tuple[float, list[float], list[int], list[int]]:
        """A bar's width, the bars' middles, and how many settled totals and totals so far in each.

        A total counts for the bar whose middle is nearest; one half-way for the higher.
        """
        width = _width(self.maximum)
        highest = max((self.maximum, *self.settled, *self.so_far))
        middles = [width * k for k in range(_nearest(highest, width) + 1)]
        counts = [[0] * len(middles) for _ in range(2)]
        for place, totals in enumerate((self.settled, self.so_far)):
            for total in totals:
                counts[place][_nearest(total, width)] += 1
        return width, middles, counts[0], counts[1]


def distribution(book: Book) -> Distribution:
    """The totals of `book`, late penalties taken off, of all whose notebook was judged."""
    judged = [student for student in book.students if student.judged]
    return Distribution(book.maximum, tuple(s.total for s in judged if s.final),
                        tuple(s.total for s in judged if not s.final))


@_styled
def histogram(found: Distribution) -> str:
    """The totals as an SVG picture."""
    figure = _figure(3.2)
    axes = figure.subplots()
    width, middles, settled, so_far = found.bars()
    axes.bar(middles, settled, 0.9 * width, color=BLUE, label="final")
    waiting = [place for place, count in enumerate(so_far) if count]
    if waiting:
        axes.bar([middles[w] for w in waiting], [so_far[w] for w in waiting], 0.9 * width,
                 bottom=[settled[w] for w in waiting], label="waits for a person: so far",
                 **_WAITING)
    top = max((a + b for a, b in zip(settled, so_far, strict=True)), default=0)
    axes.set_ylim(0, 1.05 * max(top, 1))
    axes.yaxis.get_major_locator().set_params(integer=True)
    if found.quartiles is not None:
        low, middle, high = found.quartiles
        axes.axvline(middle, color=LINE, linewidth=1.6, label=f"median {number(middle)}")
        axes.axvline(low, color=LINE, linewidth=1.0, linestyle="--",
                     label=f"quartiles {number(low)} and {number(high)}")
        axes.axvline(high, color=LINE, linewidth=1.0, linestyle="--")
    axes.set_xlim(-0.6 * width, middles[-1] + 0.6 * width)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(f"total of {number(found.maximum)} points, to the nearest {number(width)}")
    axes.set_ylabel("students")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=8)
    return _svg(figure, "totals")


@_styled
def shares(items: Sequence[Item]) -> str:
    """Each question's points as an SVG picture: earned, lost, left empty, waiting."""
    figure = _figure(0.9 + 0.28 * max(1, len(items)))
    axes = figure.subplots()
    found = [parts(item) for item in items]
    rows = np.arange(len(items))
    start = np.zeros(len(items))
    for name, look in _LOOKS.items():
        values = np.array([part[name] for part in found])
        if values.any():
            axes.barh(rows, values, left=start, height=0.72, label=name, **look)
        start = start + values
    axes.set_yticks(rows, [_shortened(item.question.title) for item in items])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("share of the question's points, over all who were judged")
    if start.any():
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False,
                    fontsize=8)
    return _svg(figure, "questions")


def shares_in_words(items: Sequence[Item]) -> str:
    """What the picture of the questions shows, in words and numbers."""
    said = []
    for item in items:
        words = ", ".join(f"{100 * value:.0f} % {name}" for name, value in parts(item).items()
                          if value > 0)
        said.append(f"{item.question.title}: {words or 'no answers'}")
    return "; ".join(said) + "." if said else "There are no questions."


_LOOKS: dict[str, dict[str, Any]] = {
    "earned": {"color": BLUE}, "lost by wrong answers": {"color": ORANGE},
    "left empty": {"color": GREY}, "waiting for a person": _WAITING}


def parts(item: Item) -> dict[str, float]:
    """Shares of a question's points over all answers; they add up to 1 (0 without any answer)."""
    everybody = item.n + item.waiting
    if not everybody:
        return dict.fromkeys(_LOOKS, 0.0)
    earned = (item.difficulty or 0.0) * item.n / everybody
    waiting = item.waiting / everybody
    # A mark given by hand to an answer that the judge took for empty is no longer lost.
    empty = min(item.blank / everybody, max(0.0, 1 - earned - waiting))
    lost = max(0.0, 1 - earned - empty - waiting)
    return dict(zip(_LOOKS, (earned, lost if lost > 1e-9 else 0.0, empty, waiting), strict=True))


def _width(maximum: float) -> float:
    """A round width that makes about twenty bars."""
    for width in (0.5, 1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0, 50.0):
        if maximum / width <= 25:
            return width
    return 10.0 ** math.ceil(math.log10(maximum / 25))


def _nearest(total: float, width: float) -> int:
    return math.floor(total / width + 0.5 + 1e-9)


def _shortened(title: str) -> str:
    return title if len(title) <= 38 else title[:37] + "…"


def _people(count: int) -> str:
    return f"{count} student{'' if count == 1 else 's'}"


def _figure(height: float) -> Any:
    # Without pyplot no window system is asked for and no figure outlives its use.
    from matplotlib.figure import Figure

    return Figure(figsize=(7.4, height), layout="constrained")


def _svg(figure: Any, name: str) -> str:
    """The figure's `<svg>` element, the same bytes every time, and hidden from screen readers.

    The words beside the picture are read instead. `name` keeps two pictures' ids apart.
    """
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None,
                                                "Type": None})
    text = out.getvalue()
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", text[text.index("<svg"):])
    return text.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
