"""A trace is read rightly: mystery jobs with one known flaw each are told apart."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ironlaw import results
from ironlaw.config import RunConfig
from ironlaw.measure import device, trace
from ironlaw.measure.trace import Span
from torch.autograd import DeviceType

TINY = RunConfig(layers=2, width=32, heads=2, vocab=64, batch=2, seq=16)


def late(batch: Any) -> Any:
    time.sleep(0.05)
    return batch


def test_the_flaw_of_each_job_is_found() -> None:
    small, square, long = torch.ones(4), torch.randn(700, 700), torch.randn(8_000_000)

    def thinking(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return x + 1

    jobs = {
        "data": (lambda: late(small), lambda x: x.exp()),
        "algorithm": (lambda: square, lambda x: x @ x @ x @ x),
        "machine": (lambda: long, lambda x: (x + x) * x - x),
        None: (lambda: small, thinking),
    }
    for axis, (load, train) in jobs.items():
        found = trace.profile_job(load, train, steps=3, warmup=1, device="cpu")
        assert found.axis == axis, found.shares
        assert sum(found.shares.values()) == pytest.approx(1.0)
        assert found.idle_share == pytest.approx(found.shares["data"] + found.shares["host"])
        assert ("axis" in found.reasons) == (axis is None)
        assert results.load(json.dumps(found.to_json())) == found


def test_work_done_to_make_a_batch_counts_as_waiting_for_it() -> None:
    big = torch.randn(300, 300)
    found = trace.profile_job(lambda: (big @ big @ big @ big @ big).sum(), lambda x: x + 1,
                              steps=3, device="cpu")
    assert found.axis == "data"
    assert found.shares["compute"] == 0.0


def test_a_gap_says_what_the_host_did() -> None:
    found = trace.profile_job(lambda: late(torch.ones(3)), lambda x: x * 2, steps=2, device="cpu")
    slept = [gap for gap in found.gaps if gap.during == trace.LOAD and gap.seconds >= 0.049]
    assert len(slept) == 2
    assert [g.start for g in found.gaps] == sorted(g.start for g in found.gaps)


def test_a_step_of_gpt2_shows_its_kernels_and_their_flop(tmp_path: Path) -> None:
    file = tmp_path / "timeline.json"
    found = trace.measure_trace(TINY, steps=2, device="cpu", chrome_trace=file)
    rows = {row.name: row for row in found.kernels}
    assert {"matmul", "attention", "norm"} <= {row.category for row in found.kernels}
    assert [r.seconds for r in found.kernels] == sorted((r.seconds for r in found.kernels),
                                                       reverse=True)
    # Two blocks of four linear layers: 2 FLOP per token and weight, in both steps.
    forward = 2 * 2 * TINY.batch * TINY.sequence * (3 + 1 + 4 + 4) * 32 * 32
    assert rows["aten::addmm"].flops == 2 * forward
    assert rows["aten::addmm"].calls == 2 * 2 * 4
    assert json.loads(file.read_text())["traceEvents"]
    assert results.load(json.dumps(found.to_json())) == found


def event(name: str, start: float, end: float, kind: DeviceType = DeviceType.CUDA,
          **more: Any) -> SimpleNamespace:
    return SimpleNamespace(name=name, device_type=kind, flops=0,
                           time_range=SimpleNamespace(start=1e6 * start, end=1e6 * end), **more)


def test_a_gpus_trace_is_read_from_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps of 10 s: 6 s until the batch is there, then 3 s of a product and 1 s of a copy."""
    cpu = DeviceType.CPU
    events = []
    for at in (0.0, 10.0):
        events += [event(trace.LOAD, at, at + 6, cpu), event(trace.TRAIN, at + 6, at + 6.5, cpu),
                   event("aten::mm", at + 6.1, at + 6.2, cpu),
                   event("sm90_xmma_gemm_bf16", at + 6, at + 9),
                   event("vectorized_elementwise_kernel", at + 8.5, at + 10),
                   event(trace.TRAIN, at + 6, at + 10, is_user_annotation=True),
                   event("Optimizer.step#AdamW.step", at + 6, at + 10)]
    cuda = device.Device(torch.device("cuda", 0), "GPU", None, 4, None, {})
    monkeypatch.setattr(trace, "origin", lambda here: {
        "device": here.name, "device_type": here.type, "threads": 4, "versions": {},
        "measured_on": ""})
    work = trace.device_spans(events)
    found = trace._measurement(cuda, None, 2, 20.0, work, events, {}, None)
    assert found.busy_seconds == pytest.approx(8.0)
    assert found.idle_share == pytest.approx(0.6)
    assert found.axis == "data"
    assert found.shares["data"] == pytest.approx(0.6)
    # Side by side on two streams: 3 s and 1.5 s of own time, shares of the 4 s that were busy.
    assert found.shares["compute"] == pytest.approx(0.4 * 3.0 / 4.5)
    assert {k.name: k.seconds for k in found.kernels} == pytest.approx(
        {"sm90_xmma_gemm_bf16": 6.0, "vectorized_elementwise_kernel": 3.0})
    assert "kernels.flops" in found.reasons


def test_own_time_leaves_out_what_was_called() -> None:
    work = [Span("aten::linear", 0, 10), Span("aten::addmm", 1, 7), Span("aten::copy_", 2, 3),
            Span("aten::copy_", 8, 9), Span("aten::add", 10, 12)]
    rows = {r.name: (r.calls, r.seconds) for r in trace.kernel_rows(work, {})}
    assert rows == {"aten::addmm": (1, 5), "aten::linear": (1, 3), "aten::copy_": (2, 2),
                    "aten::add": (1, 2)}


spans = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=20).map(
    lambda pairs: sorted((Span("x", a, a + b) for a, b in pairs), key=lambda s: s.start))


@given(spans)
def test_busy_and_idle_stretches_fill_the_time(found: list[Span]) -> None:
    busy = trace.union(found)
    idle = trace.gaps(busy, 0.0, 111.0)
    assert sum(b - a for a, b in busy) + sum(b - a for a, b in idle) == pytest.approx(111.0)
    assert all(first[1] < second[0] for first, second in itertools.pairwise(busy))
    for span in found:
        assert trace.overlap((span.start, span.end), idle) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("name", "kind"), [
    ("aten::addmm", "matmul"), ("ampere_bf16_s16816gemm_bf16_128x64", "matmul"),
    ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "attention"),
    ("pytorch_flash::flash_fwd_kernel", "attention"), ("aten::gelu", "elementwise"),
    ("aten::_fused_adamw_", "optimizer"), ("aten::native_layer_norm_backward", "norm"),
    ("Memcpy HtoD (Pinned -> Device)", "copy"), ("aten::_log_softmax", "softmax"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication")])
def test_names_find_their_category(name: str, kind: str) -> None:
    assert trace.category(name) == kind
