"""Finding the device, naming it, and never guessing what it is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from ironlaw import hardware
from ironlaw.errors import InputError, UnavailableError
from ironlaw.measure import device as devices
from ironlaw.measure import host


def pretend_cuda(monkeypatch: pytest.MonkeyPatch, name: str, memory: float = 80e9,
                 capability: tuple[int, int] = (9, 0), count: int = 1) -> None:
    """A driver that reports `name`; nothing can run on it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(torch.cuda, "get_device_properties",
                        lambda _: SimpleNamespace(name=name, total_memory=memory))


@pytest.fixture
def cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IRONLAW_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("cpu_only")
def test_a_cpu_is_found_named_and_not_looked_up() -> None:
    here = devices.find()
    assert (here.type, here.name) == ("cpu", host.cpu_name())
    assert here.threads == torch.get_num_threads()
    assert here.memory_bytes == host.memory_bytes()
    assert here.catalogue is None
    assert "CPU" in here.reasons["catalogue_name"]


@pytest.mark.usefixtures("cpu_only")
def test_the_best_kind_is_cuda_then_mps_then_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices.best() == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.best() == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.best() == "cuda"


@pytest.mark.usefixtures("cpu_only")
def test_a_device_that_is_not_there_is_refused_with_a_way_out() -> None:
    for name in ("cuda", "cuda:0", "mps"):
        with pytest.raises(UnavailableError, match="on the CPU instead"):
            devices.find(name)


@pytest.mark.parametrize("name", ["tpu", "gpu", "xla:0", "meta", "", "cuda:x"])
def test_a_name_that_is_no_device_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="'cpu', 'cuda', 'cuda:N', 'mps'"):
        devices.find(name)


def test_the_environment_decides_unless_an_argument_does(
        monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch, "NVIDIA A100-SXM4-80GB")
    assert devices.find().type == "cuda"
    monkeypatch.setenv("IRONLAW_DEVICE", "cpu")
    assert devices.find().type == "cpu"
    assert devices.find("cuda").type == "cuda"


def test_a_gpu_of_the_catalogue_is_recognised_by_its_driver_name(
        monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in hardware.catalogue().accelerators.values():
        if entry.vendor != "NVIDIA" or not entry.drivers or entry.memory.value is None:
            continue
        pretend_cuda(monkeypatch, entry.drivers[0], entry.memory.value)
        here = devices.find("cuda")
        assert here.name == entry.drivers[0]
        assert here.torch_device == torch.device("cuda", 0)
        if here.catalogue_name is not None:  # two entries may share a name and a size
            assert entry.drivers[0] in here.catalogue.drivers  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["NVIDIA A100X", "NVIDIA L400", "NVIDIA H20", "Graphics Device",
                                  "NVIDIA A100-SXM4-80GB MIG 1g.10gb"])
def test_an_unknown_gpu_stays_unknown(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pretend_cuda(monkeypatch, name)
    here = devices.find("cuda")
    assert here.catalogue is None
    assert name in here.reasons["catalogue_name"]


def test_a_known_name_with_another_memory_is_another_device(
        monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch, "NVIDIA A100-SXM4-80GB", memory=85e9)
    assert devices.find("cuda").catalogue_name == "A100 80GB SXM"
    pretend_cuda(monkeypatch, "NVIDIA A100-SXM4-80GB", memory=10e9)  # a slice of one
    here = devices.find("cuda")
    assert here.catalogue is None
    assert "10.0 GB" in here.reasons["catalogue_name"]


def test_a_gpu_number_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch, "NVIDIA H200", count=2)
    assert devices.find("cuda:1").torch_device.index == 1
    with pytest.raises(UnavailableError, match="this machine has 2"):
        devices.find("cuda:2")


def test_tf32_needs_an_nvidia_gpu_from_ampere_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda", 0)
    assert "NVIDIA" in devices.obstacle(torch.device("cpu"), "tf32")
    pretend_cuda(monkeypatch, "NVIDIA A100-SXM4-80GB", capability=(8, 0))
    assert devices.obstacle(gpu, "tf32") == ""
    pretend_cuda(monkeypatch, "Tesla T4", capability=(7, 5))
    assert "8.0" in devices.obstacle(gpu, "tf32")
    monkeypatch.setattr(torch.version, "hip", "6.2")
    pretend_cuda(monkeypatch, "AMD Instinct MI300X", capability=(9, 4))
    assert devices.obstacle(gpu, "tf32")


def test_emulated_bf16_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def is_supported(including_emulation: bool = True) -> bool:
        asked.append(including_emulation)
        return including_emulation  # as a T4 answers

    class Current:
        def __init__(self, device: torch.device) -> None:
            self.device = device

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    monkeypatch.setattr(torch.cuda, "device", Current)
    assert "emulated" in devices.obstacle(torch.device("cuda", 0), "bf16")
    assert asked == [False]


def test_the_container_limit_counts_not_the_machine(tmp_path: Path) -> None:
    assert host.memory_bytes(tmp_path) == host.memory_bytes(tmp_path / "absent")
    (tmp_path / "memory.max").write_text("2147483648\n")
    assert host.memory_bytes(tmp_path) == 2**31
    (tmp_path / "memory.max").write_text("max\n")
    assert host.memory_bytes(tmp_path) == host.memory_bytes(tmp_path / "absent")


@pytest.mark.parametrize(("text", "cpus"), [("max 100000\n", None), ("150000 100000\n", 1.5),
                                            ("garbage", None)])
def test_a_cpu_quota_is_read_from_cgroup_2(tmp_path: Path, text: str, cpus: float | None) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert host.cpu_quota(tmp_path) == cpus


def test_a_cpu_quota_is_read_from_cgroup_1(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert host.cpu_quota(tmp_path) is None
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("200000\n")
    assert host.cpu_quota(tmp_path) == 2.0


def test_the_largest_cache_is_the_last_level(tmp_path: Path) -> None:
    for index, size in enumerate(("32K", "1024K", "32M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert host.last_level_cache_bytes(tmp_path) == 32 * 2**20
    assert host.cpu_name(tmp_path / "no-cpuinfo")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU 9000\n")
    assert host.cpu_name(tmp_path / "cpuinfo") == "Some CPU 9000"


def test_an_apple_chip_is_named_and_its_gpu_is_not_guessed(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 12 * 2**30)
    monkeypatch.setattr(host, "cpu_name", lambda: "Apple M2")
    here = devices.find("mps")
    assert (here.type, here.name, here.memory_bytes) == ("mps", "Apple M2", 12 * 2**30)
    assert here.catalogue is None
    assert "Apple M2" in here.reasons["catalogue_name"]
