"""Chapter 4: MFU and HFU, waiting, launch gaps, the next bottleneck."""

from __future__ import annotations

from types import SimpleNamespace

from ironlaw.predict import flops, iron_law, pipeline, ratios

from .answer import FRACTION, Answer, Slip, times


def cluster_mfu(g: SimpleNamespace) -> float:
    """MFU of the cluster, percent."""
    return 100 * iron_law.mfu(g.P * 1e9, g.k * 1e3, 1.0, g.R * 1e12, g.N)


def mfu_behind_hfu(g: SimpleNamespace) -> float:
    """MFU without the recomputed work, percent."""
    return 100 * flops.mfu_from_hfu(g.X / g.R)


def waiting(g: SimpleNamespace) -> float:
    """Utilisation of the peak over the whole step, percent."""
    return 100 * pipeline.share_of_peak(pipeline.serial_utilisation(g.c, g.w), g.s / 100)


def launch_gaps(g: SimpleNamespace) -> float:
    """Idle share of the step, percent."""
    return 100 * (1 - pipeline.serial_utilisation(g.T, g.n * g.g / 1e3))


def next_bottleneck(g: SimpleNamespace) -> float:
    """Factor by which training becomes faster."""
    after = ratios.seconds_after_saving(g.d, g.r / 100)
    return ratios.speedup(pipeline.iteration_seconds([g.d, g.c]),
                          pipeline.iteration_seconds([after, g.c]))


ANSWERS = {
    "V4.1": Answer(cluster_mfu, (
        FRACTION,
        times(1 / 3, "when only the forward pass is counted, 2 P instead of 6 P per token"),
        Slip("when the cluster's tokens are divided by one accelerator's peak",
             lambda g, right: right * g.N),
        times(4 / 3, "when a recomputed forward pass is credited, 8 P instead of 6 P per token"))),
    "V4.2": Answer(mfu_behind_hfu, (
        times(4 / 3, "when recomputed work is credited: that is the hardware's utilisation"),
        times(16 / 9, "when the correction is applied upside down"),
        times(8 / 9, "when a third is taken away; recomputation is one forward pass in four"),
        FRACTION)),
    "V4.3": Answer(waiting, (
        Slip("for the busy share alone", lambda g, right: 100 * right / g.s),
        Slip("when waiting and computing overlap; here they do not",
             lambda g, right: g.s * g.c / g.w),
        Slip("while the accelerator computes; the waiting counts too", lambda g, right: g.s),
        FRACTION)),
    "V4.4": Answer(launch_gaps, (
        Slip("relative to the running kernels; the step is longer",
             lambda g, right: 100 * g.n * g.g / 1e3 / g.T),
        Slip("for the busy share", lambda g, right: 100 - right),
        Slip("with a single gap", lambda g, right: 100 * g.g / 1e3 / (g.g / 1e3 + g.T)),
        FRACTION)),
    "V4.5": Answer(next_bottleneck, (
        Slip("when loading alone sets the pace before and after; computing takes over",
             lambda g, right: 1 / (1 - g.r / 100)),
        Slip("upside down: the new time over the old", lambda g, right: 1 / right),
        Slip("for the percentage saved, not the factor", lambda g, right: 100 * (1 - 1 / right)))),
}
