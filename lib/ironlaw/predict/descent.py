"""Optimizers walking on loss surfaces of two parameters: the steps of `optimizers`, repeated.

Two surfaces that show what plain gradient descent finds hard: a quadratic with curvatures
1 and 25, and a valley that bends (Rosenbrock's function). Taught in chapter 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, choice, count, number, positive
from . import optimizers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

WALKERS = ("sgd", "momentum", "rmsprop", "adam")
FAR = 1e6
"""A coordinate beyond this ends the walk: it has diverged, and overflow is near."""


@dataclass(frozen=True)
class Surface:
    """A loss over two parameters.

    `loss` maps arrays x and y to the loss; `gradient` maps a point of shape (2,) to the
    gradient of shape (2,). `minimum` is where the loss is zero, `start` a start worth
    watching and `rate` a learning rate at which every walker gets somewhere: in the bowl
    just below the 0.08 at which plain descent diverges, so that it bounces all the way.
    """

    name: str
    loss: Callable[[Any, Any], Any]
    gradient: Callable[[Array], Array]
    minimum: tuple[float, float]
    start: tuple[float, float]
    rate: float


STEEP = 25.0
"""Curvature across the quadratic bowl; along it the curvature is one."""
BEND = 10.0
"""Weight of the bent valley's wall."""

SURFACES = {s.name: s for s in (
    Surface("narrow bowl", lambda x, y: 0.5 * (x * x + STEEP * y * y),
            lambda p: np.array([p[0], STEEP * p[1]]), (0.0, 0.0), (-3.5, 1.0), 0.079),
    Surface("bent valley", lambda x, y: (1.0 - x) ** 2 + BEND * (y - x * x) ** 2,
            lambda p: np.array([2.0 * (p[0] - 1.0) - 4.0 * BEND * p[0] * (p[1] - p[0] ** 2),
                                2.0 * BEND * (p[1] - p[0] ** 2)]),
            (1.0, 1.0), (-1.2, 1.8), 0.015),
)}


def surface(name: str) -> Surface:
    """The surface called `name`, or `InputError` listing them."""
    return SURFACES[choice("surface", name, SURFACES)]


def largest_stable_rate(curvature: float, beta: float = 0.0) -> float:
    """The learning rate above which descent on a quadratic diverges, 2 (1 + beta) / curvature.

    `beta` is the momentum factor, 0 for plain gradient descent.
    """
    share = number("beta", beta, low=0.0, high=1.0)
    return 2.0 * (1.0 + share) / positive("curvature", curvature)


def walk(
    optimizer: str, on: Surface, start: tuple[float, float], learning_rate: float, steps: int
) -> Array:
    """The points that an optimizer visits, start included: an array of shape (n, 2).

    n is `steps` + 1, or less when a coordinate passed `FAR` on the way. All other
    settings are the defaults of `optimizers`.
    """
    choice("optimizer", optimizer, WALKERS)
    if len(start) != 2:
        raise InputError("start", start, "two numbers, x and y")
    here = np.array([number("start", v, low=-FAR, high=FAR) for v in start])
    zero = np.zeros(2)
    one = optimizers.OneMoment(here, zero)
    adam = optimizers.AdamState(here, zero, zero)
    points = [here]
    for _ in range(count("steps", steps)):
        gradient = on.gradient(points[-1])
        if optimizer == "sgd":
            here = np.asarray(optimizers.sgd(points[-1], gradient, learning_rate))
        elif optimizer == "adam":
            adam = optimizers.adam(adam, gradient, learning_rate)
            here = np.asarray(adam.parameters)
        else:
            step = optimizers.momentum if optimizer == "momentum" else optimizers.rmsprop
            one = step(one, gradient, learning_rate)
            here = np.asarray(one.parameters)
        points.append(here)
        if np.abs(here).max() > FAR:
            break
    return np.array(points)
