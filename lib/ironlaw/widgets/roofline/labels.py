"""Where labels go in a crowded picture: near their points, and on nothing else.

All lengths are shares of the axes. What is in the way (markers, lines, earlier labels) is
a list of boxes; a label tries places around its point and takes the one that covers
least, and of those the nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FONT_POINTS = 8.5
LINE = 0.044
"""Height of a line of text in axes 304 pixels high."""
_GAP = 0.008
_ASPECT = 0.55  # the axes are wider than high: the same share is longer across
_TURNS = np.arange(0, 360, 20)
_DISTANCES = 0.026 + 0.022 * np.arange(20)
_LEADER = np.linspace(0.05, 0.95, 12)
# A place costs its distance; covering something is worse than any distance, and drawing
# the line to a point through another label is worth a detour.
_ON_OBSTACLE, _ON_LABEL, _THROUGH_LABEL, _PER_DEGREE = 40.0, 80.0, 0.5, 0.0004

Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""


@lru_cache(maxsize=512)
def text_pixels(text: str, *, bold: bool = False) -> float:
    """Width of a label in CSS pixels."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family="DejaVu Sans", size=FONT_POINTS,
                          weight="bold" if bold else "normal")
    points: float = TextToPath().get_text_width_height_descent(text, font, ismath=False)[0]
    return points * 100 / 72


@dataclass(frozen=True)
class Place:
    """A label's box, and the point on its edge from which a line leads to its point."""

    box: Box
    tip: tuple[float, float]


class Layout:
    """What is in the way, and the labels put so far."""

    def __init__(self, boxes: list[Box] | None = None, labels: list[Box] | None = None) -> None:
        self.boxes, self.labels = list(boxes or ()), list(labels or ())

    def copy(self) -> Layout:
        """The same obstacles, to which labels of a moment can be added."""
        return Layout(self.boxes, self.labels)

    def block(self, *boxes: Box) -> None:
        """Keep labels off these boxes."""
        self.boxes += boxes

    def block_line(self, start: tuple[float, float], end: tuple[float, float],
                   half: tuple[float, float], parts: int = 60) -> None:
        """Keep labels `half` (across, up) off a straight line, as a row of small boxes."""
        for x, y in np.linspace(start, end, parts):
            self.block((x - half[0], y - half[1], x + half[0], y + half[1]))

    def covered(self, box: Box) -> int:
        """How many obstacles and labels `box` would cover."""
        return int(_covered(np.array([box]), [*self.boxes, *self.labels])[0])

    def place(self, width: float, point: tuple[float, float], toward: float) -> Place:
        """Put a label near `point`, by preference in the direction `toward` (degrees)."""
        boxes, tips, costs = _candidates(point, width, toward)
        costs += _ON_OBSTACLE * _covered(boxes, self.boxes)
        costs += _ON_LABEL * _covered(boxes, self.labels)
        costs += _THROUGH_LABEL * _crossed(tips, point, self.labels)
        best = int(np.argmin(costs))
        left, bottom, right, top = map(float, boxes[best])
        self.labels.append((left, bottom, right, top))
        return Place(self.labels[-1], (float(tips[best, 0]), float(tips[best, 1])))


def _candidates(point: tuple[float, float], width: float,
                toward: float) -> tuple[Array, Array, Array]:
    """Boxes (n, 4) around `point` inside the axes, their tips (n, 2), and first costs (n,)."""
    distance, turn = (grid.ravel() for grid in np.meshgrid(_DISTANCES, _TURNS))
    angle = np.radians(toward + turn)
    x = point[0] + _ASPECT * distance * np.cos(angle)
    y = point[1] + distance * np.sin(angle)
    # The side that faces the point lies at (x, y): its right edge to the left of the point.
    left = x - width * (0.5 - 0.5 * np.clip(3 * np.cos(angle), -1, 1))
    bottom = y - LINE * (0.5 - 0.5 * np.clip(3 * np.sin(angle), -1, 1))
    inside = (left >= 0.002) & (left + width <= 0.998) & (bottom >= 0.005) & (
        bottom + LINE <= 0.995)
    costs = distance + _PER_DEGREE * np.minimum(turn, 360 - turn)
    if not inside.any():  # wider than there is room for: as near as the axes allow
        left, bottom = np.clip(left, 0, max(0.0, 1 - width)), np.clip(bottom, 0, 1 - LINE)
        inside[:] = True
    left, bottom, costs = left[inside], bottom[inside], costs[inside]
    right, top = left + width, bottom + LINE
    tips = np.stack([np.clip(point[0], left, right), np.clip(point[1], bottom, top)], axis=1)
    return np.stack([left, bottom, right, top], axis=1), tips, costs


def _covered(boxes: Array, others: list[Box]) -> Any:
    """For each box, on how many of `others` it lies."""
    if not others:
        return np.zeros(len(boxes))
    left, bottom, right, top = (boxes[:, k, None] for k in range(4))
    low_x, low_y, high_x, high_y = np.array(others).T
    return ((left < high_x + _GAP) & (right + _GAP > low_x)
            & (bottom < high_y) & (top > low_y)).sum(axis=1)


def _crossed(tips: Array, point: tuple[float, float], labels: list[Box]) -> Any:
    """For each tip, through how many of `labels` the line to its point would go."""
    if not labels:
        return np.zeros(len(tips))
    along = tips[:, None, :] + _LEADER[None, :, None] * (np.array(point) - tips[:, None, :])
    x, y = along[..., 0, None], along[..., 1, None]
    left, bottom, right, top = np.array(labels).T
    return ((x > left) & (x < right) & (y > bottom) & (y < top)).any(axis=1).sum(axis=1)
