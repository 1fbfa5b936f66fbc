"""The accelerator catalogue: what data sheets promise, field by field, with the source.

`hardware.toml` is the source. A figure is a value with its unit and where it was
read, or nothing with the reason. An unknown device is unknown: `resolve` never
falls back on a neighbour, because a wrong peak makes every MFU wrong. The head of
the file says how to read a figure: dense rates, SI units, links counted one way.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any

from .errors import InputError, choice

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")

# A driver's total is a little under or over what the vendor prints: error correction and the
# driver keep some, and "GB" may stand for GiB (7 % more). The sizes of one model lie further apart.
MEMORY_TOLERANCE = 0.12


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
            raise InputError(field_name, None, f"a figure that the catalogue holds for {self.name}",
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
    """All entries by name, and the sources they quote as citations by key."""

    accelerators: dict[str, Accelerator]
    sources: dict[str, str] = field(default_factory=dict)


@cache
def catalogue() -> Catalogue:
    """The catalogue as shipped."""
    return parse(resources.files(__package__).joinpath("hardware.toml").read_text("utf-8"))


def parse(text: str) -> Catalogue:
    """A catalogue from TOML text, or `InputError` that names the entry and field at fault."""
    data = tomllib.loads(text)
    sources = {key: _citation(key, raw) for key, raw in data.get("source", {}).items()}
    reader = _Reader(sources, data.get("reason", {}))
    entries: dict[str, Accelerator] = {}
    for raw in data.get("accelerator", []):
        entry = reader.entry(raw)
        if _normal(entry.name) in map(_normal, entries):
            raise InputError("name", entry.name, "given to one accelerator only")
        for other in entries.values():
            _refuse_ambiguity(entry, other)
        entries[entry.name] = entry
    return Catalogue(entries, sources)


def names() -> list[str]:
    """The names of all accelerators, in catalogue order."""
    return list(catalogue().accelerators)


def accelerator(name: str) -> Accelerator:
    """The entry called `name`, case, spaces and hyphens aside; else `InputError` with hints.

    "A100 80GB SXM" and "a100-80gb-sxm" are the same entry. "A100" is none: the error
    lists the four that it could mean.
    """
    entries = catalogue().accelerators
    if name in entries:  # widgets ask on every redraw
        return entries[name]
    by_normal = {_normal(known): entry for known, entry in entries.items()}
    wanted = _normal(str(name))
    if wanted in by_normal:
        return by_normal[wanted]
    words = set(wanted.split())
    near = [known for known in by_normal if words and words <= set(known.split())]
    near = near or get_close_matches(wanted, by_normal, n=3)
    hint = " or ".join(repr(by_normal[known].name) for known in near)
    raise InputError("accelerator", name, f"the name of one of the {len(entries)} in the catalogue",
                     f"Did you mean {hint}?" if near else f"They are {', '.join(entries)}.")


def resolve(driver_name: str, memory_bytes: float | None = None) -> Accelerator | None:
    """The entry for a name as the driver prints it, or None when it is not known.

    Matches whole names, never parts of them ("NVIDIA L40S" is not an L4). With
    `memory_bytes`, the device's memory must also be that of the entry within 12 %: a
    slice of a device, or a variant that the catalogue lacks, is unknown.
    """
    wanted = _normal(driver_name)
    found = [e for e in catalogue().accelerators.values() if wanted in map(_normal, e.drivers)]
    if memory_bytes is not None:
        found = [e for e in found if e.memory.value is not None
                 and abs(e.memory.value - memory_bytes) <= MEMORY_TOLERANCE * e.memory.value]
    return found[0] if len(found) == 1 else None


def best(dtype: str, vendor: str | None = None) -> Accelerator:
    """The entry with the highest known dense peak of `dtype`; of equals, the first listed.

    `vendor` narrows the choice, case aside. `InputError` where no entry has a known peak.
    """
    choice("dtype", dtype, DTYPES)
    entries = list(catalogue().accelerators.values())
    if vendor is not None:
        vendors = {entry.vendor.casefold(): entry.vendor for entry in entries}
        chosen = choice("vendor", vendors.get(str(vendor).casefold(), vendor), vendors.values())
        entries = [entry for entry in entries if entry.vendor == chosen]
    known = [entry for entry in entries if dtype in entry.dtypes]
    if not known:
        raise InputError("dtype", dtype, f"one whose rate {vendor} publishes",
                         "Choose another dtype, or leave the vendor open.")
    return max(known, key=lambda entry: entry.peak(dtype))


def table() -> list[dict[str, str | int | float | None]]:
    """One row an entry, for tables: name, vendor, year, then every figure in SI units.

    Peaks come under their dtype. A figure that is not known is None.
    """
    rows: list[dict[str, str | int | float | None]] = []
    for entry in catalogue().accelerators.values():
        row: dict[str, str | int | float | None] = {
            "name": entry.name, "vendor": entry.vendor, "year": entry.year}
        row.update({f: entry.figure(f).value for f in (*_FIELDS, *DTYPES)})
        rows.append(row)
    return rows


def _normal(name: str) -> str:
    return re.sub(r"[\s_\-]+", " ", name).strip().casefold()


def _citation(key: str, raw: Any) -> str:
    """One line for a table of title, publisher, year and how the source was read."""
    if not isinstance(raw, dict) or set(raw) - {"title", "publisher", "year", "read"}:
        raise InputError(f"source.{key}", raw, "a table of title, publisher, year and read")
    if not raw.get("title") or not raw.get("read"):
        raise InputError(f"source.{key}", raw, "a table with at least a title and read")
    parts = [str(raw[part]) for part in ("title", "publisher", "year") if part in raw]
    read = "" if raw["read"] == "itself" else f" (read {raw['read']})"
    return ", ".join(parts) + read


def _refuse_ambiguity(entry: Accelerator, other: Accelerator) -> None:
    """Raise when a driver's name and memory could mean both entries."""
    shared = {_normal(d) for d in entry.drivers} & {_normal(d) for d in other.drivers}
    if not shared:
        return
    one, two = entry.memory.value, other.memory.value
    reach = 1 + MEMORY_TOLERANCE, 1 - MEMORY_TOLERANCE
    if one is None or two is None or min(one, two) * reach[0] >= max(one, two) * reach[1]:
        raise InputError(f"{entry.name}.drivers", sorted(shared),
                         f"told apart from {other.name} by memory")


