"""Chapter 3: overlap, workers, transfers, buffers, storage."""

from __future__ import annotations

from types import SimpleNamespace

from ironlaw.predict import pipeline, ratios, scaling
from ironlaw.units import GB, MB, MINUTE

from .answer import FRACTION, IN_GIB, Answer, Slip, times


def overlap(g: SimpleNamespace) -> float:
    """What an overlapped epoch saves, minutes."""
    stages = [ms / 1e3 for ms in (g.a, g.b, g.c)]
    saved = ratios.saved(pipeline.serial_seconds(stages), pipeline.iteration_seconds(stages))
    return g.n * saved / MINUTE


def busy(g: SimpleNamespace) -> float:
    """Busy share of the accelerator, percent."""
    return 100 * pipeline.utilisation(pipeline.preprocessing_rate(g.W, g.p), 1 / g.c)


def image_transfer(g: SimpleNamespace) -> float:
    """Time of one batch over the link, ms."""
    size = pipeline.image_batch_bytes(g.B, g.side, g.side)
    return 1e3 * pipeline.transfer_seconds(size, g.bw * GB)


def buffers(g: SimpleNamespace) -> float:
    """Host memory of all waiting batches, GB."""
    ready = pipeline.prefetch_window(g.w, g.f)
    return pipeline.host_buffer_bytes(g.M * MB, ready, g.w, g.t) / GB


def epoch(g: SimpleNamespace) -> float:
    """Time to read the data set once, seconds."""
    rate = pipeline.storage_rate(g.disk * GB, scaling.link_bytes_per_second(g.net * 1e9))
    return pipeline.read_seconds(g.n * 1e6, g.kB * 1e3, rate)


ANSWERS = {
    "V3.1": Answer(overlap, (
        Slip("when the transfer alone hides behind the step",
             lambda g, right: g.n * g.b / 60e3),
        Slip("for the overlapped epoch, not for what it saves",
             lambda g, right: g.n * g.c / 60e3),
        Slip("when three stages are taken to run three times as fast; the longest one decides",
             lambda g, right: g.n * (g.a + g.b + g.c) * 2 / 3 / 60e3),
        times(60, "in seconds; this one asks for minutes"))),
    "V3.2": Answer(busy, (
        FRACTION,
        Slip("with a single worker", lambda g, right: right / g.W),
        Slip("when the accelerator waits and then computes; here both overlap",
             lambda g, right: 100 * g.c / (g.c + g.p / g.W)))),
    "V3.3": Answer(image_transfer, (
        times(1 / 4, "with one byte per value; FP32 takes four"),
        times(1 / 3, "for one colour channel"),
        times(8, "when the link is taken for Gbit/s"),
        Slip("when a side is counted once; an image has two",
             lambda g, right: right / g.side),
        times(1 / 1000, "in seconds; this one asks for ms"))),
    "V3.4": Answer(buffers, (
        Slip("with a single worker", lambda g, right: (g.f + 1 + g.t) * g.M / 1e3),
        Slip("without the batches in work", lambda g, right: (g.w * g.f + g.t) * g.M / 1e3),
        times(1000, "in MB; this one asks for GB"),
        IN_GIB)),
    "V3.5": Answer(epoch, (
        times(1 / 8, "when Gbit/s are taken for GB/s, with the network alone in mind"),
        Slip("at the rate of the disks; the network is slower",
             lambda g, right: g.n * g.kB / g.disk),
        Slip("when disks and network add up; the slower one decides",
             lambda g, right: g.n * g.kB / (g.disk + g.net / 8)),
        Slip("at the mean of both rates; the slower one decides",
             lambda g, right: g.n * g.kB / ((g.disk + g.net / 8) / 2)))),
}
