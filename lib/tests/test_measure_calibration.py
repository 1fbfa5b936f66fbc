"""The clock, the sweep and the profile: what is counted, and what a ceiling must be."""

from __future__ import annotations

import json
import statistics
from types import SimpleNamespace

import pytest
import torch
from ironlaw import cli, workspace
from ironlaw.errors import InputError
from ironlaw.measure import calibration, host, matmul, timing
from ironlaw.measure.device import Device
from ironlaw.results import DeviceProfile, MatmulRate, load
from torch.utils.flop_counter import FlopCounterMode

CPU = torch.device("cpu")


class FakeClock:
    """Time passes only when work is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def work(self, seconds: float) -> None:
        self.now += seconds


def test_a_sample_repeats_short_calls_and_drops_the_first(
        monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)
    calls = iter([5.0])  # the first call is slow: it compiles

    samples = timing.sample(lambda: clock.work(next(calls, 1e-4)), CPU, seconds=0.05,
                            shortest=2e-3)
    assert samples == pytest.approx([1e-4] * len(samples))
    assert len(samples) == pytest.approx(0.05 / 2e-3, abs=1)


def test_a_slow_call_is_still_sampled_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)
    assert timing.sample(lambda: clock.work(9.0), CPU, seconds=0.1) == [9.0, 9.0, 9.0]


def test_the_clock_is_read_only_when_the_device_is_idle(
        monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)
    queue: list[float] = []

    def drain(_: torch.device) -> None:
        clock.work(sum(queue))
        queue.clear()

    monkeypatch.setattr(timing, "synchronise", drain)
    queue.append(7.0)  # somebody else's work, queued before
    took = timing.seconds_per_call(lambda: queue.append(2.0), torch.device("mps"), repeats=3)
    assert took == pytest.approx(2.0)


def test_cuda_times_come_from_events_on_the_right_device(
        monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")

        def synchronize(self) -> None:
            log.append("wait")

        def elapsed_time(self, other: Event) -> float:
            return 30.0  # milliseconds

    class Current:
        def __init__(self, device: torch.device) -> None:
            log.append(str(device))

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "device", Current)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("idle"))
    took = timing.seconds_per_call(lambda: log.append("call"), torch.device("cuda", 1), repeats=2)
    assert took == pytest.approx(0.015)
    assert log == ["cuda:1", "idle", "record", "call", "call", "record", "wait"]


def test_spread_is_the_median_and_the_interquartile_range() -> None:
    assert timing.spread([1.0, 2.0, 3.0, 4.0, 100.0]) == timing.Spread(3.0, 2.0)
    assert timing.spread([5.0]) == timing.Spread(5.0, 0.0)
    with pytest.raises(InputError):
        timing.spread([])


def test_a_product_counts_two_flop_per_multiply_add() -> None:
    product = matmul.Product(3, 5, 7)
    counter = FlopCounterMode(display=False)
    with counter:
        torch.mm(torch.ones(3, 5), torch.ones(5, 7))
    assert product.flops == counter.get_total_flops() == 210
    assert product.elements == 3 * 5 + 5 * 7 + 3 * 7
    assert (product.name, matmul.Product(8, 8, 8).name) == ("3x5x7", "8")


def test_the_sweep_holds_squares_and_gpt2_shapes_cheapest_first() -> None:
    for kind in ("cpu", "cuda"):
        found = matmul.products(torch.device(kind))
        assert [p.flops for p in found] == sorted(p.flops for p in found)
        assert {"1024x768x3072", "1024x3072x768", "2048"} <= {p.name for p in found}


def test_the_sweep_keeps_the_best_sample_of_both_layouts(
        monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def sample(call: object, device: torch.device, **_: object) -> list[float]:
        call()  # type: ignore[operator]
        seen.append(1)
        return [0.5, 0.25, 1.0] if len(seen) % 2 else [0.125, 2.0]

    monkeypatch.setattr(timing, "sample", sample)
    product = matmul.Product(4, 4, 4)
    found = matmul.sweep(CPU, "fp32", seconds=1.0, wanted=[product])
    assert found.rates == {"4": product.flops / 0.125}
    assert found.samples == {"4": [0.5, 0.25, 1.0, 0.125, 2.0]}, "every try of both layouts"


def test_a_format_too_slow_for_the_time_left_is_cut_short(
        monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)

    def slow(product: matmul.Product, *_: object) -> list[float]:
        clock.work(10 * product.flops / 1e9)  # an emulated format: 1 GFLOP/s
        return [product.flops / 1e9]

    monkeypatch.setattr(matmul, "_samples", slow)
    began = clock.now
    found = matmul.sweep(CPU, "fp16", seconds=2.0)
    assert next(iter(found.rates)) == "256"
    assert "4096" in found.skipped
    assert "time" in found.skipped["4096"]
    assert clock.now - began <= 2.0 + 10 * 2 * 256**3 / 1e9
    assert set(found.rates) | set(found.skipped) == {p.name for p in matmul.products(CPU)}


def test_a_product_that_memory_cannot_hold_is_not_tried() -> None:
    found = matmul.sweep(CPU, "fp32", seconds=0.5, memory_bytes=8 * 3 * 64 * 64 * 4,
                         wanted=[matmul.Product(64, 64, 64), matmul.Product(65, 65, 65)])
    assert list(found.rates) == ["64"]
    assert "memory" in found.skipped["65"]


def test_the_float32_setting_is_put_back_even_after_a_failure() -> None:
    before = torch.get_float32_matmul_precision()

    def fail_in_medium() -> None:
        with matmul.float32_mode("medium"):
            assert torch.get_float32_matmul_precision() == "medium"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_medium()
    assert torch.get_float32_matmul_precision() == before
    with pytest.raises(InputError, match="mode"), matmul.float32_mode("fast"):
        pass


def test_rounded_products_are_told_from_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert matmul.float32_is_exact(CPU)
    product = torch.Tensor.__matmul__

    def like_tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype != torch.float32:
            return product(a, b)
        # Ten bits of mantissa, as TF32 keeps: clear the other thirteen.
        cut = [(t.view(torch.int32) & ~0x1FFF).view(torch.float32) for t in (a, b)]
        return product(*cut)

    monkeypatch.setattr(torch.Tensor, "__matmul__", like_tf32)
    assert not matmul.float32_is_exact(CPU)


@pytest.fixture(scope="module")
def profile() -> DeviceProfile:
    return calibration.calibrate("cpu", seconds=3.0)


def test_a_cpu_profile_is_whole_and_says_what_is_absent(profile: DeviceProfile) -> None:
    assert set(profile.samples) == {"copy", "launch"}, "a CPU transfers nothing"
    assert profile.launch_seconds == pytest.approx(
        statistics.median(profile.samples["launch"]), rel=1e-4)
    assert len(json.dumps(profile.to_json())) < 200_000
    old = profile.to_json()
    del old["samples"]
    for rates in old["matmul"].values():
        del rates["samples"]
    assert DeviceProfile.from_json(old).peak("fp32") == profile.peak("fp32")
    assert profile.device_type == "cpu"
    assert {"fp32", "bf16"} <= set(profile.matmul)
    for dtype, rate in profile.matmul.items():
        assert rate.dtype == dtype
        assert rate.flops_per_second == max(rate.by_size.values()) == rate.by_size[rate.best]
        assert rate.by_size[str(rate.size)] > 0
        assert set(rate.samples) == set(rate.by_size)
        work = {p.name: p.flops for p in matmul.products(CPU)}
        for name, taken in rate.samples.items():
            assert work[name] / min(taken) == pytest.approx(rate.by_size[name], rel=1e-4)
        assert profile.peak(dtype).flops_per_second == rate.flops_per_second
    assert profile.copy_bytes_per_second
    assert profile.launch_seconds
    assert profile.host_to_device_bytes_per_second is None
    assert "host's own memory" in profile.reasons["host_to_device_bytes_per_second"]
    assert "tf32" not in profile.matmul
    assert profile.reasons["matmul.tf32"]
    assert "highest" in profile.notes["matmul.fp32.precision"]
    assert "thread" in profile.notes["matmul.fp32.threads"]
    assert "read" in profile.notes["copy_bytes_per_second"]
    assert load(json.dumps(profile.to_json())) == profile


def test_calibrating_changes_no_setting(profile: DeviceProfile) -> None:
    assert profile.threads == torch.get_num_threads()
    assert torch.get_float32_matmul_precision() == "highest"


def test_only_the_formats_asked_for_are_measured() -> None:
    lines: list[str] = []
    found = calibration.calibrate("cpu", ["bf16"], 0.5, progress=lines.append)
    assert list(found.matmul) == ["bf16"]
    assert lines == ["matrix products in bf16", "copy bandwidth", "launch latency",
                     "host to device"]
    with pytest.raises(InputError, match="dtypes"):
        calibration.calibrate("cpu", ["fp4"])
    with pytest.raises(InputError, match="seconds"):
        calibration.calibrate("cpu", seconds=0.0)


def test_a_format_that_pytorch_refuses_is_a_reason_not_a_crash(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> matmul.Sweep:
        raise RuntimeError('"addmm_impl_cpu_" not implemented for \'Half\'\nmore')

    monkeypatch.setattr(matmul, "sweep", refuse)
    found = calibration.calibrate("cpu", ["fp16"], 0.5)
    assert found.matmul == {}
    assert "not implemented for 'Half'" in found.reasons["matmul.fp16"]
    with pytest.raises(InputError, match="Half"):
        found.peak("fp16")


def test_copying_counts_the_bytes_read_and_the_bytes_written(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "sample", lambda call, device, **_: [0.5, 0.25])
    here = SimpleNamespace(type="cpu", torch_device=CPU, memory_bytes=16 * 4000.0)
    kept: dict[str, list[float]] = {}
    rate = calibration._copy_rate(here, 1.0, {}, {}, kept)  # type: ignore[arg-type]
    assert rate == 2 * 4000 / 0.25
    assert kept == {"copy": [0.5, 0.25]}


def test_a_busy_machine_and_too_many_threads_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_quota", lambda: 8.0)
    assert host.circumstances(threads=8, share=0.97) == {}
    assert host.circumstances(threads=8) == {}
    monkeypatch.setattr(host, "cpu_quota", lambda: 2.0)
    notes = host.circumstances(threads=8, share=0.45)
    assert "OMP_NUM_THREADS to 2" in notes["threads"]
    assert "45 %" in notes["busy"]


def test_the_processor_share_is_cpu_time_over_clock_time_of_all_threads(
        monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)
    monkeypatch.setattr(timing.torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(timing.torch, "sin", lambda *_, **__: clock.work(0.01))
    # Two of four threads' worth of CPU time passes.
    monkeypatch.setattr(timing.time, "process_time", lambda: 2 * clock.now)
    assert timing.processor_share() == pytest.approx(0.5)


def test_a_device_that_runs_out_of_memory_keeps_what_was_measured(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def rate(product: matmul.Product, *_: object) -> list[float]:
        if product.m > 8:
            raise RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)")
        return [product.flops / 1e12]

    monkeypatch.setattr(matmul, "_samples", rate)
    found = matmul.sweep(CPU, "fp32", seconds=1.0,
                         wanted=[matmul.Product(8, 8, 8), matmul.Product(9, 9, 9)])
    assert found.rates == {"8": pytest.approx(1e12)}
    assert "out of memory" in found.skipped["9"]


def test_an_emulated_format_is_named_as_such() -> None:
    def rate(dtype: str, value: float) -> MatmulRate:
        return MatmulRate(dtype=dtype, flops_per_second=value, size=8, by_size={"8": value})

    notes: dict[str, str] = {}
    calibration._note_emulation({"fp32": rate("fp32", 100.0), "bf16": rate("bf16", 200.0),
                                 "fp16": rate("fp16", 5.0)}, notes)
    assert list(notes) == ["matmul.fp16"]
    assert "0.05" in notes["matmul.fp16"]


def test_the_command_saves_the_profile_and_prints_it(
        capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["calibrate", "--device", "cpu", "--seconds", "0.5", "--dtypes", "fp32",
                     "--json"]) == 0
    out = capsys.readouterr()
    printed = DeviceProfile.from_json(out.out)
    assert printed == workspace.profile()
    assert "copy bandwidth" in out.err  # progress, kept away from the JSON


def test_the_table_sets_the_data_sheet_beside_what_was_reached(profile: DeviceProfile) -> None:
    plain = str(profile)
    assert profile.name in plain
    assert "not had" in plain  # host to device
    rate = MatmulRate(dtype="bf16", flops_per_second=250e12, size=8192, by_size={"8192": 250e12})
    gpu = DeviceProfile(
        name="NVIDIA A100-SXM4-80GB", device_type="cuda", threads=8, memory_bytes=85e9,
        matmul={"bf16": rate}, copy_bytes_per_second=1.6e12, launch_seconds=4e-6,
        host_to_device_bytes_per_second=25e9, catalogue_name="A100 80GB SXM", versions={},
        measured_on="2026-01-01T00:00:00+00:00")
    lines = str(gpu).splitlines()
    bf16 = next(line for line in lines if "bf16" in line)
    assert "312 TFLOP/s" in bf16
    assert "80.1 %" in bf16


class PretendedGpu(Device):
    """Takes every path of a CUDA device, and computes on the CPU."""

    @property
    def type(self) -> str:
        return "cuda"


def test_on_cuda_every_format_runs_in_its_own_mode_and_transfers_are_pinned(
        monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[torch.dtype, str]] = []

    def rate(product: matmul.Product, number: torch.dtype, *_: object) -> list[float]:
        ran.append((number, torch.get_float32_matmul_precision()))
        return [product.flops / 1e12]

    made: list[tuple[int, bool]] = []
    ones = torch.ones

    def spy(*size: int, pin_memory: bool = False, **more: object) -> torch.Tensor:
        made.append((size[0], pin_memory))
        return ones(*size, **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(matmul, "_samples", rate)
    monkeypatch.setattr(torch, "ones", spy)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(calibration, "obstacle", lambda device, dtype: "")
    gpu = PretendedGpu(CPU, "NVIDIA H200", 2**24, 8, None, {})
    found = calibration.calibrate(gpu, seconds=0.5)
    assert set(ran) == {(torch.float32, "highest"), (torch.float32, "high"),
                        (torch.bfloat16, "highest"), (torch.float16, "highest")}
    assert list(found.matmul) == ["fp32", "tf32", "bf16", "fp16"]
    assert (2**20 // 4, True) in made  # the transfer's source: a sixteenth of memory, pinned
    assert found.host_to_device_bytes_per_second
    assert "pinned" in found.notes["host_to_device_bytes_per_second"]
    assert found.versions["capability"] == "9.0"
    assert found.device_type == "cuda"
    assert found.name == "NVIDIA H200"
