"""One optimizer step, done right: the unit that the trainer repeats and instruments time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ..config import RunConfig
from ..errors import InputError, count, positive
from . import compiling, optimizers
from . import precision as formats
from .model import GPT, IGNORED
from .precision import Precision

Batch: TypeAlias = tuple[Tensor, Tensor]
"""Tokens [B, S] and the targets [B, S] that follow them."""


class TrainingStep:
    """Forward and backward over `accumulate` micro-batches, then one update.

    The gradient is that of the mean over all tokens of all micro-batches, also when
    those differ in size: averaging the micro-batches' own means would give a short one
    too much weight. Nothing here waits for the device, except that loss scaling without a
    fused update rule has to look whether a gradient overflowed.

    `clip` is the largest norm that the whole gradient may have, None for no limit.
    With `compile` the forward and backward passes go through `torch.compile`, where it can
    work (a loss in slices stays as it is: it has its own order of work); else `not_compiled`
    says why and they run as they stand. Where the compiler fails in the first pass, that pass
    runs again as it stands, with the same random numbers. Compiled code adds in another order,
    so the last digits of a loss may differ.
    After a call `gradient_norm` holds the norm before clipping (a tensor), or None.
    """

    def __init__(
        self,
        model: GPT,
        optimizer: torch.optim.Optimizer,
        precision: Precision,
        accumulate: int = 1,
        clip: float | None = 1.0,
        compile: bool = False,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.precision = precision
        self.accumulate = count("accumulate", accumulate)
        self.clip = None if clip is None else positive("clip", clip)
        self.scaler = precision.scaler()
        self.gradient_norm: Tensor | None = None
        self.not_compiled = ""
        self._compiled_loss: Callable[[Tensor, Tensor], Tensor] | None = None
        if compile:
            self.not_compiled = compiling.obstacle(
                precision, next(model.parameters()).device, model.attention)
            if not self.not_compiled:
                try:
                    self._compiled_loss = _compiled(model)
                except Exception as problem:  # a Python that it does not know, for one
                    self.not_compiled = compiling.failure(problem)
        self._proven = not self.compiled

    @property
    def compiled(self) -> bool:
        """Whether steps run compiled code."""
        return self._compiled_loss is not None

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        """Train on `accumulate` micro-batches; the mean loss as a float32 scalar tensor."""
        if len(batches) != self.accumulate:
            raise InputError("batches", len(batches), f"{self.accumulate} micro-batches",
                             "Give as many as `accumulate` says.")
        loss = self.backward(batches)
        self.update()
        return loss

    def backward(self, batches: Sequence[Batch]) -> Tensor:
        """Add the gradient of `batches` to the parameters; the mean loss over all tokens."""
        if self._proven:
            return self._backward(batches)
        trial, self._proven = compiling.Trial(self.model), True
        try:
            return self._backward(batches)
        except Exception as problem:  # see `failure`: no error but the compiler's is lost
            self.not_compiled, self._compiled_loss = compiling.failure(problem), None
        trial.undo()
        return self._backward(batches)

    def _backward(self, batches: Sequence[Batch]) -> Tensor:
        counts = [(targets != IGNORED).sum() for _, targets in batches]
        everything = torch.stack(counts).sum().clamp(min=1)
        mean = torch.zeros((), device=everything.device)
        loss_of = self._compiled_loss or self.model.loss
        for (tokens, targets), tokens_here in zip(batches, counts, strict=True):
            with self.precision.autocast():
                loss = loss_of(tokens, targets) * (tokens_here / everything)
            self.scaler.scale(loss).backward()
            mean += loss.detach()
        return mean

    def update(self) -> None:
        """Unscale once, clip, step, and free the gradients."""
        if self.clip is not None:
            self.scaler.unscale_(self.optimizer)
            self.gradient_norm = torch.nn.utils.clip_grad_norm_(
                self.model.parameters(), self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)


def _compiled(model: GPT) -> Callable[[Tensor, Tensor], Tensor]:
    if not model.loss_rows:
        return torch.compile(model.loss)
    features = torch.compile(model.features)
    return lambda tokens, targets: model.loss_of_features(features(tokens), targets)


def build(
    config: RunConfig,
    device: torch.device | str = "cpu",
    *,
    learning_rate: float = 6e-4,
    weight_decay: float = 0.1,
    clip: float | None = 1.0,
    dropout: float = 0.0,
    pad_vocab: bool = False,
    compile: bool = False,
) -> TrainingStep:
    """The model, optimizer and formats that `config` describes, on `device`.

    Weights come from torch's global generator: call `torch.manual_seed` first for a
    repeatable run. `pad_vocab` as in `GPT`, `compile` as in `TrainingStep`.
    `config.device` names a catalogue entry for predictions and is not
    read here.
    """
    precision = formats.of(config.precision, device)
    model = GPT(config.shape, attention=config.attention, recompute=config.recompute,
                dropout=dropout, loss_rows=config.loss_rows, pad_vocab=pad_vocab)
    model = precision.prepare(model).to(device)  # type: ignore[assignment]
    optimizer = optimizers.make(model, config.optimizer, learning_rate,
                                weight_decay=weight_decay)
    return TrainingStep(model, optimizer, precision, config.accumulate, clip, compile)


def random_batches(config: RunConfig, device: torch.device | str = "cpu",
                   seed: int = 0) -> list[Batch]:
    """`accumulate` micro-batches of uniformly random tokens, for timing and for memory.

    Targets are drawn on their own: time and bytes depend on shapes, not on the text.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (2, config.batch, config.sequence)
    drawn = (torch.randint(config.shape.vocab, shape, generator=generator).to(device)
             for _ in range(config.accumulate))
    return [(pair[0], pair[1]) for pair in drawn]
