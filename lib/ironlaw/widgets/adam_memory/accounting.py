"""The bytes of one training step, by part: PyTorch's for a shape, the document's as printed.

A model of the course or one of your own is accounted by `predict.peak`. The document's
models are known by a round number of parameters and the sizes in its formula; for them
the document's own sums stand. All results in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ... import transformer
from ...config import ATTENTIONS, OPTIMIZERS, PRECISIONS, RECOMPUTES, RunConfig
from ...errors import InputError, choice, count
from ...predict import activations, flops, memory, optimizers, recompute
from ...predict.allocations_loss import WIDTHS
from ...predict.peak import StepMemory, step_memory

OWN = "own shape"
PARTS = {"parameters": "weights", "gradients": "gradients", "cast_copies": "copies of weights",
         "optimizer": "optimizer state", "activations": "activations", "logits": "logits",
         "transient": "transient"}
"""The parts in the order in which they are stacked, with the names that a reader sees."""


@dataclass(frozen=True)
class Printed:
    """A model as the document counts it; sizes are None where it gives only parameters."""

    parameters: float
    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    context: int | None = None

    @property
    def sized(self) -> bool:
        """Whether activations can be counted."""
        return self.layers is not None


DOCUMENT_MODELS = {"1.5B": Printed(1.5e9, 48, 1600, 25, 1024),
                   "7B": Printed(7e9, 32, 4096, 32, 2048), "20B": Printed(20e9)}
_RECIPES = {  # bytes of weight, gradient and master copy; factors of the activation formula
    "document": ((2.0, 2.0, 4.0), activations.TOKEN_FACTOR, activations.SCORE_FACTOR, 2.0),
    "fp32": ((4.0, 4.0, 0.0), activations.TOKEN_FACTOR_FP32, activations.SCORE_FACTOR_FP32, 4.0)}


@dataclass(frozen=True)
class ShapedConfig(RunConfig):
    """A `RunConfig` whose context may be typed too, for shapes of one's own."""

    context: int | None = field(default=None, metadata={"choices": None, "help": "context length"})

    @property
    def shape(self) -> transformer.Shape:
        """The preset's sizes after all changes."""
        return super().shape.resized(context=self.context)


@dataclass(frozen=True)
class Step:
    """What is trained and how: a model's name, or `OWN` with a `shape`, and `RunConfig`'s terms."""

    model: str = "gpt2-124m"
    batch: int = 8
    seq: int = 1024
    precision: str = "amp-fp16"
    optimizer: str = "adamw"
    attention: str = "flash"
    recompute: str = "none"
    accumulate: int = 1
    shape: transformer.Shape | None = None

    def __post_init__(self) -> None:
        choice("model", self.model, (*transformer.MODELS, *DOCUMENT_MODELS, OWN))
        for name, allowed in (("precision", PRECISIONS), ("optimizer", OPTIMIZERS),
                              ("attention", ATTENTIONS), ("recompute", RECOMPUTES)):
            choice(name, getattr(self, name), allowed)
        for name in ("batch", "seq", "accumulate"):
            count(name, getattr(self, name))
        if self.model == OWN and self.shape is None:
            raise InputError("shape", None, "given for a model of one's own")
        if self.printed is None:
            self.config()  # a sequence longer than the context, for instance, is refused here
            return
        if self.precision not in _RECIPES:
            raise InputError(
                "recipe", self.precision, f"'document' or 'fp32' for {self.model}",
                "That model is known only as the document counts it. For PyTorch's recipes "
                "choose a gpt2 model, or type a shape.")
        if self.optimizer not in optimizers.MOMENTS:
            raise InputError(
                "optimizer", self.optimizer,
                f"one of {', '.join(optimizers.MOMENTS)} for {self.model}",
                "Lean rules need the shapes of all matrices: choose a gpt2 model, or type a shape.")

    @property
    def printed(self) -> Printed | None:
        """The document's model, or None for one with a real shape."""
        return DOCUMENT_MODELS.get(self.model)

    def config(self) -> RunConfig:
        """The step as `predict.peak` takes it; not for the document's models."""
        terms = {name: getattr(self, name) for name in (
            "batch", "seq", "precision", "optimizer", "attention", "recompute", "accumulate")}
        if self.shape is None:
            return RunConfig(model=self.model, **terms)
        own = self.shape
        return ShapedConfig(model="gpt2-124m", layers=own.layers, width=own.width, heads=own.heads,
                            vocab=own.vocab, context=own.context, **terms)


