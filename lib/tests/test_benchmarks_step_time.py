"""Step time predicted and measured: the operations, their sum, and the report."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.measure import flops, operations
from ironlaw.predict import step_time
from ironlaw.results import DeviceProfile, MatmulRate, load
from ironlaw.results_systems import OperationCount, StepOperations

TINY = RunConfig(layers=2, width=32, heads=2, vocab=96, batch=2, seq=16,
                 attention="materialised", optimizer="adamw-fused")


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("step_time")


def profile(rates: dict[str, float] | None = None, bandwidth: float | None = 1e10,
            launch: float | None = 1e-6) -> DeviceProfile:
    by_size = rates or {"512": 1e12}
    rate = MatmulRate(dtype="fp32", flops_per_second=max(by_size.values()), size=512,
                      by_size=by_size)
    return DeviceProfile(
        name="Some CPU", device_type="cpu", threads=2, memory_bytes=None, matmul={"fp32": rate},
        copy_bytes_per_second=bandwidth, launch_seconds=launch,
        host_to_device_bytes_per_second=None, catalogue_name=None, versions={}, measured_on="")


def counted(*rows: tuple[int, float, float]) -> StepOperations:
    return StepOperations(config={}, operations=[
        OperationCount(name="op", calls=calls, flops=work, traffic_bytes=moved)
        for calls, work, moved in rows])


# --- counting ---------------------------------------------------------------------------------

@pytest.mark.parametrize("changes", [
    {}, {"accumulate": 2}, {"loss_rows": 5}, {"recompute": "every-block"},
    {"precision": "amp-bf16"},
])
def test_products_agree_with_pytorchs_counter_on_meta(changes: dict[str, object]) -> None:
    config = TINY.replace(**changes)
    found = operations.count_operations(config)
    # The step counts the real thing, `hardware` what recomputation needs at the most: an
    # early stop may spare the last product of a block.
    work = flops.count(config)
    assert work.model <= found.flops <= work.hardware * 1.05
    if not changes.get("recompute"):
        assert found.flops == work.model
    assert load(json.dumps(found.to_json())) == found


def test_the_fused_update_reads_four_and_writes_them_back() -> None:
    rows = [o for o in operations.count_operations(TINY).operations if "adamw" in o.name]
    moved = sum(row.calls * row.traffic_bytes for row in rows)
    parameters = TINY.shape.parameters
    # Weight, gradient and two moments in FP32, read and written, and a counter a tensor.
    assert moved == pytest.approx(2 * 16 * parameters, rel=0.01)


def test_flash_attention_counts_its_products_on_a_cpu_too() -> None:
    rows = operations.count_operations(TINY.replace(attention="flash")).operations
    scores = 2.0 * TINY.batch * TINY.sequence**2 * TINY.shape.width
    found = {row.name: row.flops for row in rows if "attention" in row.name}
    assert sorted(found.values()) == [2 * scores, 5 * scores]


def test_views_move_nothing_and_broadcasts_are_read_once() -> None:
    torch = pytest.importorskip("torch")
    with operations._Counter() as counter:
        x = torch.ones(8, 4)
        x.t()[1:]
        x + torch.ones(1).expand(8, 4)
        x.add_(1.0)
        torch.empty(100)
    moved = {name: size for name, _, size in counter.found}
    assert set(moved) == {"ones", "add", "add_"}
    assert moved["add"] == 4 * (32 + 1 + 32)
    assert moved["add_"] == 4 * (32 + 32)


# --- adding up --------------------------------------------------------------------------------

def test_each_operation_waits_for_what_is_slower_and_for_its_start() -> None:
    compute, memory, tiny = (3, 2e9, 1e6), (2, 1e6, 5e9), (100, 0.0, 4.0)
    found = step_time.from_operations(counted(compute, memory, tiny), profile(), "fp32")
    assert found == pytest.approx(3 * 2e-3 + 2 * 0.5 + 100 * 4e-10 + 105 * 1e-6)


def test_the_rate_follows_the_size_of_the_product() -> None:
    at = step_time.rate_by_size(profile({"128": 1e11, "1024": 4e11, "128x128x128": 2e11}), "fp32")
    small, large = 2 * 128**3, 2 * 1024**3
    assert at(1.0) == at(small) == 2e11, "the best of equal sizes; nothing is guessed below"
    assert at(large) == at(1e18) == 4e11
    assert at((small * large) ** 0.5) == pytest.approx(3e11)
    with pytest.raises(InputError, match="bf16"):
        step_time.rate_by_size(profile(), "bf16")


@pytest.mark.parametrize("lacks", [{"bandwidth": None}, {"launch": None}])
def test_a_profile_without_a_figure_is_refused(lacks: dict[str, None]) -> None:
    with pytest.raises(InputError, match="calibrate"):
        step_time.from_operations(counted((1, 1.0, 1.0)), profile(**lacks), "fp32")


# --- the report -------------------------------------------------------------------------------

SHAPES = ((2, 256), (8, 256), (4, 256), (8, 128))


def laid(report: ModuleType, seconds: dict[tuple[int, int], float]) -> list[object]:
    evidence = report.Evidence(seconds, [profile(bandwidth=b) for b in (1e9, 1e10, 4e10)])
    ops = {shape: counted((1, 0.0, 1e8)) for shape in SHAPES[2:]}
    found: list[object] = report.predictions(RunConfig(), evidence, SHAPES[:2], SHAPES[2:], ops)
    return found


def test_steps_that_follow_a_line_are_predicted_exactly(report: ModuleType) -> None:
    found = laid(report, {(b, s): 0.010 + 2e-5 * b * s for b, s in SHAPES})
    errors = [shape.errors() for shape in found]  # type: ignore[attr-defined]
    assert [e["line"] for e in errors] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert all(e["eta"] < 0 for e in errors), "a constant eta knows nothing of the fixed part"
    assert all(e["floor"] < 0 for e in errors)
    first = found[0]
    assert first.sum == pytest.approx(1e-2 + 1e-6)  # type: ignore[attr-defined]
    per_token = 6 * (4 * 12 * 128**2 + 4096 * 128) + 12 * 4 * 128 * 256
    assert first.floor == pytest.approx(per_token * 1024 / 1e12)  # type: ignore[attr-defined]
    assert report.in_all(found)["line"] == (pytest.approx(0.0), pytest.approx(0.0), 2)
    text = report.table(found, {"nano": 1e12})
    for words in ("8 x 128", "+0%", "aim: 20.0 %", "over 2 shapes"):
        assert words in text


def test_noise_that_allows_no_line_is_not_fatal(report: ModuleType) -> None:
    found = laid(report, dict.fromkeys(SHAPES, 1.0))
    assert all(shape.errors()["line"] is None for shape in found)  # type: ignore[attr-defined]
    assert "line" not in report.in_all(found)
    assert "none" in report.table(found, {"nano": 1e12})


def test_each_round_calibrates_and_then_steps_and_anchors_are_not_judged(
        report: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from ironlaw.measure import calibration, step

    order: list[str] = []

    def steps(configs: list[RunConfig], **_: object) -> list[SimpleNamespace]:
        order.append("steps")
        return [SimpleNamespace(samples=[float(len(order) * c.batch)]) for c in configs]

    monkeypatch.setattr(calibration, "calibrate",
                        lambda *_: order.append("calibrate") or profile())
    monkeypatch.setattr(step, "measure_steps", steps)
    evidence = report.measure(RunConfig(), list(SHAPES), 3)
    assert order == ["calibrate", "steps"] * 3
    assert evidence.seconds[2, 256] == 2 * 4.0, "the median of rounds 2, 4 and 6"
    assert len(evidence.profiles) == 3
    for model in report.JUDGED:
        assert len(report.JUDGED[model]) == 4
        assert not set(report.JUDGED[model]) & set(report.ANCHORS[model])
