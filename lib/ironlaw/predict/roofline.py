"""The roofline: arithmetic intensity, ridge points, and which ceiling a kernel meets.

A kernel that does F FLOP and moves Q bytes takes at least max(F / R_peak, Q / BW).
Intensity F / Q below the ridge point R_peak / BW means that bandwidth decides.
Traffic is what must cross device memory once: inputs read, outputs written, caches
perfect inside a kernel unless a tile size says otherwise. Taught in chapter 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import count, positive
from . import flops as count_flops


@dataclass(frozen=True)
class Kernel:
    """Work of one kernel: floating-point operations and bytes through device memory."""

    name: str
    flops: float
    traffic_bytes: float

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOP per byte."""
        return self.flops / self.traffic_bytes

    def seconds(self, peak_flops_per_second: float, bytes_per_second: float) -> float:
        """The shortest time that the roofline allows."""
        return max(self.flops / positive("peak_flops_per_second", peak_flops_per_second),
                   self.traffic_bytes / positive("bytes_per_second", bytes_per_second))


def ridge_point(peak_flops_per_second: float, bytes_per_second: float) -> float:
    """Intensity at which both ceilings meet, FLOP/byte.

    A lower-precision peak at the same bandwidth moves it up: 153 for an A100's BF16,
    9.6 for its FP32 cores.
    """
    return positive("peak_flops_per_second", peak_flops_per_second) / positive(
        "bytes_per_second", bytes_per_second)


def ridge_points(peaks: dict[str, float], bytes_per_second: float) -> dict[str, float]:
    """The ridge point of each dtype, from its peak in FLOP/s."""
    return {dtype: ridge_point(peak, bytes_per_second) for dtype, peak in peaks.items()}


def attainable(
    intensity: float, peak_flops_per_second: float, bytes_per_second: float
) -> float:
    """The roof over an intensity: min(R_peak, intensity x BW), FLOP/s."""
    slope = positive("intensity", intensity) * positive("bytes_per_second", bytes_per_second)
    return min(positive("peak_flops_per_second", peak_flops_per_second), slope)


def bound(intensity: float, peak_flops_per_second: float, bytes_per_second: float) -> str:
    """'memory' left of the ridge point, 'compute' at it or right of it."""
    ridge = ridge_point(peak_flops_per_second, bytes_per_second)
    return "memory" if positive("intensity", intensity) < ridge else "compute"


def bytes_per_second_without_reuse(
    peak_flops_per_second: float, bytes_per_operation: float
) -> float:
    """Bandwidth that a peak would need if every operation fetched fresh data."""
    return positive("peak_flops_per_second", peak_flops_per_second) * positive(
        "bytes_per_operation", bytes_per_operation)


def gemm(rows: int, inner: int, columns: int, bytes_per_value: float = 2.0) -> Kernel:
    """A dense product with perfect reuse: each operand and the result cross memory once."""
    size = positive("bytes_per_value", bytes_per_value)
    work = count_flops.matmul(rows, inner, columns)
    values = float(rows) * inner + float(inner) * columns + float(rows) * columns
    return Kernel("gemm", work, values * size)


def gemv(rows: int, columns: int, bytes_per_value: float = 2.0) -> Kernel:
    """A matrix times one vector: no operand of the matrix is used twice."""
    kernel = gemm(rows, count("columns", columns), 1, bytes_per_value)
    return Kernel("gemv", kernel.flops, kernel.traffic_bytes)


def tiled_gemm(
    rows: int, inner: int, columns: int, tile: int, bytes_per_value: float = 2.0
) -> Kernel:
    """A product by square tiles: each tile of the result re-reads its strips of both operands.

    `tile` = 1 is the naive product, whose traffic grows as m^3 (not as m^2): every
    multiply-add fetches both operands. Larger tiles divide it by the tile's side.
    """
    work = count_flops.matmul(rows, inner, columns)
    t = count("tile", tile, high=max(rows, columns))
    size = positive("bytes_per_value", bytes_per_value)
    strips = -(-columns // t) * float(rows) * inner + -(-rows // t) * float(inner) * columns
    return Kernel("tiled gemm", work, (strips + float(rows) * columns) * size)


def elementwise(
    name: str, values: int, flops_per_value: float, inputs: int = 1, bytes_per_value: float = 2.0
) -> Kernel:
    """A kernel that reads `inputs` tensors and writes one, value by value."""
    n = count("values", values)
    moved = (count("inputs", inputs) + 1.0) * n * positive("bytes_per_value", bytes_per_value)
    return Kernel(name, n * positive("flops_per_value", flops_per_value), moved)


def gelu(values: int, flops_per_value: float = 9.0, bytes_per_value: float = 2.0) -> Kernel:
    """Tanh GELU on its own: 9 operations a value if tanh counts as one."""
    return elementwise("gelu", values, flops_per_value, 1, bytes_per_value)


def softmax(
    rows: int, columns: int, flops_per_value: float = 5.0, bytes_per_value: float = 2.0
) -> Kernel:
    """Softmax over rows on its own: compare, subtract, exp, add, divide; read once, write once."""
    return elementwise("softmax", count("rows", rows) * count("columns", columns),
                       flops_per_value, 1, bytes_per_value)


def layer_norm(
    rows: int, width: int, flops_per_value: float = 8.0, bytes_per_value: float = 2.0
) -> Kernel:
    """Layer norm over rows: mean (1), variance (3), normalise (2), scale and shift (2).

    Read once, written once; gain and bias are read once for all rows.
    """
    values = count("rows", rows) * count("width", width)
    kernel = elementwise("layer norm", values, flops_per_value, 1, bytes_per_value)
    return Kernel(kernel.name, kernel.flops, kernel.traffic_bytes + 2.0 * width * bytes_per_value)


def score_intensity(head_width: int, bytes_per_value: float = 2.0) -> float:
    """FLOP per byte of materialised Q K^T if only the scores' write and read back count.

    2 S^2 d_head FLOP over 2 S^2 values: d_head / 2 in FP16. The batch and the sequence
    length cancel.
    """
    return count("head_width", head_width) / positive("bytes_per_value", bytes_per_value)
