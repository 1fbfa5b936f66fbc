"""More than one accelerator: what data parallelism exchanges, and what that costs.

Bytes are per accelerator, bandwidths one-way bytes/s of one accelerator's link (a
data sheet's NVLink figure is both directions: halve it). N accelerators. Taught in
chapter 6 (section 1.6, Napkin math 1.10). Splitting the model itself is in `parallel`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import choice, count, fraction, not_negative, number, positive
from . import memory


def total_chips(pods: int, chips_per_pod: int) -> int:
    """Chips of a machine built from equal pods."""
    return count("pods", pods) * count("chips_per_pod", chips_per_pod)


def link_bytes_per_second(bits_per_second: float, bits_per_byte: float = 8.0) -> float:
    """A network rate in bytes: 100 Gbit/s are 12.5 GB/s."""
    return positive("bits_per_second", bits_per_second) / positive("bits_per_byte", bits_per_byte)


def ring_factor(workers: int) -> float:
    """2 (N - 1) / N: tensor copies that each worker of a ring all-reduce sends.

    Approaches 2 from below; it depends on N, but is bounded.
    """
    n = count("workers", workers)
    return 2.0 * (n - 1) / n


def ring_bytes(tensor_bytes: float, workers: int) -> float:
    """Bytes that each worker sends in a ring all-reduce of a tensor."""
    return positive("tensor_bytes", tensor_bytes) * ring_factor(workers)


def ring_all_reduce_seconds(
    tensor_bytes: float, workers: int, bytes_per_second: float, latency_seconds: float = 0.0
) -> float:
    """2 (N - 1) rounds, each a latency and 1 / N of the tensor.

    Bandwidth-optimal; its latency grows with N.
    """
    sent = ring_bytes(tensor_bytes, workers) / positive("bytes_per_second", bytes_per_second)
    return sent + 2 * (workers - 1) * not_negative("latency_seconds", latency_seconds)


def tree_all_reduce_seconds(
    tensor_bytes: float,
    workers: int,
    bytes_per_second: float,
    latency_seconds: float = 0.0,
    chunks: int = 1,
) -> float:
    """Reduce up a binary tree and broadcast down it, the tensor cut into `chunks`.

    Depth D = ceil(log2 N); a pipeline of c chunks takes 2 (D + c - 1) rounds of one
    latency and 1 / c of the tensor, if a node serves both children at once. With one
    chunk 2 D whole tensors: good latency, poor bandwidth.
    """
    depth = math.ceil(math.log2(count("workers", workers)))
    pieces = count("chunks", chunks)
    if depth == 0:
        return 0.0
    each = not_negative("latency_seconds", latency_seconds) + positive(
        "tensor_bytes", tensor_bytes) / pieces / positive("bytes_per_second", bytes_per_second)
    return 2 * (depth + pieces - 1) * each


def hierarchical_all_reduce_seconds(
    tensor_bytes: float,
    nodes: int,
    workers_per_node: int,
    node_bytes_per_second: float,
    network_bytes_per_second: float,
    node_latency_seconds: float = 0.0,
    network_latency_seconds: float = 0.0,
) -> float:
    """Reduce-scatter inside each node, ring across nodes on 1 / n of the tensor, all-gather.

    `network_bytes_per_second` is one worker's share of the node's network link.
    """
    n = count("workers_per_node", workers_per_node)
    positive("node_bytes_per_second", node_bytes_per_second)
    positive("network_bytes_per_second", network_bytes_per_second)
    not_negative("node_latency_seconds", node_latency_seconds)
    not_negative("network_latency_seconds", network_latency_seconds)
    inside = ring_all_reduce_seconds(tensor_bytes, n, node_bytes_per_second, node_latency_seconds)
    return inside + ring_all_reduce_seconds(tensor_bytes / n, count("nodes", nodes),
                                            network_bytes_per_second, network_latency_seconds)


def efficiency(compute_seconds: float, communication_seconds: float) -> float:
    """eta = T_compute / (T_compute + T_comm) when nothing overlaps (Napkin math 1.10)."""
    compute = positive("compute_seconds", compute_seconds)
    return compute / (compute + not_negative("communication_seconds", communication_seconds))


def overlapped_efficiency(
    compute_seconds: float,
    communication_seconds: float,
    backward_share: float = 2.0 / 3.0,
    overlap: float = 1.0,
) -> float:
    """The same when a share `overlap` of the exchange may hide behind the backward pass.

    Backward takes two thirds of compute; what does not fit behind it is exposed.
    """
    compute = positive("compute_seconds", compute_seconds)
    exchange = not_negative("communication_seconds", communication_seconds)
    hidden = min(exchange * number("overlap", overlap, low=0.0, high=1.0),
                 compute * fraction("backward_share", backward_share))
    return compute / (compute + exchange - hidden)


def amdahl_speedup(accelerators: int, serial_share: float) -> float:
    """Speed-up when a share of one accelerator's step never shrinks (figure 14).

    N / (1 + (N - 1) s), at most 1 / s: the communication tax.
    """
    n = count("accelerators", accelerators)
    return n / (1.0 + (n - 1) * number("serial_share", serial_share, low=0.0, high=1.0))


def speedup_with_waiting(accelerators: int, waiting_share: float) -> float:
    """N (1 - w): speed-up when each accelerator waits a share w of every step.

    Audit: the document's 30 to 50 % on 8 accelerators give 5.6 to 4, not 6 to 4.
    """
    return count("accelerators", accelerators) * (1.0 - number("waiting_share", waiting_share,
                                                               low=0.0, high=1.0))


def layers_per_stage(layers: int, stages: int) -> float:
    """Layers on each pipeline stage if they divide evenly."""
    return count("layers", layers) / count("stages", stages)


SHARDINGS = ("ddp", "zero-1", "zero-2", "zero-3")


@dataclass(frozen=True)
class ShardedStep:
    """One accelerator's share of a data-parallel step: state in bytes, bytes sent per step."""

    sharding: str
    state: memory.TrainingState
    sent_bytes: float


