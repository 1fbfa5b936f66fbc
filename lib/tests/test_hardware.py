"""The accelerator catalogue: its schema, its physics, its names, and the document's figures."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ironlaw import hardware
from ironlaw.errors import InputError
from ironlaw.hardware import DTYPES, Accelerator, Figure

ENTRIES = list(hardware.catalogue().accelerators.values())
FIELDS = ("memory", "bandwidth", "interconnect", "power", "price")
DRIVERS = [(driver, entry.name) for entry in ENTRIES for driver in entry.drivers]
EVERY = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def known(entry: Accelerator, name: str) -> float | None:
    return entry.figure(name).value


# --- schema ------------------------------------------------------------------------------


@EVERY
def test_a_figure_has_a_source_or_a_reason(entry: Accelerator) -> None:
    for name in (*FIELDS, *DTYPES):
        figure = entry.figure(name)
        if figure.value is None:
            assert figure.reason.endswith("."), name
            assert not figure.source, name
        else:
            assert figure.source in hardware.catalogue().sources.values(), name
            assert not figure.reason, name


def test_the_catalogue_covers_what_learners_have() -> None:
    assert len(ENTRIES) >= 30
    assert {entry.vendor for entry in ENTRIES} == {"NVIDIA", "AMD", "Google", "Apple"}
    assert {"T4", "L4", "V100 32GB SXM", "A100 80GB SXM", "H100 SXM", "RTX 4090", "TPU v4"} <= set(
        hardware.names())


def test_every_source_is_quoted_and_cited_in_full() -> None:
    quoted = {entry.figure(name).source for entry in ENTRIES for name in (*FIELDS, *DTYPES)}
    assert quoted - {""} == set(hardware.catalogue().sources.values())
    for key, citation in hardware.catalogue().sources.items():
        assert key == "document" or re.search(r", (19|20)\d\d\b", citation), citation


@EVERY
def test_units_are_si(entry: Accelerator) -> None:
    assert {name: entry.figure(name).unit for name in FIELDS} == {
        "memory": "B", "bandwidth": "B/s", "interconnect": "B/s", "power": "W", "price": "USD/h"}
    assert {entry.peaks[dtype].unit for dtype in DTYPES} == {"FLOP/s"}
    assert 2015 < (entry.year or 0) < 2030


# --- physics: what a slip of the unit, the direction or the sparsity would break ----------


RANGES = {"memory": (1e10, 3e11), "bandwidth": (5e10, 1e13), "interconnect": (5e10, 1e12),
          "power": (50, 1500), "price": (0.1, 100)}


@EVERY
def test_figures_lie_where_hardware_lies(entry: Accelerator) -> None:
    for name, (low, high) in RANGES.items():
        value = known(entry, name)
        assert value is None or low <= value <= high, name
    for dtype in DTYPES:
        value = known(entry, dtype)
        low = 1e11 if dtype == "fp64" else 1e12
        assert value is None or low <= value <= 6e15, dtype


@EVERY
def test_bandwidth_reads_the_whole_memory_in_14_to_333_ms(entry: Accelerator) -> None:
    assert 3 < entry.value("bandwidth") / entry.value("memory") < 70


@EVERY
def test_a_link_is_slower_than_memory_and_says_its_direction(entry: Accelerator) -> None:
    link = entry.interconnect
    if link.value is not None:
        assert link.value < entry.value("bandwidth")
        assert "one way" in link.note


@EVERY
def test_narrower_formats_are_never_slower(entry: Accelerator) -> None:
    widths = ("fp64", "fp32", "tf32", "bf16", "fp8")
    rates = [entry.peak(dtype) for dtype in widths if dtype in entry.dtypes]
    assert rates == sorted(rates)
    if {"int8", entry.training_dtype} <= set(entry.dtypes):
        assert entry.peak("int8") >= entry.peak(entry.training_dtype)


@EVERY
def test_formats_keep_their_ratios_so_no_single_rate_is_sparse(entry: Accelerator) -> None:
    """Matrix units halve the rate with each doubling of the width; sparsity would break it."""
    if "bf16" not in entry.dtypes:
        return
    half = entry.peak("bf16")
    if "fp16" in entry.dtypes:
        assert entry.peak("fp16") == half
    if "tf32" in entry.dtypes:
        assert 0.48 < entry.peak("tf32") / half < 0.51
    if "fp8" in entry.dtypes:
        assert entry.peak("fp8") / half == pytest.approx(
            1 if entry.name == "TPU v5p" else 2, rel=0.02)
    if "int8" in entry.dtypes:
        # GeForce cards halve the rate with FP32 accumulation; INT8 does not accumulate so.
        whole = {"RTX 3090": 4, "RTX 4090": 4, "RTX 5090": 4, "TPU v4": 1, "MI250X": 1,
                 "MI250X GCD": 1}.get(entry.name, 2)
        assert entry.peak("int8") / half == pytest.approx(whole, rel=0.02)


@EVERY
def test_the_ridge_point_is_not_that_of_a_sparse_peak(entry: Accelerator) -> None:
    assert 20 < entry.peak(entry.training_dtype) / entry.value("bandwidth") < 600


# Dense 16-bit rates with FP32 accumulation, TFLOP/s. Double each is the sparse rate.
DENSE = {
    "P100 16GB PCIe": 18.7, "P100 16GB SXM": 21.2, "V100 16GB PCIe": 112, "V100 32GB PCIe": 112,
    "V100 16GB SXM": 125, "V100 32GB SXM": 125, "T4": 65, "A100 40GB PCIe": 312,
    "A100 40GB SXM": 312, "A100 80GB PCIe": 312, "A100 80GB SXM": 312, "A10": 125, "A10G": 70,
    "A30": 165, "A40": 149.7, "RTX A6000": 154.8, "RTX 3090": 71, "RTX 4090": 165.2,
    "RTX 5090": 209.5, "RTX 6000 Ada": 364.25, "L4": 121, "L40S": 362, "H100 PCIe": 756,
    "H100 NVL": 835, "H100 SXM": 989, "H200 SXM": 989, "H200 NVL": 835, "GH200 96GB": 989,
    "B200": 2250, "GB200": 2500, "MI300X": 1307, "MI250X": 383, "MI250X GCD": 191.5,
    "TPU v4": 275, "TPU v5e": 197, "TPU v5p": 459, "TPU v6e": 918,
}


def test_the_dense_rates_cover_every_entry_with_16_bits() -> None:
    assert set(DENSE) == {e.name for e in ENTRIES if e.training_dtype != "fp32"}


@pytest.mark.parametrize(("name", "tera"), DENSE.items())
def test_training_peaks_are_dense(name: str, tera: float) -> None:
    entry = hardware.accelerator(name)
    assert entry.peak(entry.training_dtype) == pytest.approx(tera * 1e12, rel=1e-3)


# TechPowerUp's database computes these from clocks and units: GB/s, and FP32 TFLOP/s of the
# vector units. Whoever copies a sheet's figure wrongly disagrees with it.
COMPUTED = {
    "P100 16GB PCIe": (732.2, 9.526), "P100 16GB SXM": (732.2, 10.61),
    "V100 16GB PCIe": (897, 14.13), "V100 32GB PCIe": (897, 14.13),
    "V100 16GB SXM": (897, 15.67), "V100 32GB SXM": (898, 15.67), "T4": (320, 8.141),
    "A100 40GB PCIe": (1560, 19.49), "A100 40GB SXM": (1560, 19.49),
    "A100 80GB PCIe": (1940, 19.49), "A100 80GB SXM": (2040, 19.49), "A10": (600.2, 31.24),
    "A30": (933.1, 10.32), "A40": (695.8, 37.42), "RTX A6000": (768, 38.71),
    "RTX 3090": (936.2, 35.58), "RTX 4090": (1010, 82.58), "RTX 5090": (1790, 104.8),
    "RTX 6000 Ada": (960, 91.06), "L4": (300.1, 30.29), "L40S": (864, 91.61),
    "H100 PCIe": (2040, 51.22), "H100 SXM": (3360, 66.91), "H100 NVL": (3940, 60.32),
    "H200 SXM": (4890, 66.91), "H200 NVL": (4890, 60.32),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_second_source_agrees(name: str) -> None:
    entry = hardware.accelerator(name)
    bandwidth, fp32 = COMPUTED[name]
    assert entry.value("bandwidth") == pytest.approx(bandwidth * 1e9, rel=0.025)
    assert entry.peak("fp32") == pytest.approx(fp32 * 1e12, rel=0.025)


def test_links_count_one_direction() -> None:
    links = {"V100 32GB SXM": 150, "A100 80GB SXM": 300, "H100 SXM": 450, "B200": 900}
    assert {n: hardware.accelerator(n).value("interconnect") / 1e9 for n in links} == links


def test_the_documents_figures_are_the_catalogues() -> None:
    v100, a100, h100 = map(hardware.accelerator, ("V100 32GB SXM", "A100 80GB SXM", "H100 SXM"))
    given = [
        (v100, {"fp16": 125e12, "fp32": 15.7e12, "memory": 32e9, "bandwidth": 900e9, "price": 16}),
        (a100, {"bf16": 312e12, "fp32": 19.5e12, "bandwidth": 2039e9, "power": 400}),
        (h100, {"fp16": 989e12, "fp8": 1979e12, "interconnect": 900e9 / 2, "price": 3}),
    ]
    document = hardware.catalogue().sources["document"]
    for entry, figures in given:
        assert {name: entry.value(name) for name in figures} == figures
        assert {entry.figure(name).source for name in figures} == {document}
    assert a100.peak("bf16") / a100.value("bandwidth") == pytest.approx(153, abs=0.1)


def test_only_the_document_prices_anything() -> None:
    priced = {entry.name: entry.price.source for entry in ENTRIES if entry.price.value}
    assert priced == dict.fromkeys(("V100 32GB SXM", "H100 SXM"),
                                   hardware.catalogue().sources["document"])
    assert "4.65" in hardware.accelerator("V100 32GB SXM").price.note


@pytest.mark.parametrize("name", ["T4", "V100 32GB SXM", "P100 16GB SXM"])
def test_old_tensor_cores_have_no_bf16(name: str) -> None:
    entry = hardware.accelerator(name)
    assert entry.training_dtype == "fp16"
    with pytest.raises(InputError, match="one of fp64, fp32, fp16"):
        entry.peak("bf16")


# --- names -------------------------------------------------------------------------------


@pytest.mark.parametrize(("driver", "name"), DRIVERS)
def test_a_driver_name_resolves_to_its_own_entry(driver: str, name: str) -> None:
    memory = hardware.accelerator(name).value("memory")
    for spelling in (driver, driver.upper(), f"  {driver.lower()} ", driver.replace(" ", "_")):
        for reported in (None, memory, 0.93 * memory, 1.0737 * memory):
            entry = hardware.resolve(spelling, reported)
            assert entry is not None
            assert entry.name == name


@given(st.sampled_from([driver for driver, _ in DRIVERS]),
       st.text(string.ascii_letters + string.digits, min_size=1, max_size=4), st.booleans())
def test_a_longer_name_is_another_device(driver: str, extra: str, before: bool) -> None:
    longer = extra + driver if before else driver + extra
    entry = hardware.resolve(longer)
    assert entry is None or longer.casefold() in {d.casefold() for d in entry.drivers}


@pytest.mark.parametrize("name", [
    "", "NVIDIA", "A100", "A100X", "H20", "NVIDIA H20", "NVIDIA L400", "NVIDIA L40",
    "NVIDIA A10M", "NVIDIA A100", "NVIDIA H100", "NVIDIA B300 SXM6 AC", "NVIDIA GB300",
    "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 5090 D", "NVIDIA GeForce RTX 3090 Ti", "Quadro RTX 6000",
    "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "AMD Radeon Graphics", "AMD Instinct MI300A",
    "Apple M1", "cpu",
])
def test_a_neighbour_is_unknown(name: str) -> None:
    assert hardware.resolve(name) is None


@pytest.mark.parametrize(("driver", "reported", "name"), [
    # totals as drivers have reported them
    ("NVIDIA A100-SXM4-40GB", 42_405_855_232, "A100 40GB SXM"),
    ("Tesla V100-SXM2-32GB", 34_058_272_768, "V100 32GB SXM"),
    ("NVIDIA B200", 183_359 * 2**20, "B200"),
    ("NVIDIA GH200 480GB", 97_871 * 2**20, "GH200 96GB"),
    # a slice of a device, and variants that share the name
    ("NVIDIA A100-SXM4-80GB", 10e9, None),
    ("NVIDIA GH200 480GB", 144e9, None),
    ("NVIDIA GeForce RTX 3090", 12e9, None),
    ("AMD Instinct MI250X", 128e9, None),
])
def test_memory_must_fit_the_name(driver: str, reported: float, name: str | None) -> None:
    entry = hardware.resolve(driver, reported)
    assert (entry.name if entry else None) == name


@pytest.mark.parametrize("name", ["a100-80gb-sxm", "A100 80GB SXM", " a100_80GB  sxm "])
def test_an_entry_is_found_however_it_is_written(name: str) -> None:
    assert hardware.accelerator(name).name == "A100 80GB SXM"


@pytest.mark.parametrize(("name", "hint"), [
    ("A100", "'A100 40GB PCIe' or 'A100 40GB SXM' or 'A100 80GB PCIe' or 'A100 80GB SXM'"),
    ("RTX4090", "'RTX 4090'"), ("", "They are P100 16GB PCIe, "),
    ("abacus", "They are P100 16GB PCIe, ")])
def test_a_wrong_name_gets_the_likely_ones(name: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        hardware.accelerator(name)
    assert hint in caught.value.next_step


# --- questions ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_best_has_no_better(dtype: str) -> None:
    chosen = hardware.best(dtype)
    assert all(chosen.peak(dtype) >= e.peak(dtype) for e in ENTRIES if dtype in e.dtypes)


def test_best_of_a_vendor() -> None:
    assert hardware.best("bf16").name == "GB200"
    assert hardware.best("fp64", "amd").name == "MI300X"
    assert hardware.best("bf16", "Google").name == "TPU v6e"
    with pytest.raises(InputError, match="Google publishes"):
        hardware.best("fp64", "Google")
    with pytest.raises(InputError, match="Did you mean 'NVIDIA'"):
        hardware.best("bf16", "NVIDEA")
    with pytest.raises(InputError, match="Did you mean 'bf16'"):
        hardware.best("bf15")


def test_the_table_has_every_entry_and_figure() -> None:
    rows = {row["name"]: row for row in hardware.table()}
    assert list(rows) == hardware.names()
    for entry in ENTRIES:
        assert list(rows[entry.name]) == ["name", "vendor", "year", *FIELDS, *DTYPES]
        assert all(rows[entry.name][name] == known(entry, name) for name in (*FIELDS, *DTYPES))


def test_a_missing_value_says_why_and_what_to_do() -> None:
    with pytest.raises(InputError, match=r"Prices differ .* Type a value of your own instead"):
        hardware.accelerator("T4").value("price")
    with pytest.raises(InputError, match="Did you mean 'bandwidth'"):
        hardware.accelerator("T4").figure("bandwith")


# --- the loader --------------------------------------------------------------------------


FILE = """
[reason]
unsourced = "No source in reach gives it."
[source.sheet]
title = "A sheet"
publisher = "Maker"
year = 2020
read = "itself"
"""
ENTRY = """
[[accelerator]]
name = "One"
vendor = "Maker"
year = 2020
drivers = ["Maker One"]
memory = {value = 80e9, source = "sheet"}
bandwidth = {value = 2e12, source = "sheet"}
interconnect = "unsourced"
power = {value = 300, source = "sheet"}
price = {reason = "Type yours."}
[accelerator.peak]
fp64 = "unsourced"
fp32 = {value = 19e12, source = "sheet", note = "vector units"}
tf32 = "unsourced"
fp16 = "unsourced"
bf16 = "unsourced"
fp8 = "unsourced"
int8 = "unsourced"
"""
TWIN = ENTRY.replace('"One"', '"Two"').replace("80e9", "40e9")


def test_the_loader_fills_in_reasons_and_citations() -> None:
    entry = hardware.parse(FILE + ENTRY).accelerators["One"]
    assert entry.power == Figure(300.0, "W", source="A sheet, Maker, 2020")
    assert entry.peaks["fp32"].note == "vector units"
    assert entry.interconnect.reason == "No source in reach gives it."
    assert entry.dtypes == ("fp32",)
    copied = hardware.parse((FILE + ENTRY).replace("itself", "in a copy")).sources
    assert copied == {"sheet": "A sheet, Maker, 2020 (read in a copy)"}


@pytest.mark.parametrize(("old", "new", "message"), [
    ('power = {value = 300, source = "sheet"}', 'power = {value = 300}', "One.power.source"),
    ("{value = 300, ", "{value = -300, ", "One.power.value"),
    ('power = {value = 300, source = "sheet"}', 'power = {note = "?"}', "One.power.reason"),
    ('power = {value = 300, source = "sheet"}', 'power = 300', "One.power = 300"),
    ('power = {value = 300, source = "sheet"}', 'power = "forgotten"', "One.power = 'forgotten'"),
    ('{value = 300, source = "sheet"}', '{value = 300, source = "tale"}', "a key of the .source"),
    ('{value = 300, source', '{value = 300, unit = "kW", source', "One.power"),
    ('vendor = "Maker"\n', "", "vendor"),
    ("year = 2020\ndrivers", "yaer = 2020\ndrivers", "yaer"),
    ('int8 = "unsourced"\n', "", "One.peak"),
    ('int8 = "unsourced"', 'int8 = "unsourced"\nfp4 = "unsourced"', "One.peak"),
    ('read = "itself"\n', "", "source.sheet"),
    ('read = "itself"', 'read = "itself"\nlink = "x"', "source.sheet"),
])
def test_a_slip_in_the_file_is_named(old: str, new: str, message: str) -> None:
    assert old in FILE + ENTRY
    with pytest.raises(InputError, match=message):
        hardware.parse((FILE + ENTRY).replace(old, new))


def test_entries_may_share_a_driver_name_when_memory_tells_them_apart(
        monkeypatch: pytest.MonkeyPatch) -> None:
    shared = hardware.parse(FILE + ENTRY + TWIN)
    monkeypatch.setattr(hardware, "catalogue", lambda: shared)
    found = {gb: hardware.resolve("Maker One", gb * 1e9) for gb in (35, 36, 44, 46, 71, 89, 90)}
    assert {gb: entry.name if entry else None for gb, entry in found.items()} == {
        35: None, 36: "Two", 44: "Two", 46: None, 71: "One", 89: "One", 90: None}
    assert hardware.resolve("Maker One") is None


@pytest.mark.parametrize("memory", ['{value = 64e9, source = "sheet"}', '"unsourced"'])
def test_entries_that_nothing_tells_apart_are_refused(memory: str) -> None:
    twin = TWIN.replace('{value = 40e9, source = "sheet"}', memory)
    with pytest.raises(InputError, match="told apart from One by memory"):
        hardware.parse(FILE + ENTRY + twin)


def test_a_name_is_given_once() -> None:
    with pytest.raises(InputError, match="one accelerator only"):
        hardware.parse(FILE + ENTRY + TWIN.replace('"Two"', '"ONE"'))
