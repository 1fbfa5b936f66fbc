"""The instruments' results as tables for the eye: what `print` and a notebook show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .units import gigabytes, memory, percent, si, significant

if TYPE_CHECKING:
    from .results_instruments import (
        AttentionMeasurement,
        Measured,
        PipelineMeasurement,
        PrecisionMeasurement,
        RecomputeMeasurement,
        WorkersMeasurement,
    )
    from .results_systems import (
        EnergyMeasurement,
        RecordingIndex,
        ScalingMeasurement,
        StepParts,
        TraceMeasurement,
    )


def text(result: Measured) -> str:
    """`result` in words and tables, then what could not be had and what to know about it."""
    lines = [f"{result.kind}: {result.device} ({result.device_type}), {result.threads} CPU "
             f"threads, PyTorch {result.versions.get('torch', '?')}, {result.measured_on}", ""]
    body = _BODIES.get(result.kind)
    lines += body(result) if body else []
    if result.reasons:
        lines += ["", "Not had", *(f"  {name}: {why}" for name, why in result.reasons.items())]
    if result.notes:
        lines += ["", "Notes", *(f"  {name}: {said}" for name, said in result.notes.items())]
    return "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]

    def line(cells: Sequence[str]) -> str:
        first, *others = (f"{c:<{w}}" if i == 0 else f"{c:>{w}}"
                          for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return "  ".join(["  " + first, *others]).rstrip()

    return [line(head), *(line(row) for row in rows)]


def _pipeline(result: PipelineMeasurement) -> list[str]:
    stages = [(s.name, si(s.seconds, "s"), significant(1 / s.seconds),
               si(result.tokens_per_batch / s.seconds, "tokens/s")) for s in result.stages]
    alone = [(str(x.workers), si(x.first_batch_seconds, "s"), significant(x.batches_per_second))
             for x in result.loaders]
    loops = [(str(x.workers), si(x.iteration_seconds, "s"), si(x.tokens_per_second, "tokens/s"),
              percent(x.idle_share), _hidden(result, x.workers)) for x in result.loops]
    return [*table(("stage alone", "per batch", "batches/s", "rate"), stages), "",
            *table(("loader's workers", "first batch", "batches/s"), alone), "",
            *table(("training, workers", "per step", "rate", "device idle", "wait hidden"),
                   loops)]


def _hidden(result: PipelineMeasurement, workers: int) -> str:
    if not workers:
        return "-"
    share = result.overlap(workers)
    return percent(share) if share > 0 else "none"


def _workers(result: WorkersMeasurement) -> list[str]:
    plural = {"thread": "s", "process": "es"}
    rows = [(f"{r.transform}, {r.workers} {r.kind}{plural[r.kind] * (r.workers > 1)}",
             si(r.items_per_second, "items/s"),
             significant(result.speedup(r.transform, r.kind, r.workers)) + " x")
            for r in result.rates]
    lock = "has a" if result.has_global_lock else "has no"
    return [f"This Python {lock} global lock.", "", *table(("work", "rate", "to one"), rows)]


def _precision(result: PrecisionMeasurement) -> list[str]:
    formats = [(f.format, f"{f.largest:.2e}", f"{f.rms:.2e}",
                "-" if f.product is None else f"{f.product:.2e}") for f in result.formats]
    lost = [(f"{u.of} in {u.format}", significant(u.loss_scale), percent(u.lost),
             percent(u.subnormal), str(u.overflowed)) for u in result.underflow]
    runs = [(r.precision + (", scaled" if r.loss_scaling else ""), si(r.seconds, "s"),
             significant(r.losses[-1], 5) if r.losses else "none", str(sum(r.non_finite)),
             str(r.skipped)) for r in result.runs]
    return [*table(("format", "largest error", "rms", "product"), formats), "",
            *table(("gradients of", "scale", "lost", "subnormal", "overflowed"), lost), "",
            *table(("precision", "per step", "last loss", "not finite", "skipped"), runs)]


def _attention(result: AttentionMeasurement) -> list[str]:
    rows = [(f"{t.method}, S = {t.seq}", si(t.seconds, "s"), si(t.both_seconds, "s"),
             gigabytes(t.saved_bytes, 4), memory(t.peak_bytes)) for t in result.timings]
    errors = [(e.method, f"{e.output:.1e}", *(f"{e.gradients[n]:.1e}" for n in "qkv"))
              for e in result.errors]
    return [f"{result.batch} x {result.heads} heads of {result.head_width}, {result.dtype}", "",
            *table(("method", "forward", "and backward", "saved", "peak"), rows), "",
            *table(("error in float32", "output", "dq", "dk", "dv"), errors)]


def _recompute(result: RecomputeMeasurement) -> list[str]:
    rows = [(p.policy, si(p.seconds, "s"), percent(p.overhead), percent(p.flop_overhead),
             gigabytes(p.saved_bytes, 4), memory(p.peak_bytes), f"{p.gradient_error:.1e}")
            for p in result.policies]
    parts = [(str(a.micro_batches), f"{a.gradient_error:.1e}", percent(a.mean_of_means_error),
              gigabytes(a.saved_bytes, 4)) for a in result.accumulation]
    return [*table(("policy", "time", "more time", "more FLOP", "saved", "peak of a step",
                    "gradient error"), rows),
            f"  A forward pass alone is {percent(result.rule)} of forward and backward.", "",
            *table(("micro-batches", "gradient error", "by mean of means", "saved by one"), parts)]


def _scaling(result: ScalingMeasurement) -> list[str]:
    reduced = [(gigabytes(r.message_bytes, 4), si(r.seconds, "s"), si(r.bytes_per_second, "B/s"),
                "-" if r.wire_bytes is None else gigabytes(r.wire_bytes, 4))
               for r in result.all_reduce]
    steps = [(s.method, si(s.seconds, "s"), gigabytes(s.parameter_bytes, 4),
              "-" if s.gradient_error is None else f"{s.gradient_error:.1e}",
              "-" if s.wire_bytes is None else gigabytes(s.wire_bytes, 4))
             for s in result.steps]
    return [f"{result.processes} processes over {result.backend}, "
            f"{result.threads_per_process} thread(s) each", "",
            *table(("all-reduce of", "time", "rate", "sent by all"), reduced), "",
            *table(("step", "time", "parameters held", "gradient error", "sent by all"), steps)]


def _trace(result: TraceMeasurement) -> list[str]:
    rows = [(k.name[:64], k.category, str(k.calls), si(k.seconds, "s"), percent(k.share))
            for k in result.kernels[:15]]
    return [f"{result.steps} steps in {si(result.seconds, 's')}, device idle "
            f"{percent(result.idle_share)}, axis: {result.axis or 'none of the three'}",
            *(f"  {line}" for line in result.evidence), "",
            *table(("operation", "category", "calls", "own time", "share"), rows)]


def _step_parts(result: StepParts) -> list[str]:
    rows = [("optimizer, alone", si(result.optimizer.seconds, "s"),
             str(result.launches["optimizer"])),
            ("loss head, alone", si(result.head.seconds, "s"), str(result.launches["loss head"])),
            ("the rest", "-", str(result.launches["rest"]))]
    return [*table(("part of a step", "time", "launches"), rows),
            f"  Starting one operation takes {si(result.launch.seconds, 's')}."]


def _energy(result: EnergyMeasurement) -> list[str]:
    if result.joules is None or result.joules_per_token is None:
        return ["Energy was not measured."]
    counted = result.counter_joules
    return [f"{significant(result.joules)} J over {si(result.seconds, 's')} and {result.tokens:,} "
            f"tokens: {si(result.joules_per_token, 'J')} a token, "
            f"{significant(result.joules / result.seconds)} W on average.",
            f"The device's own counter: {significant(counted)} J." if counted is not None else
            "The device keeps no counter of its own."]


def _recording(result: RecordingIndex) -> list[str]:
    return [f"Recording {result.name}", "",
            *table(("instrument", "holds", "took"),
                   [(name, entry.kind, si(entry.seconds, "s"))
                    for name, entry in result.instruments.items()])]


_BODIES: dict[str, Callable[[Any], list[str]]] = {
    "pipeline": _pipeline, "workers": _workers, "precision": _precision, "attention": _attention,
    "recompute": _recompute, "scaling": _scaling, "trace": _trace, "energy": _energy,
    "step_parts": _step_parts, "recording": _recording,
}