def data_parallel(
    parameters: float,
    workers: int,
    sharding: str = "ddp",
    *,
    weight_bytes: float = 2.0,
    gradient_bytes: float = 2.0,
    master_bytes: float = 4.0,
    moment_bytes_each: float = 4.0,
    moments: int = 2,
) -> ShardedStep:
    """What each of N workers keeps and sends with DDP or ZeRO-1, -2, -3 (FSDP is ZeRO-3).

    ZeRO-1 shards the optimizer (master copies and moments), -2 the gradients as well,
    -3 the weights as well. DDP sends one all-reduce of the gradients. ZeRO-1 and -2
    send as much: a reduce-scatter of gradients and an all-gather of weights. ZeRO-3
    gathers the weights twice: half as much again when weights and gradients are
    equally wide.
    """
    choice("sharding", sharding, SHARDINGS)
    n = count("workers", workers)
    whole = memory.training_state(parameters, weight_bytes, gradient_bytes, master_bytes,
                                  moment_bytes_each, moments)
    level = SHARDINGS.index(sharding)
    state = memory.TrainingState(
        weights=whole.weights / (n if level >= 3 else 1),
        gradients=whole.gradients / (n if level >= 2 else 1),
        master=whole.master / (n if level >= 1 else 1),
        moments=whole.moments / (n if level >= 1 else 1),
    )
    one_way = (n - 1) / n
    sent = one_way * {0: 2 * whole.gradients, 1: whole.gradients + whole.weights,
                      2: whole.gradients + whole.weights,
                      3: whole.gradients + 2 * whole.weights}[level]
    return ShardedStep(sharding, state, sent)


def compressed_bytes(tensor_bytes: float, ratio: float) -> float:
    """Bytes after gradient compression by `ratio`, at least 1; its own work is not in it."""
    return positive("tensor_bytes", tensor_bytes) / number("ratio", ratio, low=1.0)