class _Reader:
    """Turns raw TOML into entries, with the sources and the named reasons at hand."""

    def __init__(self, sources: dict[str, str], reasons: dict[str, str]) -> None:
        self.sources = sources
        self.reasons = reasons

    def figure(self, raw: Any, unit: str, where: str) -> Figure:
        if isinstance(raw, str):
            if raw not in self.reasons:
                raise InputError(where, raw, "a key of the [reason] table, or a table")
            return Figure(None, unit, reason=self.reasons[raw])
        if not isinstance(raw, dict) or set(raw) - {"value", "source", "reason", "note"}:
            raise InputError(where, raw, "a table with value and source, or with reason")
        source = raw.get("source", "")
        if source and source not in self.sources:
            raise InputError(f"{where}.source", source, "a key of the [source] table")
        value = raw.get("value")
        try:
            return Figure(value=None if value is None else float(value), unit=unit,
                          source=self.sources.get(source, ""), reason=raw.get("reason", ""),
                          note=raw.get("note", ""))
        except InputError as error:
            raise InputError(f"{where}.{error.argument}", error.value, error.allowed) from None

    def entry(self, raw: dict[str, Any]) -> Accelerator:
        name = raw.get("name", "an accelerator")
        needed = {"name", "vendor", "year", "drivers", "peak", *_FIELDS}
        if set(raw) - {"note"} != needed:
            odd = sorted((set(raw) - {"note"}) ^ needed)
            raise InputError(name, odd, f"made of exactly {', '.join(sorted(needed))} and note")
        if set(raw["peak"]) != set(DTYPES):
            raise InputError(f"{name}.peak", sorted(raw["peak"]), f"exactly {', '.join(DTYPES)}")
        peaks = {dtype: self.figure(raw["peak"][dtype], "FLOP/s", f"{name}.peak.{dtype}")
                 for dtype in DTYPES}
        figures = {f: self.figure(raw[f], _UNITS[f], f"{name}.{f}") for f in _FIELDS}
        return Accelerator(name=name, vendor=raw["vendor"], year=raw["year"],
                           drivers=tuple(raw["drivers"]), peaks=peaks,
                           note=raw.get("note", ""), **figures)
