"""Two real processes over loopback: sums, volumes, gradients; and no process left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ironlaw import results
from ironlaw.config import RunConfig
from ironlaw.errors import InputError, UnavailableError
from ironlaw.measure import device, scaling
from ironlaw.predict.scaling import ring_bytes
from ironlaw.results_systems import ScalingMeasurement

TINY = RunConfig(layers=2, width=32, heads=2, vocab=64, batch=2, seq=16)
MESSAGES = (4096.0, 2.0 ** 21)


@pytest.fixture(scope="module")
def measured() -> ScalingMeasurement:
    return scaling.measure_scaling(TINY, message_bytes=MESSAGES, repeats=2, device="cpu",
                                   timeout=300)


def test_gradients_of_both_processes_are_that_of_all_the_data(
        measured: ScalingMeasurement) -> None:
    assert [s.method for s in measured.steps] == ["alone", "ddp", "fsdp2"]
    assert measured.step("alone").gradient_error is None
    for method in ("ddp", "fsdp2"):
        error = measured.step(method).gradient_error
        assert error is not None
        assert error < 1e-5


def test_fsdp_holds_a_share_of_the_parameters_and_ddp_all(measured: ScalingMeasurement) -> None:
    everything = 4.0 * TINY.shape.parameters
    assert measured.step("alone").parameter_bytes == everything
    assert measured.step("ddp").parameter_bytes == everything
    assert measured.step("fsdp2").parameter_bytes == everything / 2


def test_all_reduce_moves_at_least_the_rings_volume(measured: ScalingMeasurement) -> None:
    assert [r.message_bytes for r in measured.all_reduce] == list(MESSAGES)
    large = measured.all_reduce[1]
    if large.wire_bytes is None:
        assert sys.platform != "linux"
        return
    per_process = ring_bytes(large.message_bytes, 2)
    # Other programs may use the loopback interface meanwhile: more is possible, less is not.
    assert large.wire_bytes >= 2 * per_process
    assert measured.backend == "gloo"


def test_a_ddp_step_sends_its_gradients_and_a_lonely_one_nothing(
        measured: ScalingMeasurement) -> None:
    sent = {step.method: step.wire_bytes for step in measured.steps}
    if sent["ddp"] is None:
        assert sys.platform != "linux"
        return
    gradients = 4.0 * TINY.shape.parameters
    assert sent["ddp"] >= 2 * ring_bytes(gradients, 2)
    assert sent["fsdp2"] is not None
    # Parameters are gathered for forward and again for backward, gradients scattered.
    assert sent["fsdp2"] >= 2 * ring_bytes(gradients, 2)


def test_workers_also_start_under_torchrun(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"config": TINY.to_json(), "backend": "gloo", "repeats": 1,
                                "message_bytes": [4096], "timeout": 240}))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "ironlaw.measure.scaling_worker", str(spec)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(spec.with_name("result.json").read_text())
    assert list(found["steps"]) == ["alone", "ddp", "fsdp2"]
    assert found["steps"]["ddp"]["gradient_error"] < 1e-5


def test_the_result_travels(measured: ScalingMeasurement) -> None:
    assert results.load(json.dumps(measured.to_json())) == measured
    assert measured.processes == 2
    for step in measured.steps:
        assert len(step.samples) == 2
        assert step.seconds > 0
    with pytest.raises(InputError, match="fsdp2"):
        measured.step("zero")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every process that the instrument starts, running `code` instead of a worker."""
    found: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        found.append(real([sys.executable, "-c", os.environ["FAKE_WORKER"]], **more))
        return found[-1]

    monkeypatch.setattr(scaling, "subprocess",
                        SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    return found


def test_processes_that_hang_are_ended_in_time(
        started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_WORKER", "import time; print('waiting', flush=True); time.sleep(999)")
    with pytest.raises(UnavailableError, match=r"not done after 2 s\. waiting"):
        scaling.measure_scaling(TINY, device="cpu", timeout=2.0)
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_one_that_fails_ends_the_others_and_is_quoted(
        started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_WORKER", "import os, sys, time\nif os.environ['RANK'] == '1':\n"
                       "    sys.exit('no such collective')\ntime.sleep(999)")
    with pytest.raises(UnavailableError, match=r"Process 1 of 2.*no such collective"):
        scaling.measure_scaling(TINY, device="cpu", timeout=120.0)
    assert all(process.poll() is not None for process in started)


def test_an_interrupt_leaves_no_process(
        started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_WORKER", "import time; time.sleep(999)")

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scaling, "time", SimpleNamespace(monotonic=time.monotonic,
                                                         sleep=interrupted))
    with pytest.raises(KeyboardInterrupt):
        scaling.measure_scaling(TINY, device="cpu")
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_nccl_needs_a_gpu_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = device.Device(torch.device("cuda", 0), "x", None, 8, None, {})
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    backend, reasons = scaling._backend(cuda, 2)
    assert backend == "gloo"
    assert "1 for 2" in reasons["nccl"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert scaling._backend(cuda, 2)[0] == "nccl"


def test_the_workers_see_loopback_only(tmp_path: Path) -> None:
    """Whatever the environment says, the group is bound to the loopback interface."""
    from ironlaw.measure import scaling_worker

    if sys.platform not in scaling_worker.LOOPBACK:
        pytest.skip("The loopback interface has no fixed name on this system.")
    code = ("import os, sys, torch.distributed as dist\n"
            "from pathlib import Path\n"
            "from ironlaw.measure import scaling_worker as w\n"
            "def seen(*a, **k): print(os.environ['GLOO_SOCKET_IFNAME'], k['init_method'][:7])\n"
            "dist.init_process_group = seen\n"
            "w.measure = lambda *a: {}\n"
            "dist.barrier = dist.destroy_process_group = lambda: None\n"
            "w.main(Path(sys.argv[1]))\n")
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"backend": "gloo", "timeout": 5}))
    done = subprocess.run(
        [sys.executable, "-c", code, str(spec)], capture_output=True, text=True, check=True,
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": "eth0"})
    assert done.stdout.split() == [scaling_worker.LOOPBACK[sys.platform], "file://"]
    assert (tmp_path / "result.json").read_text() == "{}"


@pytest.mark.parametrize("bad", [{"processes": 1}, {"repeats": 0}, {"message_bytes": [1.0]},
                                 {"timeout": 0.0}])
def test_bad_input_is_refused_by_name(bad: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        scaling.measure_scaling(TINY, device="cpu", **bad)  # type: ignore[arg-type]


def test_loss_scaling_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="Loss scaling"):
        scaling.measure_scaling(TINY.replace(precision="amp-fp16"), device="cpu")
