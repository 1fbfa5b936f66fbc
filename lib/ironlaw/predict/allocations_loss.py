"""The last part of a step on paper: norm, head and loss, and their backward pass.

What `allocations` does for the blocks. The loss comes in two forms: PyTorch's own
cross-entropy over all logits, and slices of `loss_rows` tokens (`ironlaw.gpt2.loss`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..config import RunConfig
from .ledger import Ledger


@dataclass(frozen=True)
class Widths:
    """Bytes per value: parameters, residual stream, matrix products."""

    parameter: float
    residual: float
    compute: float

    @property
    def casts(self) -> bool:
        """Whether matrix products run in another format than the weights' (autocast)."""
        return self.compute != self.parameter


WIDTHS = {"fp32": Widths(4, 4, 4), "amp-bf16": Widths(4, 4, 2), "amp-fp16": Widths(4, 4, 2),
          "pure-bf16": Widths(2, 2, 2)}


class LossWalk:
    """The sizes of a step, the ledger it is walked on, and the walk through the loss."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.shape = config, config.shape
        self.width = WIDTHS[config.precision]
        self.ledger = Ledger()
        self.hold, self.free = self.ledger.hold, self.ledger.free
        self.rename = self.ledger.rename
        self.rows = float(config.batch * config.sequence)
        values = self.rows * self.shape.width
        self.compute = self.width.compute * values
        self.residual = self.width.residual * values
        self.table = float(self.shape.vocab * self.shape.width)
        self.first = True

    def _norm(self, name: str) -> None:
        self.hold(f"{name}.stats", "activations", 8.0 * self.rows)
        self.hold(f"{name}.out", "activations", self.residual)

    def _linear_input(self, linear: str) -> None:
        """The 16-bit copy of a norm's output that a matrix product reads and keeps."""
        if self.width.casts:
            self.hold(f"{linear}.in", "activations", self.compute)

    def _cast(self, name: str, values: float) -> None:
        if self.width.casts:
            self.hold(f"{name}.cast", "cast_copies", self.width.compute * values)

    def _gradient(self, name: str, values: float) -> None:
        """A parameter's gradient: kept the first time, added and freed later."""
        size = self.width.parameter * values
        if self.first:
            self.hold(f"{name}.grad", "gradients", size)
        else:
            self.hold("added", "gradients", size)
            self.free("added")

    # Forward ------------------------------------------------------------------------

    def _loss_forward(self) -> None:
        self.ledger.moment = "loss"
        self._linear_input("head")
        self._cast("head", self.table)
        if self.config.loss_rows:
            self._slices()
            return
        logits = self.rows * self.shape.vocab
        self.hold("scores", "logits", self.width.compute * logits)
        if self.width.compute < 4:
            self.hold("scores32", "logits", 4.0 * logits)
            self.free("scores")
        self.hold("log_softmax", "logits", 4.0 * logits)
        self.free("scores32" if self.width.compute < 4 else "scores")
        if self.width.casts:
            self.free("norm.out")

    def _slices(self) -> None:
        """Logits of one slice at a time, and both gradients at once; only those two stay."""
        rows = min(float(self.config.loss_rows), self.rows)
        slice_values = rows * self.shape.vocab
        self.hold("buffer", "logits", self.width.compute * slice_values)
        self.hold("dx", "transient", self.compute)
        self.hold("head.grad", "gradients", self.width.parameter * self.table)
        if self.width.compute < 4:
            self.hold("scores32", "logits", 4.0 * slice_values)
            self.free("scores32")
        else:
            self.hold("weighed", "transient", 4.0 * rows * self.shape.width)
            self.free("weighed")
        if self.width.casts:
            self.hold("dw", "transient", self.width.compute * self.table)
            self.free("dw", "head.cast", "head.in")
        self.free("buffer", "norm.out")

    # Backward -----------------------------------------------------------------------

    def _loss_backward(self) -> None:
        self.ledger.moment = "backward of the loss"
        if not self.config.loss_rows:
            self._logits_backward()
        elif self.width.casts:
            self.hold("dn", "transient", self.residual)
            self.free("dx")
        else:
            self.rename("dx", "dn")
        self.hold("g", "transient", self.residual)
        self.free("dn", "norm.stats", f"x{self.shape.layers}")
        self._gradient("norm", 2 * self.shape.width)

    def _logits_backward(self) -> None:
        logits = self.rows * self.shape.vocab
        self.hold("loss.grad", "logits", 4.0 * logits)
        self.hold("softmax.grad", "logits", 4.0 * logits)
        self.free("loss.grad", "log_softmax")
        if self.width.compute < 4:
            self.hold("scores.grad", "logits", self.width.compute * logits)
            self.free("softmax.grad")
        self.hold("dw", "transient", self.width.compute * self.table)
        self.hold("dx", "transient", self.compute)
        self.free("scores.grad" if self.width.compute < 4 else "softmax.grad")
        if self.width.casts:
            self.free("head.cast", "head.in")
            self.hold("dn", "transient", self.residual)
            self.free("dx")
            self.hold("head.grad", "gradients", self.width.parameter * self.table)
            self.free("dw")
        else:
            self.free("norm.out")
            self.rename("dx", "dn")
            self.rename("dw", "head.grad", "gradients")
