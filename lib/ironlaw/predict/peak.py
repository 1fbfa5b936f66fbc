"""The peak memory of a training step, before it runs: what PyTorch will allocate.

`step_memory` walks the step of `ironlaw.gpt2` on paper (`allocations`) and agrees with
PyTorch's own tracker to a fraction of a percent; `closed_form` is the formula one can
remember. With precision 'document' the document's budget is used instead.
All results in bytes. Not in them: the CUDA context, cuBLAS workspaces, the allocator's
rounding and fragmentation; measure those once per device. Taught in chapters 2 and 5.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache

from ..config import ATTENTION_FORMS, RunConfig
from ..errors import InputError, choice, count
from ..transformer import Shape
from . import activations, optimizers, recompute
from .allocations import Walk
from .allocations_loss import WIDTHS


@dataclass(frozen=True)
class StepMemory:
    """Bytes at the fullest moment of a step, by kind; `moment` says which moment it is.

    `cast_copies` are 16-bit copies of weights that autocast makes, `logits` everything
    of size B S V, `transient` what lives for a few operations only. The kinds sum to
    `peak`.
    """

    parameters: float
    gradients: float
    optimizer: float
    cast_copies: float
    activations: float
    logits: float
    transient: float
    peak: float
    moment: str

    def to_json(self) -> dict[str, float]:
        """The kinds and the peak, without the moment's name."""
        return {k: v for k, v in asdict(self).items() if k != "moment"}


@lru_cache(maxsize=4096)
def step_memory(config: RunConfig) -> StepMemory:
    """Peak memory of a settled step (moments exist already) on one accelerator.

    'adam' and 'adamw' mean PyTorch's multi-tensor kernels, its choice on an
    accelerator. For 'adafactor', 'adam-8bit' and 'galore' the state is counted and
    their workspace is not. Attention "tiled" counts as "flash": it keeps the same tensors for
    backward (its float32 sums made a 16-bit step up to 1.4 % larger where it was tracked).
    """
    if config.precision == "document":
        return _document(config)
    ledger = Walk(config).run()
    return StepMemory(**ledger.peak_kinds, peak=ledger.peak, moment=ledger.peak_moment)


def _document(config: RunConfig) -> StepMemory:
    """2 + 2 + 4 bytes per parameter, FP32 moments, and the document's activations."""
    shape, p = config.shape, float(config.shape.parameters)
    per_block = {"layers": 1, "batch": config.batch, "seq": config.sequence,
                 "width": shape.width}
    lean = activations.selective_bytes(**per_block)
    block = lean if config.attention != "materialised" else activations.document_bytes(
        **per_block, heads=shape.heads)
    kept = recompute.stored(
        shape.layers, config.recompute, block_bytes=block, selective_block_bytes=lean,
        boundary_bytes=activations.hidden_bytes(config.batch, config.sequence, shape.width))
    moments = optimizers.state_bytes(shape, config.optimizer)
    return StepMemory(parameters=2 * p, gradients=2 * p, optimizer=4 * p + moments,
                      cast_copies=0.0, activations=kept.peak_bytes, logits=0.0, transient=0.0,
                      peak=8 * p + moments + kept.peak_bytes, moment="the document's sum")


def block_bytes(
    batch: int, seq: int, width: int, heads: int, precision: str, attention: str = "flash"
) -> float:
    """Bytes that one block leaves for backward, without dropout: PyTorch's real 34 + 5 a s / h.

    Autocast keeps `36 b s h + 16 b s` (the residual stream stays FP32) and pure 16-bit
    `32 b s h`, FP32 `64 b s h`; tiled attention adds one FP32 statistic per row and
    head, `4 a b s`; materialised attention instead an FP32 softmax and, where products
    run in 16 bits, its copy: `6 a b s^2`, or `4 a b s^2` in FP32.

    For a batch of several sequences. Of a single one, materialised attention reads keys and
    values where the product wrote them and keeps all of that, `b s h` values more;
    `step_memory` counts them.
    """
    choice("precision", precision, WIDTHS)
    choice("attention", attention, ATTENTION_FORMS)
    rows = float(count("batch", batch)) * count("seq", seq)
    wide = WIDTHS[precision]
    # Two residual tensors, two norm outputs as the products read them, q k v, their
    # result, and both 4 d tensors: 2 x residual and 14 x compute.
    linear = (2 * wide.residual + 14 * wide.compute) * rows * count("width", width) + 16 * rows
    if attention != "materialised":
        return linear + 4 * rows * count("heads", heads)
    copy = wide.compute if wide.compute < 4 else 0.0
    return linear + (4 + copy) * rows * count("heads", heads) * seq


def closed_form(
    shape: Shape, batch: int, seq: int, *, accumulate: int = 1, foreach: bool = True
) -> float:
    """Peak of an autocast step with tiled attention and AdamW, nothing recomputed.

    12 P (16 P once gradients accumulate) + L (36 b s h + 16 b s + 4 a b s) + 24 L h^2
    + 6 b s h + 8 b s + 2 V h + 12 b s V, at the backward pass of the loss; but at least
    16 P, and 20 P with multi-tensor kernels, at the update. Symbols: b batch,
    s sequence, h width, a heads, L layers, V vocabulary, P parameters.
    """
    p, h, layers = float(shape.parameters), float(shape.width), shape.layers
    rows = float(count("batch", batch)) * count("seq", seq)
    state = (16 if count("accumulate", accumulate) > 1 else 12) * p
    at_loss = (state
               + layers * block_bytes(batch, seq, shape.width, shape.heads, "amp-bf16")
               + 24 * layers * h * h + 6 * rows * h + 8 * rows
               + 2 * shape.vocab * h + 12 * rows * shape.vocab)
    return max(at_loss, (20 if foreach else 16) * p)


def common_estimates(config: RunConfig) -> dict[str, float]:
    """What well-known rules of thumb say for the same step, to be held against the truth.

    '18 bytes per parameter' counts state with an untied head and forgets activations;
    'largest state' takes the maximum of weights, gradients and moments where the sum
    is needed; '34 + 5 a s / h' adds the document's activations to 16 bytes per
    parameter and leaves logits out.
    """
    shape = config.shape
    untied = shape.parameters + shape.vocab * shape.width
    if config.precision == "document":
        raise InputError("precision", "document", "one that PyTorch runs",
                         "The document's recipe is itself the third estimate.")
    document = activations.document_bytes(shape.layers, config.batch, config.sequence,
                                          shape.width, shape.heads)
    return {
        "18 bytes per parameter": 18.0 * untied,
        "largest state": 8.0 * shape.parameters + document,
        "34 + 5 a s / h": 16.0 * shape.parameters + document,
    }
