"""Lab 2: does a record of memory hold together, and fit the model that it names?"""

from __future__ import annotations

import itertools

from ironlaw.config import RunConfig
from ironlaw.lab.student import Student
from ironlaw.predict import peak


def holds(student: Student) -> None:
    """The student's `measured` accounts for one model; raises what a check raises.

    Tolerances are wide where another version of PyTorch may allocate a little otherwise.
    """
    run = student.record("measured", "MemoryRun")
    for step in (run.flash, run.materialised):
        config = RunConfig.from_json(step.config)
        p = config.shape.parameters
        student.close("the parameters in the record", step.parameters, p, tell=False)
        student.close("the weights in the record", step.parameter_bytes, 4 * p, tell=False)
        student.close("the gradients in the record", step.gradient_bytes, 4 * p, tell=False)
        student.close("the moments in the record", step.optimizer_bytes, 8 * p, rtol=1e-3,
                      tell=False)
        kept = peak.block_bytes(config.batch, config.sequence, config.shape.width,
                                config.shape.heads, config.precision, config.attention)
        student.close("what a block keeps in the record", step.saved_bytes_per_block, kept,
                      rtol=0.05, tell=False)
        tracked = step.memory_bytes["peak"] if step.backend == "tracker" else (
            step.tracker_peak_bytes)
        student.close("the peak in the record", tracked, peak.step_memory(config).peak, rtol=0.1,
                      tell=False)
    student.require(run.flash.config["model"] == run.materialised.config["model"]
                    == run.sweep.config["model"], "The record mixes different models.")
    peaks = [(int(batch), student.number("a peak of the sweep", size, low=1))
             for batch, size in run.sweep.peaks]
    limit = student.number("the sweep's limit", run.sweep.limit_bytes, low=1)
    student.require(all(a[1] < b[1] for a, b in itertools.pairwise(peaks)),
                    "In the record a larger batch takes less memory.")
    fitting = [batch for batch, size in peaks if size <= limit]
    student.require(bool(fitting) and max(fitting) == run.sweep.largest_batch,
                    "The record's largest batch is not the largest that fits.")


def adds_per_sequence(student: Student) -> None:
    """`bytes_per_sequence` is the slope between the two largest batches of the sweep."""
    (small, less), (large, more) = student.record("measured", "MemoryRun").sweep.peaks[-2:]
    student.close("bytes_per_sequence", student.value("bytes_per_sequence"),
                  (more - less) / (large - small), rtol=0.03, tell=False)
