"""Lab 3: does a record of operations hold together, and count what the mathematics says?"""

from __future__ import annotations

import numpy as np
from ironlaw.lab.student import Student
from ironlaw.predict import attention
from ironlaw.predict import roofline as reference


def holds(student: Student) -> None:
    """The student's `measured` describes one device; raises what a check raises."""
    run = student.record("measured", "RooflineRun")
    roof, size = run.roofline, run.roofline.bytes_per_value
    flat = {"softmax": reference.softmax, "layer norm": reference.layer_norm}
    seen = set()
    for kernel in roof.kernels:
        seen.add(kernel.name)
        sizes = [int(part) for part in str(kernel.shape).split(" x ")]
        if kernel.name.endswith("product"):
            rows, inner, columns = sizes
            want = reference.gemm(rows, inner, columns, size)
        elif kernel.name == "matrix times vector":
            want = reference.gemv(sizes[0], sizes[1], size)
        elif kernel.name == "GELU":
            want = reference.gelu(sizes[0] * sizes[1], bytes_per_value=size)
        elif kernel.name == "attention, materialised":
            batch, heads, seq, width = sizes
            want = attention.standard(seq, width, heads, batch, size)
        elif kernel.name == "attention, fused":
            batch, heads, seq, width = sizes
            want = reference.Kernel(
                "", batch * heads * attention.products_flops(seq, width),
                batch * heads * attention.head_tensors_bytes(seq, width, 4, size))
        else:
            student.require(kernel.name in flat, "The record holds an operation without a name.")
            want = flat[kernel.name](sizes[0], sizes[1], bytes_per_value=size)
        student.close(f"the FLOP of {kernel.name} in the record", kernel.flops, want.flops,
                      tell=False)
        student.close(f"the bytes of {kernel.name} in the record", kernel.traffic_bytes,
                      want.traffic_bytes, tell=False)
        samples = [student.number("a sample", s, low=1e-9) for s in kernel.samples]
        student.require(len(samples) >= 5, "The record holds too few samples of an operation.")
        student.close(f"the seconds of {kernel.name} in the record", kernel.seconds,
                      float(np.median(samples)), rtol=1e-3, tell=False)
        if kernel.name.endswith("product"):
            student.require(kernel.flops / min(samples) <= 1.001 * roof.peak_flops_per_second,
                            "In the record a product is faster than the best product.")
    student.require(len(seen) == 9, "The record does not hold all nine operations.")
    student.close("the bandwidth in the record", roof.bytes_per_second,
                  max(roof.bandwidths.values()), rtol=1e-6, tell=False)
    student.require(run.profile.name == roof.device,
                    "The record mixes measurements of different devices.")


def bounds_hold(student: Student) -> None:
    """`predicted_bound` puts every operation on its side of the measured ridge."""
    roof = student.record("measured", "RooflineRun").roofline
    roofs = roof.peak_flops_per_second, roof.bytes_per_second
    found = student.value("predicted_bound")
    student.require(isinstance(found, dict), "predicted_bound should be a dictionary.")
    for kernel in roof.kernels:
        intensity = kernel.flops / kernel.traffic_bytes
        near = abs(intensity / reference.ridge_point(*roofs) - 1) < 0.02  # rounding may decide
        student.require(near or found.get(kernel.name) == reference.bound(intensity, *roofs),
                        f"{kernel.name} is on the other side of the ridge.")


def shares_hold(student: Student) -> None:
    """`reached` is each operation's measured rate over the roof above it."""
    roof = student.record("measured", "RooflineRun").roofline
    found = student.value("reached")
    student.require(isinstance(found, dict), "reached should be a dictionary.")
    for kernel in roof.kernels:
        best = reference.attainable(kernel.flops / kernel.traffic_bytes,
                                    roof.peak_flops_per_second, roof.bytes_per_second)
        student.close(f"reached[{kernel.name!r}]", found.get(kernel.name),
                      kernel.flops / kernel.seconds / best, rtol=0.01, tell=False)
