"""The document's GPT-2 walk-through as functions: tables 17, 18 and 19 (Napkin math 1.9).

Each takes its assumptions as arguments, so that a reader can change them: the factor
by which checkpointing divides activations, durations, powers, prices. Taught in
chapter 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import number, positive
from ..units import DAY, KWH
from . import activations, cost, memory, pipeline, recompute


@dataclass(frozen=True)
class Decoder:
    """What the document's memory model needs to know of a model and its micro-batch."""

    parameters: float = 1.5e9
    layers: int = 48
    width: int = 1600
    heads: int = 25
    seq: int = 1024
    batch: int = 4

    @property
    def activations(self) -> float:
        """Activation bytes in 16-bit formats, nothing recomputed."""
        return activations.document_bytes(self.layers, self.batch, self.seq, self.width,
                                          self.heads)


@dataclass(frozen=True)
class Rung:
    """One step of the ladder: total bytes, the activations in them, extra work per step."""

    name: str
    total_bytes: float
    activation_bytes: float
    extra_flops: float


def ladder(model: Decoder, reduction: float = 4.0) -> list[Rung]:
    """Table 18's memory, rung by rung: FP32, mixed precision, and checkpointing.

    `reduction` is what checkpointing is assumed to divide activations by. The document
    takes 4; its own square-root rule gives 3.46 for 48 layers. The FP32 rung doubles
    the 16-bit activations as the document does (`audited_fp32` does not).
    """
    half = model.activations
    double = activations.rescaled_bytes(half)
    small = activations.reduced_bytes(half, reduction)
    return [
        Rung("FP32", _fp32_total(model.parameters, double), double, 0.0),
        Rung("mixed precision", memory.training_total(model.parameters, half), half, 0.0),
        Rung("and checkpointing", memory.training_total(model.parameters, small), small,
             recompute.step_overhead()),
    ]


def audited_fp32(model: Decoder) -> float:
    """The FP32 rung with one-byte dropout masks: 90.1 GB where the document says 95.7."""
    kept = activations.document_bytes(
        model.layers, model.batch, model.seq, model.width, model.heads,
        activations.TOKEN_FACTOR_FP32, activations.SCORE_FACTOR_FP32)
    return _fp32_total(model.parameters, kept)


def _fp32_total(parameters: float, kept: float) -> float:
    """FP32 throughout, no master copy: 4 + 4 + 8 bytes per parameter and activations."""
    return memory.training_total(parameters, kept, weight_bytes=4.0, gradient_bytes=4.0,
                                 master_bytes=0.0)


@dataclass(frozen=True)
class Strategy:
    """One column of table 17 in numbers: what it works on, before and after."""

    name: str
    quantity: str
    before: float
    after: float


def table_17(
    model: Decoder, stage_seconds: tuple[float, ...], effective_batch: int, reduction: float = 4.0
) -> list[Strategy]:
    """Table 17 for a model and a data pipeline: prefetching, mixed precision, and the pair.

    Prefetching changes the iteration (seconds); mixed precision weights, gradients and
    activations (bytes); accumulation and checkpointing the activations of the
    effective batch (bytes). Each buys its gain elsewhere: buffers, numerics, time.
    """
    rungs = ladder(model, reduction)
    whole = activations.at_batch(model.activations, model.batch, effective_batch)
    return [
        Strategy("prefetching and overlap", "iteration, s", pipeline.serial_seconds(stage_seconds),
                 pipeline.iteration_seconds(stage_seconds)),
        Strategy("mixed precision", "training state and activations, B", rungs[0].total_bytes,
                 rungs[1].total_bytes),
        Strategy("accumulation and checkpointing", "activations, B", whole,
                 rungs[2].activation_bytes),
    ]


@dataclass(frozen=True)
class Cluster:
    """Power and prices of the scenario in table 19, all of them assumptions."""

    accelerators: int = 32
    watts: float = 300.0
    hosts: int = 4
    host_watts: float = 200.0
    pue: float = 1.12
    price_per_kwh: float = 0.10
    kg_per_kwh: float = 0.43


@dataclass(frozen=True)
class RunBill:
    """What a run of that length costs the cluster."""

    days: float
    kwh: float
    electricity: float
    carbon_kg: float


def bill(seconds: float, cluster: Cluster) -> RunBill:
    """Energy, electricity and carbon of a run at constant power (table 19)."""
    joules = cost.energy_joules(cluster.accelerators, cluster.watts, seconds,
                                hosts=cluster.hosts, host_watts=cluster.host_watts,
                                pue=cluster.pue)
    return RunBill(seconds / DAY, joules / KWH,
                   cost.electricity_cost(joules, cluster.price_per_kwh),
                   cost.carbon_kg(joules, cluster.kg_per_kwh))


@dataclass(frozen=True)
class Table19:
    """Both columns of table 19: memory in bytes and the bill of the run."""

    baseline_bytes: float
    optimised_bytes: float
    baseline: RunBill
    optimised: RunBill


def table_19(
    model: Decoder, cluster: Cluster, baseline_seconds: float, speedup: float,
    reduction: float = 4.0,
) -> Table19:
    """Table 19: FP32 against mixed precision with checkpointing, and a run `speedup` faster.

    Power is held constant, so energy falls exactly as time does. The speed-up is an
    assumption: the document credits it to prefetching here and to FP16 in Napkin
    math 1.7.
    """
    rungs = ladder(model, reduction)
    seconds = positive("baseline_seconds", baseline_seconds)
    faster = seconds / number("speedup", speedup, low=1.0)
    return Table19(rungs[0].total_bytes, rungs[2].total_bytes, bill(seconds, cluster),
                   bill(faster, cluster))
