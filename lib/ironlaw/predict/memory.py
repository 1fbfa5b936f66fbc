"""Bytes that training keeps: weights, gradients, master copies, moments, activations.

The document's budget, equations 4 and 6. Taught in chapters 1, 2, 3 and 5. All
results in bytes. What PyTorch really allocates is in `peak`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError, count, not_negative, positive
from . import activations


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


def bytes_per_parameter(
    weight_bytes: float = 2.0,
    gradient_bytes: float = 2.0,
    master_bytes: float = 4.0,
    moment_bytes_each: float = 4.0,
    moments: int = 2,
) -> float:
    """Persistent training state per parameter: 2 + 2 + 4 + 8 = 16 bytes by default."""
    return training_state_bytes(1.0, weight_bytes, gradient_bytes, master_bytes,
                                moment_bytes_each, moments)


def weights_and_gradients_bytes(
    parameters: float, weight_bytes: float, gradient_bytes: float
) -> float:
    """Weights and gradients together: the state that plain SGD needs."""
    p = positive("parameters", parameters)
    return p * (positive("weight_bytes", weight_bytes)
                + positive("gradient_bytes", gradient_bytes))


def total_bytes(
    weights: float, gradients: float, optimizer: float, activations: float
) -> float:
    """Equation 6: weights + gradients + optimizer state + activations, all in bytes.

    The document's equation 4 leaves the optimizer out; with Adam that is half of the
    state, so this course uses equation 6 throughout.
    """
    return (not_negative("weights", weights) + not_negative("gradients", gradients)
            + not_negative("optimizer", optimizer) + not_negative("activations", activations))


def batch_memory(
    parameter_bytes: float, gradient_bytes: float, batch: int, activation_bytes: float
) -> float:
    """Equation 4: parameters + gradients + B x activations of one example.

    Audit: it leaves out the optimizer's state, half of everything with FP32 Adam.
    """
    return (positive("parameter_bytes", parameter_bytes)
            + positive("gradient_bytes", gradient_bytes)
            + count("batch", batch) * positive("activation_bytes", activation_bytes))


def training_total(
    parameters: float,
    activation_bytes: float,
    weight_bytes: float = 2.0,
    gradient_bytes: float = 2.0,
    master_bytes: float = 4.0,
    moment_bytes_each: float = 4.0,
    moments: int = 2,
) -> float:
    """State of `training_state` plus activations: the document's "peak" (Napkin math 1.3).

    Workspaces, the allocator's rounding and the logits are not in it.
    """
    state = training_state(parameters, weight_bytes, gradient_bytes, master_bytes,
                           moment_bytes_each, moments)
    return total_bytes(state.weights, state.gradients, state.master + state.moments,
                       not_negative("activation_bytes", activation_bytes))


def decoder_total(
    parameters: float, layers: int, batch: int, seq: int, width: int, heads: int
) -> float:
    """The document's whole budget of a 16-bit decoder step: 16 P + N_L S B d (34 + 5 H S / d)."""
    return training_total(parameters, activations.document_bytes(layers, batch, seq, width, heads))


def decoder_total_selective(
    parameters: float, layers: int, batch: int, seq: int, width: int
) -> float:
    """The same with selective recomputation: 16 P + 34 N_L S B d."""
    return training_total(parameters, activations.selective_bytes(layers, batch, seq, width))


def image_model_bytes(
    forward_activations: float, backward_workspace: float, parameter_bytes: float
) -> float:
    """The document's count for an image network: forward + backward activations + weights."""
    return (positive("forward_activations", forward_activations)
            + not_negative("backward_workspace", backward_workspace)
            + positive("parameter_bytes", parameter_bytes))


def with_moments(
    resident_bytes: float, parameters: float, bytes_per_value: float = 4.0, moments: int = 2
) -> float:
    """What is resident already, plus an optimizer's moments (self-check 2.2)."""
    return positive("resident_bytes", resident_bytes) + moment_bytes(parameters, bytes_per_value,
                                                                     moments)


def share_of_device(used_bytes: float, device_bytes: float) -> float:
    """Used bytes over the device's bytes; above 1 it does not fit."""
    return not_negative("used_bytes", used_bytes) / positive("device_bytes", device_bytes)


def samples_that_fit(
    device_bytes: float, state_bytes: float, activation_bytes: float, samples: int
) -> float:
    """Samples (not rounded) for which state and activations fill the device.

    `activation_bytes` are those of `samples` samples; they grow in proportion
    (equation 5). Zero or less room raises: no batch fits.
    """
    device, state = positive("device_bytes", device_bytes), positive("state_bytes", state_bytes)
    if device <= state:
        raise InputError("device_bytes", device_bytes, f"more than the state, {state:g} bytes",
                         "Shard or shrink the state first; no batch fits beside it.")
    return (device - state) * count("samples", samples) / positive("activation_bytes",
                                                                   activation_bytes)
