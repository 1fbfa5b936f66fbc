"""Bytes that training keeps: weights, gradients, master copies, optimizer moments.

Taught in chapters 1 and 2. All results in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import count, not_negative, positive


@dataclass(frozen=True)
class TrainingState:
    """State that lives for the whole run, in bytes; activations come on top."""

    weights: float
    gradients: float
    master: float
    moments: float

    @property
    def total(self) -> float:
        """M_weights + M_grads + M_opt (master copies are counted with the optimizer)."""
        return self.weights + self.gradients + self.master + self.moments


def parameter_bytes(parameters: float, bytes_per_parameter: float) -> float:
    """Bytes of one value per parameter in a format of that width."""
    return positive("parameters", parameters) * positive("bytes_per_parameter",
                                                         bytes_per_parameter)


def moment_bytes(parameters: float, bytes_per_value: float = 4.0, moments: int = 2) -> float:
    """Bytes of the optimizer's per-parameter moments; Adam keeps two."""
    each = positive("parameters", parameters) * positive("bytes_per_value", bytes_per_value)
    return each * count("moments", moments)


def training_state(
    parameters: float,
    weight_bytes: float = 2.0,
    gradient_bytes: float = 2.0,
    master_bytes: float = 4.0,
    moment_bytes_each: float = 4.0,
    moments: int = 2,
) -> TrainingState:
    """Persistent training state; the defaults are the document's mixed-precision Adam.

    Definition 1.1: 2 + 2 + 4 + 8 = 16 bytes per parameter. PyTorch's autocast reaches
    the same 16 by another road: FP32 weights 4, FP32 gradients 4, moments 8.
    """
    p = positive("parameters", parameters)
    return TrainingState(
        weights=p * positive("weight_bytes", weight_bytes),
        gradients=p * positive("gradient_bytes", gradient_bytes),
        master=p * not_negative("master_bytes", master_bytes),
        moments=p * not_negative("moment_bytes_each", moment_bytes_each)
        * count("moments", moments, low=0),
    )


def training_state_bytes(
    parameters: float,
    weight_bytes: float = 2.0,
    gradient_bytes: float = 2.0,
    master_bytes: float = 4.0,
    moment_bytes_each: float = 4.0,
    moments: int = 2,
) -> float:
    """The total of `training_state`, in bytes."""
    return training_state(parameters, weight_bytes, gradient_bytes, master_bytes,
                          moment_bytes_each, moments).total


def training_over_inference(
    weight_bytes: float = 2.0,
    gradient_bytes: float = 2.0,
    master_bytes: float = 4.0,
    moment_bytes_each: float = 4.0,
    moments: int = 2,
) -> float:
    """Training state per byte of inference weights; 8 for the document's recipe.

    The number of parameters cancels; activations are not in it.
    """
    return training_state_bytes(1.0, weight_bytes, gradient_bytes, master_bytes,
                                moment_bytes_each, moments) / weight_bytes
