"""Wave quantisation: work comes in whole warps, tiles and waves (section 1.3.3, table 6).

The last, part-filled unit costs as much as a full one. Which unit counts depends on
the kernel, so every function takes it as an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import count

WARP = 32
"""Threads of an NVIDIA warp."""


def units(items: int, unit: int = WARP) -> int:
    """Whole units that `items` occupy: ceil(items / unit)."""
    return -(-count("items", items) // count("unit", unit))


def lane_utilisation(items: int, unit: int = WARP) -> float:
    """Share of the launched lanes that hold an item."""
    return items / (units(items, unit) * unit)


def relative_time(items: int, unit: int = WARP) -> float:
    """Launched lanes per item: 1 when every unit is full."""
    return units(items, unit) * unit / items


@dataclass(frozen=True)
class TailRow:
    """One row of table 6."""

    items: int
    warps: int
    lane_utilisation: float
    relative_time: float


def table_6(items: tuple[int, ...] = (32, 33, 64, 65), unit: int = WARP) -> list[TailRow]:
    """Table 6 for any numbers of items: units, share of lanes used, relative time."""
    return [TailRow(n, units(n, unit), lane_utilisation(n, unit), relative_time(n, unit))
            for n in items]


def matmul_tiles(rows: int, columns: int, tile_rows: int = 128, tile_columns: int = 128) -> int:
    """Output tiles of a (rows x columns) product; part-filled tiles count whole."""
    down = units(count("rows", rows), count("tile_rows", tile_rows))
    return down * units(count("columns", columns), count("tile_columns", tile_columns))


def matmul_waves(
    rows: int, columns: int, processors: int, tile_rows: int = 128, tile_columns: int = 128
) -> int:
    """Waves in which `processors` (132 on an H100) work off those tiles, one tile each."""
    return units(matmul_tiles(rows, columns, tile_rows, tile_columns),
                 count("processors", processors))


def matmul_utilisation(
    rows: int, columns: int, processors: int, tile_rows: int = 128, tile_columns: int = 128
) -> float:
    """Useful share of the work that those waves could do: tile and wave losses together."""
    waves = matmul_waves(rows, columns, processors, tile_rows, tile_columns)
    return rows * columns / (waves * processors * tile_rows * tile_columns)
