"""The functions between two matrix products: values and gradients, on numbers or arrays.

Sigmoid, tanh, ReLU and both forms of GELU (Hendrycks and Gimpel 2016). What they cost
a system is traffic, not arithmetic: see `roofline`. Taught in chapter 2 (section 1.2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import choice, positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

GELU_CUBIC = 0.044715
"""Coefficient of x^3 in the tanh form of GELU, which GPT-2 uses."""
_ROOT = math.sqrt(2.0 / math.pi)
_erf = np.frompyfunc(math.erf, 1, 1)  # numpy has no error function of its own


def sigmoid(x: Any) -> Array:
    """1 / (1 + e^-x), written so that neither sign of x overflows."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x, dtype=np.float64)))


def sigmoid_gradient(x: Any) -> Array:
    """s (1 - s): at most a quarter, at zero."""
    s = sigmoid(x)
    return s * (1.0 - s)


def tanh(x: Any) -> Array:
    """The hyperbolic tangent."""
    return np.asarray(np.tanh(np.asarray(x, dtype=np.float64)))


def tanh_gradient(x: Any) -> Array:
    """1 - tanh^2: at most one, at zero."""
    return 1.0 - tanh(x) ** 2


def relu(x: Any) -> Array:
    """max(0, x)."""
    return np.asarray(np.maximum(0.0, np.asarray(x, dtype=np.float64)))


def relu_gradient(x: Any) -> Array:
    """One right of zero, else zero; at zero itself frameworks agree on zero."""
    return (np.asarray(x, dtype=np.float64) > 0).astype(np.float64)


def gelu(x: Any) -> Array:
    """x Phi(x), the exact form: x/2 (1 + erf(x / sqrt 2))."""
    v = np.asarray(x, dtype=np.float64)
    return v * _normal_below(v)


def gelu_gradient(x: Any) -> Array:
    """Phi(x) + x phi(x); slightly negative left of x = -0.75."""
    v = np.asarray(x, dtype=np.float64)
    return _normal_below(v) + v * np.exp(-0.5 * v * v) / math.sqrt(2.0 * math.pi)


def gelu_tanh(x: Any) -> Array:
    """GPT-2's form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    v = np.asarray(x, dtype=np.float64)
    return 0.5 * v * (1.0 + np.tanh(_ROOT * (v + GELU_CUBIC * v**3)))


def gelu_tanh_gradient(x: Any) -> Array:
    """The derivative of `gelu_tanh`."""
    v = np.asarray(x, dtype=np.float64)
    t = np.tanh(_ROOT * (v + GELU_CUBIC * v**3))
    return 0.5 * (1.0 + t) + 0.5 * v * (1.0 - t * t) * _ROOT * (1.0 + 3.0 * GELU_CUBIC * v * v)


def _normal_below(v: Array) -> Array:
    """Phi(v), the probability that a standard normal variable lies below v."""
    return 0.5 * (1.0 + np.asarray(_erf(v / math.sqrt(2.0)), dtype=np.float64))


@dataclass(frozen=True)
class Function:
    """One activation function: `value` and `gradient` map arrays element by element."""

    name: str
    value: Callable[[Any], Array]
    gradient: Callable[[Any], Array]


FUNCTIONS = {f.name: f for f in (
    Function("sigmoid", sigmoid, sigmoid_gradient),
    Function("tanh", tanh, tanh_gradient),
    Function("ReLU", relu, relu_gradient),
    Function("GELU", gelu, gelu_gradient),
    Function("GELU, tanh form", gelu_tanh, gelu_tanh_gradient),
)}


def function(name: str) -> Function:
    """The function called `name`, or `InputError` listing the names."""
    return FUNCTIONS[choice("function", name, FUNCTIONS)]


def gelu_error(x: Any) -> Array:
    """Tanh form minus exact form."""
    return gelu_tanh(x) - gelu(x)


def largest_gelu_error(limit: float = 6.0, points: int = 20_001) -> tuple[float, float]:
    """(x, error) where the two forms of GELU differ most, for x in [0, `limit`].

    The error is even in x, so the same stands at -x. About 4.7e-4 near x = 2.7.
    """
    grid = np.linspace(0.0, positive("limit", limit), points)
    error = gelu_error(grid)
    worst = int(np.argmax(np.abs(error)))
    return float(grid[worst]), float(error[worst])
