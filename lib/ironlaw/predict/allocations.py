"""A training step of GPT-2 as PyTorch allocates it, tensor by tensor.

The step is walked once with sizes instead of tensors: forward, loss, backward, update.
Each line holds or frees what eager PyTorch holds or frees there, so the largest moment
is the step's peak and the ledger tells what it consists of. Follows `ironlaw.gpt2`
(dropout 0) operation by operation; `peak` is the front door.

Symbols: b batch, s sequence, h width, a heads, V vocabulary; sizes in bytes.
"""

from __future__ import annotations

from ..config import RunConfig, blocks_per_segment
from .allocations_loss import LossWalk
from .ledger import Ledger
from .optimizers import MOMENTS, matrices, state_bytes

_LINEARS = ("qkv", "projection", "expand", "contract")


class Walk(LossWalk):
    """One step of `config` on a ledger: `run` it, then read `ledger`.

    Names of tensors are "block.what"; `first` is true in the first micro-batch, whose
    gradients stay, while later ones are added to them and freed.
    """

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.pairs = self.rows * config.sequence * self.shape.heads
        self._together = blocks_per_segment(config.recompute, self.shape.layers)
        self.square = float(self.shape.width) ** 2
        self.flash = config.attention != "materialised"
        # The heads of one sequence lie in its qkv at even distances, so products read keys and
        # values there; those of several have to be copied together first.
        self.copies_heads = config.batch > 1

    def run(self) -> Ledger:
        """A settled step: moments exist, gradients do not; two micro-batches show all."""
        self.hold("parameters", "parameters", self.width.parameter * self.shape.parameters)
        self.hold("moments", "optimizer",
                  state_bytes(self.shape, self.config.optimizer,
                              bytes_per_value=self.width.parameter))
        self.hold("tokens", "transient", 16.0 * self.rows * self.config.accumulate)
        for micro_batch in range(min(self.config.accumulate, 2)):
            self.first = micro_batch == 0
            self._forward()
            self._loss_backward()
            for first, last in reversed(self._segments()):
                self._segment_backward(first, last)
            self._embedding_backward()
        self._update()
        return self.ledger

    # Forward ------------------------------------------------------------------------

    def _segments(self) -> list[tuple[int, int]]:
        """Blocks that are re-run together: all ranges, or one range that is not."""
        n = self.shape.layers
        step = self._together or n
        return [(i, min(i + step, n)) for i in range(0, n, step)]

    @property
    def _reruns(self) -> bool:
        return self._together is not None

    def _forward(self) -> None:
        self.ledger.moment = "forward"
        self.hold("x0", "activations", self.residual)
        if not self.flash:
            self.hold("mask", "transient", 4.0 * self.config.sequence**2)
        for first, last in self._segments():
            for block in range(first, last):
                self._block_forward(block, saved=not self._reruns)
                if self._reruns and block > first:
                    self.free(f"x{block}")
        if not (self.flash or self._reruns or self.config.recompute == "selective"):
            self.free("mask")
        self._norm("norm")
        self._loss_forward()
        if self.width.casts and self._reruns:
            # Autocast's cache kept them until here; the graph does not.
            for block in range(self.shape.layers):
                self.free(*(f"{block}.{name}.cast" for name in _LINEARS))

    def _block_forward(self, i: int, *, saved: bool, again: bool = False) -> None:
        """Forward of block `i`; `saved` keeps what backward needs, `again` re-runs it."""
        c, cached = self.compute, self.width.casts and not saved
        self._norm(f"{i}.norm_1")
        self._linear_input(f"{i}.qkv")
        self._cast(f"{i}.qkv", 3 * self.square)
        self.hold(f"{i}.qkv", "activations", 3 * c)
        if cached:
            self.free(f"{i}.qkv.in")
        if self.flash:
            self.hold(f"{i}.y", "activations", c)
            self.hold(f"{i}.lse", "activations", 4.0 * self.rows * self.shape.heads)
        else:
            recomputed = self.config.recompute == "selective"
            self._scores_forward(i, saved=saved and not recomputed)
            self.hold(f"{i}.y", "activations", c)
            self.free(f"{i}.heads")
            if saved and not recomputed and self.copies_heads:
                self.free(f"{i}.qkv")
        self._cast(f"{i}.projection", self.square)
        self.hold("branch", "transient", c)
        self.hold(f"{i}.mid", "activations", self.residual)
        self.free("branch")
        self._drop_input(f"{i}.norm_1", saved)
        if not saved:
            self.free(f"{i}.qkv", f"{i}.y", f"{i}.norm_1.stats")
            if self.flash:
                self.free(f"{i}.lse")
        self._norm(f"{i}.norm_2")
        self._linear_input(f"{i}.expand")
        self._cast(f"{i}.expand", 4 * self.square)
        self.hold(f"{i}.expand", "activations", 4 * c)
        if cached:
            self.free(f"{i}.expand.in")
        self.hold(f"{i}.gelu", "activations", 4 * c)
        if not saved:
            self.free(f"{i}.expand")
        self._cast(f"{i}.contract", 4 * self.square)
        if again:  # a re-run stops at the last tensor that backward asked for
            self._drop_input(f"{i}.norm_2", saved)
            return
        self.hold("branch", "transient", c)
        if not saved:
            self.free(f"{i}.gelu")
        self.hold(f"x{i + 1}", "activations", self.residual)
        self.free("branch")
        self._drop_input(f"{i}.norm_2", saved)
        if not saved:
            self.free(f"{i}.mid", f"{i}.norm_2.stats")

    def _drop_input(self, norm: str, saved: bool) -> None:
        """A norm's output goes when its caller returns, unless the next product keeps it."""
        if self.width.casts or not saved:
            self.free(f"{norm}.out")

    def _scores_forward(self, i: int, *, saved: bool) -> None:
        """softmax(q k^T) v with every S x S tensor in memory."""
        c, c_pairs = self.compute, self.width.compute * self.pairs
        if self.copies_heads:
            self.hold(f"{i}.scaled", "transient", c)
            self.hold(f"{i}.k", "activations", c)
        self.hold(f"{i}.q", "activations", c)
        self.hold(f"{i}.scores", "transient", c_pairs)
        if self.copies_heads:
            self.free(f"{i}.scaled")
        if self.width.compute < 4:
            self.hold(f"{i}.scores32", "transient", 4 * self.pairs)
        self.hold(f"{i}.softmax", "activations", 4 * self.pairs)
        if self.width.compute < 4:
            self.free(f"{i}.scores32")
            self.hold(f"{i}.weights", "activations", c_pairs)
        if self.copies_heads:
            self.hold(f"{i}.v", "activations", c)
        self.hold(f"{i}.heads", "transient", c)
        self.free(f"{i}.scores")
        if not saved:
            self._free_scores(i)

    def _free_scores(self, i: int) -> None:
        self.free(f"{i}.q", f"{i}.softmax")
        if self.copies_heads:
            self.free(f"{i}.k", f"{i}.v")
        if self.width.compute < 4:
            self.free(f"{i}.weights")

    # Backward -----------------------------------------------------------------------

    def _segment_backward(self, first: int, last: int) -> None:
        self.ledger.moment = "backward of the blocks"
        if self._reruns:
            for block in range(first, last):
                self._block_forward(block, saved=True, again=block == last - 1)
        for block in reversed(range(first, last)):
            self._block_backward(block)

    def _block_backward(self, i: int) -> None:
        c = self.compute
        self._linear_backward(f"{i}.contract", 4, f"{i}.gelu", 4 * self.square, self.shape.width)
        self.hold("dgelu", "transient", 4 * c)
        self.free("dx", f"{i}.expand")
        self._linear_backward(f"{i}.expand", 1, self._kept(f"{i}.expand", f"{i}.norm_2"),
                              4 * self.square, 4 * self.shape.width, grad="dgelu")
        self._norm_backward(f"{i}.norm_2", f"{i}.mid")
        merged = None if self.flash else f"{i}.y"
        self._linear_backward(f"{i}.projection", 1, merged, self.square, self.shape.width)
        if self.flash:
            self.hold("dqkv", "transient", 3 * c)
            self.free("dx", f"{i}.qkv", f"{i}.y", f"{i}.lse")
        else:
            self._scores_backward(i)
        for _ in ("stack", "copy to [B, S, 3 d]"):
            self.hold("dqkv.copy", "transient", 3 * c)
            self.free("dqkv")
            self.rename("dqkv.copy", "dqkv")
        self._linear_backward(f"{i}.qkv", 1, self._kept(f"{i}.qkv", f"{i}.norm_1"),
                              3 * self.square, 3 * self.shape.width, grad="dqkv")
        self._norm_backward(f"{i}.norm_1", f"x{i}")

    def _kept(self, linear: str, norm: str) -> str:
        return f"{linear}.in" if self.width.casts else f"{norm}.out"

    def _linear_backward(
        self, name: str, factor: int, kept: str | None, values: float, bias: int,
        grad: str | None = None,
    ) -> None:
        """Both products of a linear layer: "dx" for what it read, and its weight's gradient.

        `grad` is freed; without one the incoming gradient is the residual stream's "g",
        which stays. `kept` is the input that forward saved.
        """
        copied = grad is None and self.width.residual != self.width.compute
        if copied:
            self.hold("g16", "transient", self.compute)
        self.hold("dx", "transient", factor * self.compute)
        self.hold("dw", "transient", self.width.compute * values)
        self.free(*(n for n in (kept, grad, "g16" if copied else None) if n))
        if self.width.casts:
            self.free(f"{name}.cast")
        self.free("dw")
        if self.width.casts:
            self.hold("dw", "transient", self.width.compute * values)
        self._gradient(name, values + bias)
        if self.width.casts:
            self.free("dw")

    def _norm_backward(self, name: str, source: str) -> None:
        if self.width.residual != self.width.compute:
            self.hold("dn", "transient", self.residual)
            self.free("dx")
        else:
            self.rename("dx", "dn")
        self.hold("dsource", "transient", self.residual)
        self.free("dn", f"{name}.stats", source)
        self.hold("sum", "transient", self.residual)
        self.free("dsource", "g")
        self.rename("sum", "g")
        self._gradient(name, 2 * self.shape.width)

    def _scores_backward(self, i: int) -> None:
        c, c_pairs = self.compute, self.width.compute * self.pairs
        if self.config.recompute == "selective":
            self._scores_forward(i, saved=True)
            self.free(f"{i}.heads")
        self.hold("dv", "transient", c)
        self.hold("dweights", "transient", c_pairs)
        self.free("dx", *([f"{i}.v"] if self.copies_heads else []))
        if self.width.compute < 4:
            self.free(f"{i}.weights")
            self.hold("dsoftmax", "transient", 4 * self.pairs)
            self.free("dweights")
        else:
            self.rename("dweights", "dsoftmax")
        self.hold("dscores32", "transient", 4 * self.pairs)
        self.free("dsoftmax", f"{i}.softmax")
        if self.width.compute < 4:
            self.hold("dscores", "transient", c_pairs)
            self.free("dscores32")
        else:
            self.rename("dscores32", "dscores")
        self.hold("dqk", "transient", 2 * c)
        recomputed = self.config.recompute == "selective"
        self.free("dscores", f"{i}.q")
        if self.copies_heads:
            self.free(f"{i}.k")
        elif not recomputed:
            self.free(f"{i}.qkv")
        self.hold("dqkv", "transient", 3 * c)
        self.free("dqk", "dv")
        if recomputed:  # the re-run held its inputs until here
            self.free(f"{i}.qkv")

    def _embedding_backward(self) -> None:
        self.ledger.moment = "backward of the embeddings"
        if not self.flash and "mask" in self.ledger.live:
            self.free("mask")
        vocab = self.width.parameter * self.shape.vocab * self.shape.width
        self._gradient("positions", self.shape.context * self.shape.width)
        self.hold("lookup.grad", "gradients", vocab)
        self.free("g")
        self.hold("tied.grad", "gradients", vocab)
        self.free("lookup.grad", "head.grad")
        if self.first:
            self.rename("tied.grad", "embedding.grad")
        else:
            self.free("tied.grad")

    # Update -------------------------------------------------------------------------

    def _update(self) -> None:
        """Multi-tensor ("foreach") rules take the square root of all matrices at once."""
        self.ledger.moment = "optimizer step"
        rule = self.config.optimizer
        if rule in ("rmsprop", "adam", "adamw", "adamw-foreach") and MOMENTS[rule]:
            values = sum(rows * columns for rows, columns in matrices(self.shape))
            self.hold("root", "transient", self.width.parameter * values)
            self.free("root")
