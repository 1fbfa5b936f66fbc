"""Update rules and the bytes they carry from step to step (table 4, algorithm 1).

State is what the optimizer keeps beside weights and gradients. Taught in chapters 2
and 3 (sections 1.2.2 and 1.3.3, figure 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import choice, count, fraction, not_negative, positive
from ..transformer import Shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = TypeVar("Values", float, NDArray[np.float64])

MOMENTS = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adam": 2, "adamw": 2, "adamw-foreach": 2,
           "adamw-fused": 2}
"""Full-size state tensors per parameter; `foreach` and `fused` only change the kernels."""
LEAN = ("adafactor", "adam-8bit", "galore")
"""Rules whose state depends on the matrices' shapes."""


def parameters_and_state(optimizer: str) -> float:
    """Table 4: parameters plus optimizer state, in multiples of the parameters.

    Gradients are not in it. AdamW keeps what Adam keeps.
    """
    return 1.0 + MOMENTS[choice("optimizer", optimizer, MOMENTS)]


@dataclass(frozen=True)
class OptimizerRow:
    """One column of table 4."""

    optimizer: str
    moments: int
    parameters_and_state: float
    bytes_per_parameter: float


def table_4(bytes_per_value: float = 4.0) -> list[OptimizerRow]:
    """Table 4 for values of that width: SGD, momentum, RMSprop, Adam."""
    size = positive("bytes_per_value", bytes_per_value)
    return [OptimizerRow(name, MOMENTS[name], parameters_and_state(name), MOMENTS[name] * size)
            for name in ("sgd", "momentum", "rmsprop", "adam")]


def matrices(shape: Shape) -> list[tuple[int, int]]:
    """Rows and columns of every weight matrix, the tied embedding once."""
    d = shape.width
    block = [(3 * d, d), (d, d), (4 * d, d), (d, 4 * d)]
    return [(shape.vocab, d), (shape.context, d), *(block * shape.layers)]


def vector_values(shape: Shape) -> int:
    """Values in biases and norms, which no lean optimizer compresses."""
    return shape.parameters - sum(rows * columns for rows, columns in matrices(shape))


def adafactor_values(rows: int, columns: int) -> int:
    """Second-moment values for one matrix, one per row and one per column.

    Shazeer and Stern 2018, without a first moment.
    """
    return count("rows", rows) + count("columns", columns)


