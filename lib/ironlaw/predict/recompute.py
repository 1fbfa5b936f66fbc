"""Recomputation: which activations to keep, what it costs to do without the rest.

Memory is counted in units of A, one layer's activations; work in layer forwards.
Taught in chapters 2 and 5 (algorithm 2, tables 15 and 16).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..config import blocks_per_segment
from ..errors import InputError, count, positive
from . import activations, flops


def best_checkpoints(layers: int) -> float:
    """k* = sqrt(N_L), which minimises k + N_L / k (not rounded)."""
    return math.sqrt(count("layers", layers))


def kept_layers(layers: int, checkpoints: int) -> float:
    """Table 15, row 3: memory k + N_L / k, in units of A.

    Audit: row 2 of that table prints A for one boundary; this gives N_L + 1 there,
    because the one segment that is recomputed has to be kept while it is used.
    """
    k = _checkpoints(layers, checkpoints)
    return k + layers / k


def recomputed_layers(layers: int, checkpoints: int) -> int:
    """Table 15: layer forwards done twice, N_L - k."""
    return layers - _checkpoints(layers, checkpoints)


def quadratic_recompute(layers: int) -> float:
    """Layer forwards if memory really stays near A: N_L (N_L - 1) / 2.

    Keeping nothing but the input means starting again from it for every layer.
    """
    n = count("layers", layers)
    return n * (n - 1) / 2


def memory_saving(layers: int, kept: float) -> float:
    """Share of N_L x A that is saved when `kept` x A remain."""
    n = count("layers", layers)
    if positive("kept", kept) > n:
        raise InputError("kept", kept, f"at most layers = {layers}")
    return 1.0 - kept / n


def memory_reduction(layers: int, checkpoints: int) -> float:
    """N_L over k + N_L / k: by how much the square-root rule divides activations.

    3.46 for 48 layers and k = 7; the document's walk-through assumes 4.
    """
    return layers / kept_layers(layers, checkpoints)


def recomputed_share_of_forward(layers: int, checkpoints: int) -> float:
    """Recomputed layers as a share of one forward pass."""
    return recomputed_layers(layers, checkpoints) / layers


def recomputed_share_of_step(
    layers: int, checkpoints: int, backward_over_forward: float = 2.0
) -> float:
    """Recomputed layers as a share of a step of forward and backward."""
    step = 1.0 + positive("backward_over_forward", backward_over_forward)
    return recomputed_share_of_forward(layers, checkpoints) / step


def step_overhead(extra_forwards: float = 1.0, backward_over_forward: float = 2.0) -> float:
    """Extra work of `extra_forwards` whole forwards over a step: 1 / (1 + 2) = 33 %."""
    return positive("extra_forwards", extra_forwards) / (
        1.0 + positive("backward_over_forward", backward_over_forward))


@dataclass(frozen=True)
class Action:
    """One step of algorithm 2: what is done to which layer, and the memory after it in A."""

    kind: str
    layer: int
    memory: int


@dataclass(frozen=True)
class Schedule:
    """A played-out checkpointed step: its actions, peak memory in A, recomputed layers."""

    actions: tuple[Action, ...]
    peak: int
    recomputed: int


def evenly_kept(layers: int, checkpoints: int) -> list[int]:
    """The layers, numbered from 0, that k evenly spaced checkpoints keep; the last is one."""
    k = _checkpoints(layers, checkpoints)
    return [(i + 1) * layers // k - 1 for i in range(k)]


def play(layers: int, kept: Iterable[int], *, keep_segment: bool = True) -> Schedule:
    """Algorithm 2: forward keeps the activations of the layers in `kept`, backward redoes the rest.

    The input of the network is always there. Arriving at a layer whose activations
    were dropped, the backward pass recomputes from the nearest kept layer below
    through this one and holds the whole segment. With `keep_segment` False it holds
    only the layer in hand, and starts again for the next one: little memory and
    quadratic work. Audit: the algorithm as printed does not say which; the claimed
    memory and work need the segment kept.
    """
    n = count("layers", layers)
    stored = set(kept)
    if not stored <= set(range(n)):
        raise InputError("kept", sorted(stored), f"layers from 0 to {n - 1}")
    actions: list[Action] = []
    memory = peak = recomputed = 0

    def act(kind: str, layer: int, change: int) -> None:
        nonlocal memory, peak
        memory += change
        peak = max(peak, memory)
        actions.append(Action(kind, layer, memory))

    for layer in range(n):
        act("keep" if layer in stored else "drop", layer, int(layer in stored))
    held = set(stored)
    for layer in reversed(range(n)):
        if layer not in held:
            below = max((k for k in held if k < layer), default=-1)
            for again in range(below + 1, layer + 1):
                recomputed += 1
                holds = keep_segment or again == layer
                act("recompute", again, int(holds))
                if holds:
                    held.add(again)
        held.remove(layer)
        act("backward", layer, -1)
    return Schedule(tuple(actions), peak, recomputed)


def best_k(layers: int) -> int:
    """The number of checkpoints with the lowest peak, found by playing all of them.

    Among equals the one that recomputes least, which is the one that keeps most: 6, 7 and
    8 of 48 layers all peak at 12, and 8 leaves 40 to redo instead of 42. Close to
    sqrt(N_L), which leaves rounding out.
    """
    def cost(k: int) -> tuple[int, int]:
        played = play(layers, evenly_kept(layers, k))
        return played.peak, played.recomputed

    return min(range(1, count("layers", layers) + 1), key=cost)


@dataclass(frozen=True)
class Stored:
    """What a strategy keeps at its peak, bytes, and the block forwards that it repeats."""

    strategy: str
    segments: int
    peak_bytes: float
    recomputed_blocks: float


STRATEGIES = ("none", "selective", "every-block", "sqrt", "best")


def stored(
    layers: int,
    strategy: str,
    *,
    block_bytes: float,
    boundary_bytes: float,
    selective_block_bytes: float | None = None,
) -> Stored:
    """Peak activation bytes of all blocks under a strategy, with segments re-run whole.

    `block_bytes` is what one block keeps inside, `boundary_bytes` its input alone.
    k segments keep k inputs and, while one is redone, the insides of its ceil(N_L / k)
    blocks; 'every-3' makes segments of three, 'best' searches k. The square-root rule
    assumes that an input weighs as much as a block's inside; in a transformer it weighs a
    tenth or less, so 'best' lies near one block per segment.
    `selective_block_bytes` (a block without its S x S tensors) serves 'selective'.
    """
    n = count("layers", layers)
    inside = positive("block_bytes", block_bytes)
    edge = positive("boundary_bytes", boundary_bytes)
    together = None if strategy == "best" else blocks_per_segment(strategy, n, "strategy")
    if strategy == "none":
        return Stored(strategy, 0, n * inside, 0.0)
    if strategy == "selective":
        if selective_block_bytes is None:
            raise InputError("selective_block_bytes", None, "given for strategy 'selective'")
        return Stored(strategy, 0, n * positive("selective_block_bytes", selective_block_bytes),
                      0.0)

    def peak(k: int) -> float:
        return k * edge + math.ceil(n / k) * inside

    if together is not None:
        k = math.ceil(n / together)
    else:
        k = min(range(1, n + 1), key=lambda k: (peak(k), k))
    return Stored(strategy, k, peak(k), float(n))


@dataclass(frozen=True)
class TradeRow:
    """One row of table 15: memory in units of A and layer forwards done again."""

    strategy: str
    memory: float
    recomputed: float


def table_15(layers: int, checkpoints: int) -> list[TradeRow]:
    """Table 15 for N_L layers, its middle row put right.

    The document prints memory A and N_L - 1 forwards for one boundary. Those two do
    not go together: N_L - 1 forwards need about N_L A, and memory near A needs
    N_L (N_L - 1) / 2 forwards. Both appear here.
    """
    n = count("layers", layers)
    return [
        TradeRow("no checkpoint", float(n), 0.0),
        TradeRow("one boundary, segment kept", kept_layers(layers, 1),
                 float(recomputed_layers(layers, 1))),
        TradeRow("one boundary, memory near A",
                 float(play(layers, [layers - 1], keep_segment=False).peak),
                 quadratic_recompute(layers)),
        TradeRow(f"{checkpoints} checkpoints", kept_layers(layers, checkpoints),
                 float(recomputed_layers(layers, checkpoints))),
    ]


@dataclass(frozen=True)
class PlacementRow:
    """Table 16 in numbers: what a part of a block stores, and what redoing it costs."""

    part: str
    stored_bytes: float
    recompute_flops: float

    @property
    def bytes_per_flop(self) -> float:
        """Bytes freed per FLOP spent: recompute where this is large."""
        return self.stored_bytes / self.recompute_flops


def table_16(batch: int, seq: int, width: int, heads: int) -> list[PlacementRow]:
    """Table 16 for one block in 16-bit formats, by the document's 34 + 5 H S / d.

    Splits its bytes as Korthikanti et al. do: attention's linear tensors 11, scores
    5 H S / d, feed-forward 19, norms 4 bytes per token and channel. A norm's FLOP are
    counted as 8 per value.
    """
    tokens_width = float(count("batch", batch)) * count("seq", seq) * count("width", width)
    work = flops.layer_forward(batch, seq, width)
    return [
        PlacementRow("attention: scores and softmax",
                     activations.score_bytes(batch, heads, seq),
                     work.scores + work.weighted_values),
        PlacementRow("attention: projections", 11 * tokens_width, work.qkv + work.projection),
        PlacementRow("feed-forward", 19 * tokens_width, work.feed_forward),
        PlacementRow("normalisation", 4 * tokens_width, 2 * 8 * tokens_width),
    ]


def _checkpoints(layers: int, checkpoints: int) -> int:
    return count("checkpoints", checkpoints, high=count("layers", layers))
