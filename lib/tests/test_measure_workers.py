"""Threads and processes that prepare data: the same work, counted and compared."""

from __future__ import annotations

import json
import sys

import pytest
from ironlaw import results
from ironlaw.errors import InputError
from ironlaw.measure import workers
from ironlaw.results_instruments import WorkerRate, WorkersMeasurement


@pytest.fixture(scope="module")
def measured() -> WorkersMeasurement:
    return workers.measure_workers([2], items=5, device="cpu", seconds=0.05)


def test_every_kind_and_number_is_measured(measured: WorkersMeasurement) -> None:
    assert {(r.transform, r.kind, r.workers) for r in measured.rates} == {
        (t, k, n) for t in ("python", "native") for k in ("thread", "process") for n in (1, 2)}
    for rate in measured.rates:
        assert len(rate.samples) >= 3
        assert 5 / max(rate.samples) <= rate.items_per_second <= 5 / min(rate.samples)
    assert results.load(json.dumps(measured.to_json())) == measured
    assert "process" in str(measured)


def test_speedup_is_against_one_of_the_same_kind() -> None:
    base = {"transform": "python", "samples": [1.0]}
    rates = [WorkerRate(kind=kind, workers=n, items_per_second=rate, **base)  # type: ignore[arg-type]
             for kind, n, rate in (("thread", 1, 10.0), ("thread", 2, 9.0), ("process", 1, 8.0),
                                   ("process", 2, 15.2))]
    found = WorkersMeasurement(device="x", device_type="cpu", threads=2, versions={},
                               measured_on="", items=1, has_global_lock=True, rates=rates)
    assert found.speedup("python", "thread", 2) == pytest.approx(0.9)
    assert found.speedup("python", "process", 2) == pytest.approx(1.9)
    with pytest.raises(InputError, match="native"):
        found.speedup("native", "thread", 2)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_all_items_are_shared_out(parts: int) -> None:
    given: list[int] = []

    class Pool:
        def submit(self, call: object, transform: object, times: int) -> Pool:
            given.append(times)
            return self

        def result(self) -> None:
            return None

    workers._share_out(Pool(), workers.python_transform, 6, parts)  # type: ignore[arg-type]
    assert sum(given) == 6
    assert max(given) - min(given) <= 1


def test_the_lock_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert not workers.has_global_lock()
    monkeypatch.delattr(sys, "_is_gil_enabled")
    assert workers.has_global_lock()


@pytest.mark.parametrize("bad", [{"items": 0}, {"seconds": 0.0}, {"workers": [-1]}])
def test_bad_input_is_refused_by_name(bad: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        workers.measure_workers(device="cpu", **bad)  # type: ignore[arg-type]
