"""The accelerator catalogue: what data sheets promise, field by field, with the source.

`hardware.toml` is the source. A figure is a value with its unit and where it was
read, or nothing with the reason. An unknown device is unknown: `resolve` never
falls back on a neighbour, because a wrong peak makes every MFU wrong.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from .errors import InputError, choice

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True)
class Figure:
    """One figure of a data sheet.

    `value` is in SI `unit` (FLOP/s, B, B/s, W, USD/h), or None with a `reason`.
    `source` names the sheet or paper; `note` says dense, one way, boost clock and so on.
    """

    value: float | None
    unit: str
    source: str = ""
    reason: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.value is None and not self.reason:
            raise InputError("reason", self.reason, "given where the value is null")
        if self.value is not None and not self.source:
            raise InputError("source", self.source, "given where a value is given")
        if self.value is not None and not self.value > 0:
            raise InputError("value", self.value, "greater than zero")


@dataclass(frozen=True)
class Accelerator:
    """One catalogue entry. Peaks are dense (never with structured sparsity)."""

    name: str
    vendor: str
    year: int | None
    drivers: tuple[str, ...]
    peaks: dict[str, Figure]
    memory: Figure
    bandwidth: Figure
    interconnect: Figure
    power: Figure
    price: Figure
    note: str = ""

    def figure(self, field_name: str) -> Figure:
        """The figure called `memory`, `bandwidth`, `interconnect`, `power`, `price` or a dtype."""
        if field_name in self.peaks:
            return self.peaks[field_name]
        return getattr(self, choice("field", field_name, _FIELDS + tuple(self.peaks)))

    def value(self, field_name: str) -> float:
        """The value of that figure in SI units, or `InputError` with the stated reason."""
        figure = self.figure(field_name)
        if figure.value is None:
            raise InputError(field_name, None, f"known for {self.name}",
                             f"{figure.reason} Type a value of your own instead.")
        return figure.value

    def peak(self, dtype: str) -> float:
        """Dense peak of `dtype` in FLOP/s, or `InputError` when the sheet gives none."""
        if dtype not in self.peaks or self.peaks[dtype].value is None:
            known = ", ".join(self.dtypes)
            reason = self.peaks[dtype].reason if dtype in self.peaks else ""
            raise InputError("dtype", dtype, f"one of {known} on {self.name}", reason)
        return self.value(dtype)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes whose dense peak is known, in order of width."""
        return tuple(d for d in DTYPES if d in self.peaks and self.peaks[d].value is not None)

    @property
    def training_dtype(self) -> str:
        """The dtype that dense training would use here: BF16, else FP16, else FP32."""
        for dtype in ("bf16", "fp16", "fp32"):
            if dtype in self.dtypes:
                return dtype
        raise InputError("accelerator", self.name, "one with a known floating-point peak")


_FIELDS = ("memory", "bandwidth", "interconnect", "power", "price")
_UNITS = {"memory": "B", "bandwidth": "B/s", "interconnect": "B/s", "power": "W",
          "price": "USD/h"}


@dataclass(frozen=True)
class Catalogue:
    """All entries by name, and the sources they quote."""

    accelerators: dict[str, Accelerator]
    sources: dict[str, str] = field(default_factory=dict)


@cache
def catalogue() -> Catalogue:
    """The catalogue as shipped."""
    text = resources.files(__package__).joinpath("hardware.toml").read_text("utf-8")
    data = tomllib.loads(text)
    sources = data.get("source", {})
    entries = [_entry(raw, sources) for raw in data["accelerator"]]
    return Catalogue({entry.name: entry for entry in entries}, sources)


def names() -> list[str]:
    """The names of all accelerators, in catalogue order."""
    return list(catalogue().accelerators)


def accelerator(name: str) -> Accelerator:
    """The entry called exactly `name`, or `InputError` with the nearest match."""
    entries = catalogue().accelerators
    return entries[choice("accelerator", name, entries)]


def resolve(driver_name: str, memory_bytes: float | None = None) -> Accelerator | None:
    """The entry for a name as the driver prints it, or None when it is not known.

    Matches whole names, never substrings ("NVIDIA L40S" is not an L4). Where two
    entries share a driver name, `memory_bytes` decides, within 12 %.
    """
    wanted = _normal(driver_name)
    found = [e for e in catalogue().accelerators.values() if wanted in map(_normal, e.drivers)]
    if memory_bytes is not None:
        found = [e for e in found if e.memory.value is not None
                 and abs(e.memory.value - memory_bytes) <= 0.12 * e.memory.value]
    return found[0] if len(found) == 1 else None


def _normal(name: str) -> str:
    return re.sub(r"[\s_\-]+", " ", name).strip().casefold()


def _figure(raw: Any, unit: str, sources: dict[str, str], where: str) -> Figure:
    if not isinstance(raw, dict):
        raise InputError(where, raw, "a table with value and source, or with reason")
    source = raw.get("source", "")
    if source and source not in sources:
        raise InputError(f"{where}.source", source, "a key of the [source] table")
    value = raw.get("value")
    return Figure(value=None if value is None else float(value), unit=unit,
                  source=sources.get(source, ""), reason=raw.get("reason", ""),
                  note=raw.get("note", ""))


def _entry(raw: dict[str, Any], sources: dict[str, str]) -> Accelerator:
    name = raw["name"]
    unknown = set(raw) - {"name", "vendor", "year", "drivers", "peak", "note", *_FIELDS}
    if unknown:
        raise InputError(name, sorted(unknown), "made of known fields")
    peaks = {}
    for dtype, figure in raw["peak"].items():
        choice(f"{name}.peak", dtype, DTYPES)
        peaks[dtype] = _figure(figure, "FLOP/s", sources, f"{name}.peak.{dtype}")
    figures = {f: _figure(raw[f], _UNITS[f], sources, f"{name}.{f}") for f in _FIELDS}
    return Accelerator(name=name, vendor=raw["vendor"], year=raw.get("year"),
                       drivers=tuple(raw.get("drivers", ())), peaks=peaks,
                       note=raw.get("note", ""), **figures)
