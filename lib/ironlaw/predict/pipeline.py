"""The data pipeline's rates and bytes: equations 7 to 15, Example 1.1.

Rates are per second in any one unit (batches, samples, bytes), times seconds, sizes
bytes. `schedule` plays the same stages out as events. Taught in chapters 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..errors import InputError, count, fraction, number, positive


def _positives(argument: str, values: Sequence[float], fewest: int = 1) -> list[float]:
    """The values as positive floats; errors name the one that is wrong."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InputError(argument, values, "a sequence of positive numbers")
    if len(values) < fewest:
        raise InputError(argument, values, f"a sequence of at least {fewest} numbers")
    return [positive(f"{argument}[{i}]", v) for i, v in enumerate(values)]


def storage_rate(disk: float, network: float) -> float:
    """Equation 7: R_storage = min(BW_disk, BW_network), bytes/s."""
    return min(positive("disk", disk), positive("network", network))


def effective_storage_rate(bytes_per_second: float, access_factor: float) -> float:
    """R_storage,eff = R_storage x F_access; F_access in (0, 1] is lost to small, random reads."""
    return positive("bytes_per_second", bytes_per_second) * fraction("access_factor",
                                                                     access_factor)


def preprocessing_rate(workers: int, transform_seconds: float) -> float:
    """Equation 8: R_preprocessing = N_workers / T_transform, batches/s when workers scale."""
    return count("workers", workers) / positive("transform_seconds", transform_seconds)


def training_rate(
    preprocessing: float,
    transfer_bytes_per_second: float,
    batch_bytes: float,
    compute_flops_per_second: float,
    batch_flops: float,
) -> float:
    """Equation 9: batches/s of the slowest of preprocessing, transfer and compute."""
    transfer = positive("transfer_bytes_per_second", transfer_bytes_per_second) / positive(
        "batch_bytes", batch_bytes)
    compute = positive("compute_flops_per_second", compute_flops_per_second) / positive(
        "batch_flops", batch_flops)
    return min(positive("preprocessing", preprocessing), transfer, compute)


def bottleneck_rate(rates: Sequence[float]) -> float:
    """Equations 9, 10 and 12: stages in a row run at the rate of the slowest."""
    return min(_positives("rates", rates))


def mean_rate(rates: Sequence[float]) -> float:
    """The average of the stages' rates: the tempting wrong answer (self-check 3.2, option A).

    Stages in a row never run at their average; see `bottleneck_rate`.
    """
    given = _positives("rates", rates)
    return sum(given) / len(given)


def utilisation(pipeline_rate: float, compute_rate: float) -> float:
    """Equation 11: min(1, R_pipeline / R_compute), for stages that overlap."""
    return min(1.0, positive("pipeline_rate", pipeline_rate) / positive("compute_rate",
                                                                        compute_rate))


def idle_share(pipeline_rate: float, compute_rate: float) -> float:
    """Share of time that the accelerator waits, 1 - equation 11."""
    return 1.0 - utilisation(pipeline_rate, compute_rate)


def iteration_seconds(stage_seconds: Sequence[float]) -> float:
    """Equation 13: T_iteration = max over overlapped stages."""
    return max(_positives("stage_seconds", stage_seconds))


def serial_seconds(stage_seconds: Sequence[float]) -> float:
    """T_iteration when each stage waits for the one before: the sum."""
    return sum(_positives("stage_seconds", stage_seconds))


def overlap_speedup(stage_seconds: Sequence[float]) -> float:
    """Serial over overlapped time, at most the number of stages."""
    return serial_seconds(stage_seconds) / iteration_seconds(stage_seconds)


def overlap_saving(stage_seconds: Sequence[float]) -> float:
    """Share of the serial iteration that overlap hides."""
    return 1.0 - iteration_seconds(stage_seconds) / serial_seconds(stage_seconds)


def serial_utilisation(compute_seconds: float, waiting_seconds: float) -> float:
    """Busy share when every step first waits: T_step / (T_step + T_prep)."""
    compute = positive("compute_seconds", compute_seconds)
    return compute / (compute + number("waiting_seconds", waiting_seconds, low=0.0))


def overlapped_utilisation(compute_seconds: float, preparation_seconds: float) -> float:
    """Equation 11 from times: T_step / max(T_step, T_prep).

    For 12 ms against 250 ms this is 4.8 %; the serial 4.6 % of Example 1.2 also pays
    for the step itself.
    """
    compute = positive("compute_seconds", compute_seconds)
    return compute / max(compute, positive("preparation_seconds", preparation_seconds))


def share_of_peak(busy_share: float, share_while_busy: float) -> float:
    """eta_hw when the accelerator is busy part of the time and below its peak then.

    A busy share and a share of peak are different things: they multiply.
    """
    return fraction("busy_share", busy_share) * fraction("share_while_busy", share_while_busy)