def account(step: Step) -> StepMemory:
    """Bytes at the fullest moment of the step, by part; they sum to `peak`."""
    if step.printed is not None:
        return _printed(step, step.printed)
    found = step_memory(step.config())
    if step.precision == "document":  # `peak` counts the master copy with the optimizer
        master = memory.training_state(step.config().shape.parameters).master
        found = replace(found, cast_copies=master, optimizer=found.optimizer - master)
    return found


def _printed(step: Step, model: Printed) -> StepMemory:
    (weight, gradient, master), *_ = _RECIPES[step.precision]
    state = memory.training_state(model.parameters, weight, gradient, master,
                                  moments=optimizers.MOMENTS[step.optimizer])
    kept = _printed_activations(step, model)
    return StepMemory(
        parameters=state.weights, gradients=state.gradients, optimizer=state.moments,
        cast_copies=state.master, activations=kept, logits=0.0, transient=0.0,
        peak=memory.total_bytes(state.weights, state.gradients, state.master + state.moments, kept),
        moment="the document's sum")


def _printed_activations(step: Step, model: Printed) -> float:
    if model.layers is None or model.width is None or model.heads is None:
        return 0.0
    _, tokens, scores, value = _RECIPES[step.precision]
    if model.context is not None and step.seq > model.context:
        raise InputError("seq", step.seq, f"at most {model.context} for {step.model}")
    size = (1, step.batch, step.seq, model.width)
    lean = activations.selective_bytes(*size, tokens)
    whole = activations.document_bytes(*size, model.heads, tokens, scores)
    return recompute.stored(
        model.layers, step.recompute, block_bytes=lean if step.attention == "flash" else whole,
        selective_block_bytes=lean, boundary_bytes=activations.hidden_bytes(
            step.batch, step.seq, model.width, bytes_per_value=value)).peak_bytes


def standing_bytes(step: Step) -> float:
    """State that is there between two steps, gradients included, before any activation."""
    if step.printed is not None:
        (weight, gradient, master), *_ = _RECIPES[step.precision]
        return memory.training_state_bytes(step.printed.parameters, weight, gradient, master,
                                           moments=optimizers.MOMENTS[step.optimizer])
    shape = step.config().shape
    if step.precision == "document":
        state = memory.training_state(shape.parameters, moments=0)
        return state.total + optimizers.state_bytes(shape, step.optimizer)
    width = WIDTHS[step.precision].parameter
    return memory.weights_and_gradients_bytes(shape.parameters, width, width) \
        + optimizers.state_bytes(shape, step.optimizer, bytes_per_value=width)


def parameters_of(step: Step) -> float:
    """Parameters of the step's model, as counted or as printed."""
    return step.printed.parameters if step.printed else float(step.config().shape.parameters)


def extra_flops(step: Step) -> float:
    """FLOP that recomputation adds, as a share of the step's model FLOP."""
    if step.printed is None:
        shape = step.config().shape
        again = flops.recomputed_per_step(shape, step.batch, step.seq, step.recompute,
                                          step.attention)
        return again / flops.per_step(shape, step.batch, step.seq)
    model = step.printed
    if model.layers is None or model.width is None or model.heads is None:
        return 0.0
    # The blocks alone: the document's models have no vocabulary.
    blocks = transformer.Shape(step.model, model.layers, model.width, model.heads, step.seq, 1)
    return flops.recomputed_per_step(blocks, step.batch, step.seq, step.recompute, step.attention) \
        / flops.blocks_per_step(model.layers, step.batch, step.seq, model.width)
