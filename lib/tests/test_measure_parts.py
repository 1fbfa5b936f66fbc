"""The parts of a step: each is timed alone, on what a real step would give it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ironlaw import results
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.gpt2 import step as gpt2_step
from ironlaw.measure import parts, timing, trace
from ironlaw.measure.trace import Span
from torch.autograd import DeviceType

TINY = RunConfig(layers=1, width=32, heads=2, vocab=64, batch=2, seq=16, accumulate=2,
                 optimizer="adamw-fused")


def test_every_shape_gets_its_parts_and_they_travel() -> None:
    lines: list[str] = []
    small, large = parts.measure_parts([TINY.replace(batch=1), TINY], rounds=3, device="cpu",
                                       progress=lines.append)
    for found, batch in ((small, 1), (large, 2)):
        assert found.config["batch"] == batch
        assert len(found.optimizer.samples) == len(found.head.samples) == 3
        assert found.optimizer.seconds > 0
        assert found.head.seconds > 0
        assert 0 < found.launch.seconds < 1e-3
        assert "busy_seconds" in found.reasons
        assert results.load(json.dumps(found.to_json())) == found
    assert small.launches == large.launches, "the number of launches does not grow with the batch"
    assert lines


def test_launches_are_counted_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """More blocks add launches to the rest, more micro-batches to the head as well."""
    def counted(**changes: Any) -> dict[str, int]:
        return parts.measure_parts([TINY.replace(**changes)], rounds=1, device="cpu")[0].launches

    one, two = counted(), counted(layers=2)
    assert two["rest"] > one["rest"]
    assert two["loss head"] == one["loss head"] > 0
    assert counted(accumulate=1)["loss head"] * 2 == one["loss head"]
    assert one["optimizer"] > 0


def test_the_update_finds_real_gradients_and_the_head_is_the_models_own(
        monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, Any]] = []

    def clock(call: Any, device: torch.device, repeats: int = 1) -> float:
        """Says what is timed and what the parameters' gradients are before and after."""
        model = shape.train.model
        names = dict(model.named_parameters())
        before = {n for n, p in names.items() if p.grad is not None}
        call()
        after = {n for n, p in names.items() if p.grad is not None}
        seen.append((getattr(call, "__name__", "?"), (before, after)))
        return 1.0

    monkeypatch.setattr(timing, "seconds_per_call", clock)
    monkeypatch.setattr(timing, "sample", lambda *_, **__: [1e-6])
    device = torch.device("cpu")
    train = gpt2_step.build(TINY, device)
    shape = parts._Shape(train, TINY, device, 0)
    shape.take(keep=True)
    everything = {n for n, _ in train.model.named_parameters()}
    (update, (before, after)), (head, (_, touched)) = seen
    assert update == "update"
    assert before == everything
    assert after == set()
    assert head == "call"
    assert touched == {"token_embedding.weight"}, "the head alone, down to its own weight"
    assert shape.head == [2.0], "as often as there are micro-batches"


def test_shapes_must_share_a_model() -> None:
    with pytest.raises(InputError, match="configs"):
        parts.measure_parts([TINY, TINY.replace(width=64)], device="cpu")
    with pytest.raises(InputError, match="rounds"):
        parts.measure_parts([TINY], rounds=0, device="cpu")


def test_leaves_are_the_operations_that_call_no_other() -> None:
    spans = [Span("linear", 0, 10), Span("addmm", 1, 7), Span("copy", 2, 3), Span("copy", 8, 9),
             Span("add", 10, 12)]
    assert [s.name for s in trace.leaves(spans)] == ["copy", "copy", "add"]
    assert trace.leaves([]) == []


def test_a_gpus_launches_are_its_kernels_and_its_time_theirs(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels side by side and one later; the host's own operations are no launches."""
    def event(name: str, start: float, end: float, kind: DeviceType) -> SimpleNamespace:
        return SimpleNamespace(name=name, device_type=kind, is_user_annotation=False,
                               time_range=SimpleNamespace(start=1e6 * start, end=1e6 * end))

    events = [event("aten::mm", 0, 1, DeviceType.CPU), event("gemm", 1, 4, DeviceType.CUDA),
              event("add", 3, 5, DeviceType.CUDA), event("copy", 7, 8, DeviceType.CUDA)]
    order: list[str] = []

    class Profile:
        def __init__(self, activities: list[Any]) -> None:
            assert trace.ProfilerActivity.CUDA in activities

        def __enter__(self) -> Profile:
            order.append("start")
            return self

        def __exit__(self, *_: object) -> None:
            order.append("stop")

        def events(self) -> list[Any]:
            return events

    monkeypatch.setattr(trace, "profile", Profile)
    monkeypatch.setattr(timing, "synchronise", lambda device: order.append("wait"))
    found = trace.launches(lambda: order.append("call"), torch.device("cuda"))
    assert found == (3, pytest.approx(5.0))
    assert order == ["wait", "start", "call", "wait", "stop"], "kernels end before the profile does"