def stage_saving(stage_seconds: float, reduction: float, hidden_seconds: float = 0.0) -> float:
    """Seconds an overlapped iteration gains when one stage shrinks by a share `reduction`.

    `hidden_seconds` is the longest other stage; what falls below it gains nothing.
    """
    before = positive("stage_seconds", stage_seconds)
    other = number("hidden_seconds", hidden_seconds, low=0.0)
    after = before * (1.0 - fraction("reduction", reduction))
    return max(before, other) - max(after, other)


def exposed_stage_seconds(
    step_seconds: float, saved_share: float, compute_seconds: float
) -> float:
    """The other stage's time that explains why a step became only `saved_share` shorter.

    Compute fell to `compute_seconds`; an overlapped step of (1 - saved_share) of the old
    one means that another stage takes exactly that long (self-check 5.6).
    """
    step = positive("step_seconds", step_seconds) * (1.0 - fraction("saved_share", saved_share))
    if step <= positive("compute_seconds", compute_seconds) * (1 + 1e-12):
        raise InputError("compute_seconds", compute_seconds, f"less than the new step, {step:g} s",
                         "Compute alone explains this step; no other stage is exposed.")
    return step


def host_buffer_bytes(
    batch_bytes: float, prefetch: int, processing: int = 0, transfer: int = 0
) -> float:
    """Equation 14: (N_prefetch + N_processing + N_transfer) x M_batch."""
    batches = (count("prefetch", prefetch, low=0) + count("processing", processing, low=0)
               + count("transfer", transfer, low=0))
    return batches * positive("batch_bytes", batch_bytes)


def keeps_up(preprocessing_seconds: float, compute_seconds: float) -> bool:
    """Equation 15: whether T_preprocessing <= T_compute, so that nothing starves."""
    return positive("preprocessing_seconds", preprocessing_seconds) <= positive(
        "compute_seconds", compute_seconds)


def workers_needed(preprocessing_seconds: float, compute_seconds: float) -> int:
    """The fewest workers that satisfy equation 15 if they scale perfectly."""
    wanted = positive("preprocessing_seconds", preprocessing_seconds) / positive(
        "compute_seconds", compute_seconds)
    nearest = round(wanted)
    if nearest >= 1 and math.isclose(wanted, nearest, rel_tol=1e-12):
        return nearest
    return math.ceil(wanted)


def prefetch_window(workers: int, prefetch_factor: int) -> int:
    """Batches that a DataLoader keeps ahead: workers x prefetch_factor (listing 4)."""
    return count("workers", workers) * count("prefetch_factor", prefetch_factor)


def tokens_per_batch(batch: int, seq: int) -> int:
    """Tokens in a batch of `batch` sequences, B x S."""
    return count("batch", batch) * count("seq", seq)


def processing_seconds(items: float, items_per_second: float, workers: int = 1) -> float:
    """Time to process `items` at that rate per worker, over workers that scale perfectly."""
    return (positive("items", items) / positive("items_per_second", items_per_second)
            / count("workers", workers))


def batch_bytes(batch: int, seq: int, bytes_per_token: float = 8.0) -> float:
    """Bytes of a batch of token ids; int64, PyTorch's index type, takes 8 each."""
    return tokens_per_batch(batch, seq) * positive("bytes_per_token", bytes_per_token)


def image_batch_bytes(
    batch: int, height: int, width: int, channels: int = 3, bytes_per_value: float = 4.0
) -> float:
    """Bytes of a decoded image batch, B x H x W x C values."""
    return (float(count("batch", batch)) * count("height", height) * count("width", width)
            * count("channels", channels) * positive("bytes_per_value", bytes_per_value))


def transfer_seconds(transfer_bytes: float, bytes_per_second: float) -> float:
    """Time of a transfer limited by bandwidth alone."""
    return positive("transfer_bytes", transfer_bytes) / positive("bytes_per_second",
                                                                 bytes_per_second)


def read_seconds(items: float, bytes_per_item: float, bytes_per_second: float) -> float:
    """Time to read `items` of that size from storage."""
    return transfer_seconds(positive("items", items) * positive("bytes_per_item", bytes_per_item),
                            bytes_per_second)


def samples_per_second(samples_per_step: int, step_seconds: float) -> float:
    """Throughput of steps that take `step_seconds` each."""
    return count("samples_per_step", samples_per_step) / positive("step_seconds", step_seconds)


def bandwidth_ratio(fast: float, slow: float) -> float:
    """How many times the faster memory level outruns the slower one."""
    return positive("fast", fast) / positive("slow", slow)


def orders_of_magnitude(fast: float, slow: float) -> float:
    """The same ratio in decades; NVMe to HBM is 2.1, not three."""
    return math.log10(bandwidth_ratio(fast, slow))