def adam_8bit_bytes(values: int, block: int = 2048) -> float:
    """Two one-byte moments per value and an FP32 scale per moment and block.

    Dettmers et al. 2022 quantise in blocks of 2,048 values.
    """
    n = count("values", values)
    return 2.0 * n + 2 * 4.0 * -(-n // count("block", block))


def galore_values(rows: int, columns: int, rank: int) -> int:
    """Projection and two projected moments of one matrix (Zhao et al. 2024, table 1).

    With m the shorter side, n the longer and rank r: m r + 2 n r. A rank that is not
    below m saves nothing, and plain Adam's 2 m n apply.
    """
    m, n = sorted((count("rows", rows), count("columns", columns)))
    r = count("rank", rank)
    return m * r + 2 * n * r if r < m else 2 * m * n


def state_bytes(
    shape: Shape, optimizer: str, *, bytes_per_value: float = 4.0, rank: int = 128
) -> float:
    """Bytes of optimizer state for a whole model.

    `bytes_per_value` is 4 for FP32 moments, 2 for 16-bit ones. For 'adafactor' and
    'galore' vectors keep full second moments or Adam's two; `rank` is GaLore's.
    'adam-8bit' ignores `bytes_per_value`, but keeps the embeddings' moments in 32 bits,
    as its authors advise.
    """
    choice("optimizer", optimizer, (*MOMENTS, *LEAN))
    size = positive("bytes_per_value", bytes_per_value)
    if optimizer in MOMENTS:
        return MOMENTS[optimizer] * size * shape.parameters
    vectors = vector_values(shape)
    if optimizer == "adafactor":
        return size * (vectors + sum(adafactor_values(*m) for m in matrices(shape)))
    if optimizer == "galore":
        return size * (2 * vectors + sum(galore_values(*m, rank) for m in matrices(shape)))
    embeddings, blocks = matrices(shape)[:2], matrices(shape)[2:]
    full = 2 * 4.0 * (vectors + sum(rows * columns for rows, columns in embeddings))
    return full + sum(adam_8bit_bytes(rows * columns) for rows, columns in blocks)


def update_traffic_bytes(parameters: float, optimizer: str, bytes_per_value: float = 4.0) -> float:
    """Bytes through memory per update: read weights, gradients, state; write weights, state."""
    state = MOMENTS[choice("optimizer", optimizer, MOMENTS)]
    return (3.0 + 2.0 * state) * positive("parameters", parameters) * positive(
        "bytes_per_value", bytes_per_value)


@dataclass(frozen=True)
class AdamState:
    """What algorithm 1 hands to the next step: theta, m, v, all of one shape, and t."""

    parameters: NDArray[np.float64] | float
    first: NDArray[np.float64] | float
    second: NDArray[np.float64] | float
    step: int = 0


def adam(
    state: AdamState,
    gradient: NDArray[np.float64] | float,
    learning_rate: float = 1e-3,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> AdamState:
    """Algorithm 1: one Adam step, on a number or an array.

    `weight_decay` shrinks the weights directly (AdamW) instead of entering the
    gradient; it needs no further state.
    """
    eta = positive("learning_rate", learning_rate)
    b1, b2 = fraction("beta_1", beta_1), fraction("beta_2", beta_2)
    t = state.step + 1
    m = b1 * state.first + (1.0 - b1) * gradient
    v = b2 * state.second + (1.0 - b2) * gradient * gradient
    m_hat, v_hat = m / (1.0 - b1**t), v / (1.0 - b2**t)
    shrunk = state.parameters * (1.0 - eta * not_negative("weight_decay", weight_decay))
    theta = shrunk - eta * m_hat / (v_hat**0.5 + positive("epsilon", epsilon))
    return AdamState(theta, m, v, t)


def sgd(
    parameters: NDArray[np.float64] | float,
    gradient: NDArray[np.float64] | float,
    learning_rate: float = 1e-2,
) -> NDArray[np.float64] | float:
    """One step of gradient descent, theta - eta g: no state at all."""
    return parameters - positive("learning_rate", learning_rate) * gradient


@dataclass(frozen=True)
class OneMoment:
    """What momentum or RMSprop hands to the next step: theta and one number for each."""

    parameters: NDArray[np.float64] | float
    moment: NDArray[np.float64] | float


def momentum(
    state: OneMoment,
    gradient: NDArray[np.float64] | float,
    learning_rate: float = 1e-2,
    beta: float = 0.9,
) -> OneMoment:
    """One step with velocity u = beta u + g and theta - eta u, as PyTorch's SGD has it.

    The velocity is a weighted sum, not an average: along a constant gradient it grows to
    g / (1 - beta), ten gradients at 0.9.
    """
    velocity = fraction("beta", beta) * state.moment + gradient
    eta = positive("learning_rate", learning_rate)
    return OneMoment(state.parameters - eta * velocity, velocity)


def rmsprop(
    state: OneMoment,
    gradient: NDArray[np.float64] | float,
    learning_rate: float = 1e-2,
    decay: float = 0.99,
    epsilon: float = 1e-8,
) -> OneMoment:
    """One step of RMSprop (Hinton 2012): divide by the root of the average squared gradient.

    The average starts at zero and is not corrected for that, so with decay 0.99 the first
    step is ten learning rates long.
    """
    share = fraction("decay", decay)
    square = share * state.moment + (1.0 - share) * gradient * gradient
    step = positive("learning_rate", learning_rate) * gradient
    return OneMoment(
        state.parameters - step / (square**0.5 + positive("epsilon", epsilon)), square)


def full_batch_step_seconds(examples: int, seconds_per_example: float) -> float:
    """Equation 3: a step of full-batch gradient descent passes over all D examples."""
    return count("examples", examples) * positive("seconds_per_example", seconds_per_example)


def updates_per_epoch(examples: int, batch: int) -> int:
    """Updates in one pass over D examples; the last batch may be short."""
    return -(-count("examples", examples) // count("batch", batch))


def batch_ratio(batch: int, reference_batch: int) -> float:
    """How many times larger a batch is than the reference."""
    return count("batch", batch) / count("reference_batch", reference_batch)


def linear_learning_rate(reference_rate: float, reference_batch: int, batch: int) -> float:
    """The linear scaling rule, eta x batch / reference batch (Goyal et al. 2017).

    A starting point with warm-up, not a guarantee.
    """
    return positive("reference_rate", reference_rate) * batch_ratio(batch, reference_batch)
