"""The data pipeline: real batches from real workers, and figures that hold together."""

from __future__ import annotations

import dataclasses
import itertools
import json
import multiprocessing
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from ironlaw import results
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.gpt2 import tokens
from ironlaw.measure import device, loader, pipeline
from ironlaw.results_instruments import LoopTiming, PipelineMeasurement

TINY = RunConfig(layers=1, width=16, heads=2, batch=2, seq=16)
VOCAB = TINY.shape.vocab


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("texts")
    made = []
    for number in range(4):
        file = folder / f"{number}.txt"
        file.write_text(f"text number {number}: " + "def add(a, b):\n    return a + b\n" * 30)
        made.append(file)
    return made


def encoded(file: Path) -> list[int]:
    tokenizer = tokens.for_vocab(VOCAB)
    return [*tokenizer.encode(file.read_text()), tokenizer.end_of_text]


def test_batches_are_the_text_in_order_and_nothing_is_lost(files: list[Path]) -> None:
    dataset = loader.TextBatches(files, VOCAB, batch=2, seq=16)
    got = torch.cat([b.flatten() for b in itertools.islice(dataset, 40)]).tolist()
    once = [number for file in files for number in encoded(file)]
    assert got == list(itertools.islice(itertools.cycle(once), len(got)))


def test_workers_share_the_files_and_repeat_none(files: list[Path]) -> None:
    """The first two files' first tokens come from different workers, each its own files only."""
    dataset = loader.TextBatches(files, VOCAB, batch=1, seq=8)
    data = loader.loader(dataset, 2, pinned=False)
    stream = iter(data)
    got = [next(stream).flatten().tolist() for _ in range(6)]
    stream._shutdown_workers()  # type: ignore[attr-defined]
    for worker, mine in ((0, [files[0], files[2]]), (1, [files[1], files[3]])):
        own = [number for file in mine for number in encoded(file)]
        assert list(itertools.chain.from_iterable(got[worker::2])) == own[:27]


def test_more_workers_than_files_still_have_text(files: list[Path],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    class Info:
        id, num_workers = 5, 7

    monkeypatch.setattr(loader, "get_worker_info", lambda: Info)
    dataset = loader.TextBatches(files, VOCAB, batch=1, seq=8)
    assert next(iter(dataset)).flatten().tolist() == encoded(files[1])[:9]


def test_workers_are_never_forked_from_this_process(files: list[Path]) -> None:
    """A fork of a process in which CUDA runs hangs: every start method here avoids it."""
    dataset = loader.TextBatches(files, VOCAB, 1, 8)
    assert loader.start_method() in ("forkserver", "spawn")
    context = loader.loader(dataset, 1, pinned=False).multiprocessing_context
    assert context.get_start_method() != "fork"
    assert pickle.loads(pickle.dumps(dataset)).files == dataset.files
    assert loader.loader(dataset, 0, pinned=False).multiprocessing_context is None


def test_without_forkserver_workers_are_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["fork", "spawn"])
    assert loader.start_method() == "spawn"


@pytest.fixture(scope="module")
def measured(files: list[Path]) -> PipelineMeasurement:
    return pipeline.measure_pipeline(TINY, files=files, workers=[1], device="cpu", seconds=0.4)


def test_every_stage_has_a_rate(measured: PipelineMeasurement) -> None:
    assert [s.name for s in measured.stages] == ["read", "tokenise", "copy", "step"]
    for stage in measured.stages:
        assert 0.0 < min(stage.samples) <= stage.seconds <= max(stage.samples)
        assert measured.batches_per_second(stage.name) == 1.0 / stage.seconds
    assert "copy engines" in measured.reasons["copy pinned"]
    with pytest.raises(InputError, match="tokenise"):
        measured.stage("shuffle")


def test_loaders_and_loops_add_up(measured: PipelineMeasurement) -> None:
    assert [x.workers for x in measured.loaders] == [x.workers for x in measured.loops] == [0, 1]
    assert [x.prefetch for x in measured.loaders] == [None, loader.PREFETCH]
    assert not any(x.pinned for x in measured.loaders)
    for alone in measured.loaders:
        assert alone.batches_per_second == pytest.approx(len(alone.samples) / sum(alone.samples))
        assert alone.first_batch_seconds > 0.0
    for loop in measured.loops:
        whole = sum(loop.wait_samples) + sum(loop.step_samples)
        assert loop.iteration_seconds == pytest.approx(whole / len(loop.step_samples), rel=0.05)
        assert loop.idle_share == pytest.approx(sum(loop.wait_samples) / whole, abs=0.05)
        assert loop.tokens_per_second == pytest.approx(32 / loop.iteration_seconds)
    assert measured.tokens_per_batch == 32
    assert results.load(json.dumps(measured.to_json())) == measured


