"""Splitting the model: pipeline stages with their bubbles, tensor parallelism, placement.

K stages or ways, m micro-batches, times in seconds, bytes per accelerator. Taught in
chapter 6 (section 1.6.1 and 1.6.2, table 20).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError, choice, count, positive
from .scaling import ring_bytes
from .schedule import Event

SCHEDULES = ("naive", "gpipe", "1f1b")


def bubble_share(stages: int, micro_batches: int) -> float:
    """Idle share of a filled and drained pipeline, (K - 1) / (m + K - 1).

    The same for GPipe and 1F1B, which differ in memory. One micro-batch is the naive
    split, where each of K stages idles (K - 1) / K of the time.
    """
    k, m = count("stages", stages), count("micro_batches", micro_batches)
    return (k - 1) / (m + k - 1)


def micro_batches_for_bubble(stages: int, share: float) -> int:
    """The fewest micro-batches whose bubble is at most `share`."""
    wanted = positive("share", share)
    k = count("stages", stages)
    m = 1
    while bubble_share(k, m) > wanted * (1 + 1e-12):
        m += 1
    return m


def micro_batches_in_flight(stages: int, micro_batches: int, schedule: str) -> int:
    """Micro-batches whose activations the first stage holds at its peak.

    GPipe runs all forwards first: m. 1F1B starts backward as soon as it can: min(m, K).
    """
    choice("schedule", schedule, SCHEDULES)
    k, m = count("stages", stages), count("micro_batches", micro_batches)
    return {"naive": 1, "gpipe": m, "1f1b": min(m, k)}[schedule]


def play(
    stages: int,
    micro_batches: int,
    schedule: str = "1f1b",
    forward_seconds: float = 1.0,
    backward_seconds: float = 2.0,
) -> list[Event]:
    """The timeline of one step: events of kind 'forward' and 'backward' on 'stage 0'...

    A stage starts a forward when the stage before has done its own, a backward when
    the stage after has; within a stage the schedule fixes the order. Transfers take no
    time here.
    """
    k, m = count("stages", stages), count("micro_batches", micro_batches)
    seconds = {"forward": positive("forward_seconds", forward_seconds),
               "backward": positive("backward_seconds", backward_seconds)}
    choice("schedule", schedule, SCHEDULES)
    todo = [_order(k, m, stage, schedule) for stage in range(k)]
    done: dict[tuple[str, int, int], float] = {}
    free = [0.0] * k
    events: list[Event] = []
    while any(todo):
        moved = False
        for stage in range(k):
            while todo[stage]:
                kind, batch = todo[stage][0]
                needs = _needs(k, m, stage, kind, batch, schedule)
                if any(need not in done for need in needs):
                    break
                start = max([free[stage], *(done[need] for need in needs)])
                free[stage] = done[(kind, stage, batch)] = start + seconds[kind]
                events.append(Event(f"stage {stage}", batch, start, free[stage], kind=kind))
                todo[stage].pop(0)
                moved = True
        if not moved:
            raise InputError("schedule", schedule, "an order without a cycle")
    return sorted(events, key=lambda event: (event.start, event.stage))


def _order(k: int, m: int, stage: int, schedule: str) -> list[tuple[str, int]]:
    if schedule == "naive":
        return [(kind, batch) for batch in range(m) for kind in ("forward", "backward")]
    if schedule == "gpipe":
        return ([("forward", batch) for batch in range(m)]
                + [("backward", batch) for batch in reversed(range(m))])
    warm = min(m, k - stage)
    order = [("forward", batch) for batch in range(warm)]
    for batch in range(m):
        order.append(("backward", batch))
        if warm + batch < m:
            order.append(("forward", warm + batch))
    return order


def _needs(
    k: int, m: int, stage: int, kind: str, batch: int, schedule: str
) -> list[tuple[str, int, int]]:
    needs = []
    if kind == "forward":
        if stage:
            needs.append(("forward", stage - 1, batch))
        elif schedule == "naive" and batch:
            needs.append(("backward", 0, batch - 1))
    else:
        needs.append(("forward", stage, batch) if stage == k - 1
                     else ("backward", stage + 1, batch))
    return needs


def tensor_parallel_bytes(
    layers: int, batch: int, seq: int, width: int, ways: int, bytes_per_value: float = 2.0
) -> float:
    """Bytes sent per step and accelerator by Megatron's split of attention and feed-forward.

    Two all-reduces forward and two backward per layer, each of B S d values.
    """
    tensor = (float(count("batch", batch)) * count("seq", seq) * count("width", width)
              * positive("bytes_per_value", bytes_per_value))
    return 4.0 * count("layers", layers) * ring_bytes(tensor, count("ways", ways))


def pipeline_parallel_bytes(
    batch: int, seq: int, width: int, bytes_per_value: float = 2.0
) -> float:
    """Bytes that an inner stage sends per step: B S d forward and as many backward."""
    return 2.0 * (float(count("batch", batch)) * count("seq", seq) * count("width", width)
                  * positive("bytes_per_value", bytes_per_value))


@dataclass(frozen=True)
class Placement:
    """One row of table 20 in numbers: bytes and messages per step, and where they belong."""

    strategy: str
    sent_bytes: float
    exchanges: int
    placed: str


def table_20(
    parameters: float, layers: int, batch: int, seq: int, width: int,
    tensor_ways: int, pipeline_stages: int, data_ways: int, bytes_per_value: float = 2.0,
) -> list[Placement]:
    """Table 20: the three kinds of parallelism, the most frequent exchange first.

    Tensor parallelism must wait for an exchange inside every layer, so it takes the
    fastest links (a node); pipeline stages pass one boundary tensor on (a rack); data
    parallelism exchanges gradients of its own shard once a step (across racks).
    """
    shard = positive("parameters", parameters) / (count("tensor_ways", tensor_ways)
                                                  * count("pipeline_stages", pipeline_stages))
    rows = [
        Placement("tensor", tensor_parallel_bytes(layers, batch, seq, width, tensor_ways,
                                                  bytes_per_value) / pipeline_stages,
                  4 * layers // pipeline_stages, "inside a node"),
        Placement("pipeline", pipeline_parallel_bytes(batch, seq, width, bytes_per_value), 2,
                  "between nodes of a rack"),
        Placement("data", ring_bytes(shard * bytes_per_value, count("data_ways", data_ways)), 1,
                  "between racks"),
    ]
    return sorted(rows, key=lambda row: row.exchanges, reverse=True)