def test_overlap_is_the_share_of_the_wait_that_workers_hide(
        measured: PipelineMeasurement) -> None:
    def waits(workers: int, *seconds: float) -> LoopTiming:
        return dataclasses.replace(measured.loop(min(workers, 1)), workers=workers,
                                   wait_samples=list(seconds))

    found = dataclasses.replace(measured, loops=[
        waits(0, 0.3, 0.5), waits(1, 0.1, 0.1, 0.1), waits(2, 0.0, 0.0), waits(4, 0.6)])
    assert [found.overlap(n) for n in (0, 1, 2, 4)] == pytest.approx([0.0, 0.75, 1.0, -0.5])
    assert "wait hidden" in str(found)
    assert "75.0 %" in str(found)
    assert re.search(r"^  4 .* none$", str(found), re.MULTILINE), "they made the loop wait longer"
    with pytest.raises(InputError, match="workers"):
        found.overlap(3)


def test_waits_and_steps_are_told_apart_and_fill_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that only the loader (3 s) and the step (1 s) move forward."""
    clock = [0.0]

    def passes(seconds: float) -> list[object]:
        clock[0] += seconds
        return []

    monkeypatch.setattr(pipeline, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    waits, steps, whole = pipeline._on_the_clock(
        lambda: passes(3.0), lambda batch: passes(1.0),  # type: ignore[arg-type]
        torch.device("cpu"), 19.0)
    assert waits == [3.0] * 5
    assert steps == [1.0] * 5
    assert whole == 20.0


class FakeEvent:
    """Stands for a CUDA event; `gpu` is the GPU's own time, set by the test."""

    gpu = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at = -1.0

    def record(self) -> None:
        self.at = FakeEvent.gpu

    def elapsed_time(self, other: FakeEvent) -> float:
        return 1e3 * (other.at - self.at)


def test_on_cuda_idle_time_comes_from_the_gpus_stamps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    waited: list[str] = []
    monkeypatch.setattr(pipeline.timing, "synchronise", lambda device: waited.append(device.type))
    load: Iterator[float] = itertools.cycle([3.0])

    def fetch() -> list[object]:
        FakeEvent.gpu += next(load)  # the batch is late by 3 s: the GPU runs dry
        return []

    def train(batch: object) -> None:
        FakeEvent.gpu += 1.0

    waits, steps, whole = pipeline._on_cuda(  # type: ignore[arg-type]
        fetch, train, torch.device("cuda", 0), 0.0)
    assert waits == [3.0] * 3
    assert steps == [1.0] * 3
    assert whole == 12.0
    assert waited == ["cuda", "cuda"], "only before the first step and after the last"


def test_a_transformation_is_a_stage_of_its_own(files: list[Path]) -> None:
    found = pipeline.measure_pipeline(TINY, files=files, workers=[0], transform=loader.clean,
                                      device="cpu", seconds=0.2)
    assert [s.name for s in found.stages] == ["read", "transform", "tokenise", "copy", "step"]
    dataset = loader.TextBatches(files, VOCAB, 1, 8, loader.clean)
    wanted = tokens.for_vocab(VOCAB).encode(loader.clean(files[0].read_text()))
    assert next(iter(dataset)).flatten().tolist() == wanted[:9]


def test_clean_keeps_words_and_lines() -> None:
    text = "  a\t\tb  c \n\n d\t\n"
    assert loader.clean(text) == " a b c\n\n d\n"
    assert loader.clean(text).split() == text.split()
    assert loader.clean(text).count("\n") == text.count("\n")


def test_a_transformation_that_workers_cannot_import_is_refused_in_words(
        files: list[Path]) -> None:
    def mine(text: str) -> str:
        return text

    mine.__module__ = "__main__"  # as in a notebook
    dataset = loader.TextBatches(files, VOCAB, 1, 8, mine)
    with pytest.raises(InputError, match="writefile"):
        loader.loader(dataset, 1, pinned=False)
    assert next(iter(loader.loader(dataset, 0, pinned=False))).shape == (1, 9)


def test_usual_workers_follow_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for cpus, quota, wanted in ((1, None, [0, 1]), (2, None, [0, 1, 2]), (64, None, [0, 1, 2, 4]),
                                (64, 2.0, [0, 1, 2]), (8, 0.5, [0, 1])):
        monkeypatch.setattr(pipeline.os, "cpu_count", lambda cpus=cpus: cpus)
        monkeypatch.setattr(pipeline.host, "cpu_quota", lambda quota=quota: quota)
        assert pipeline.usual_workers() == wanted


def test_pinned_memory_is_for_cuda_alone() -> None:
    for kind in ("cpu", "mps"):
        here = device.Device(torch.device(kind), "x", None, 2, None, {})
        reasons, _ = pipeline._remarks(here, None)
        assert kind in reasons["copy pinned"]
    cuda = device.Device(torch.device("cuda", 0), "x", None, 2, None, {})
    assert "copy pinned" not in pipeline._remarks(cuda, None)[0]


@pytest.mark.parametrize(("bad", "said"), [({"workers": [-1]}, "workers"), ({"files": []}, "files"),
                                           ({"seconds": 0.0}, "seconds")])
def test_bad_input_is_refused_by_name(bad: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        pipeline.measure_pipeline(TINY, device="cpu", **bad)  # type: ignore[arg-type]
