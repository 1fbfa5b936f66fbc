"""A step that cannot fit in memory is refused before it is built; one that fits never is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ironlaw import cli
from ironlaw.commands import _attention, _room
from ironlaw.config import RunConfig
from ironlaw.errors import UnavailableError
from ironlaw.measure import device, host
from ironlaw.predict import peak

GB = 1e9
BIG = RunConfig(model="gpt2-1558m", attention="materialised", optimizer="adamw-fused")


def refusal(config: RunConfig, free: float, device_type: str = "cpu",
            resumed: bool = False) -> str:
    with pytest.raises(UnavailableError) as caught:
        _room.check(config, device_type, free, resumed=resumed)
    return str(caught.value)


def test_the_refusal_says_what_is_asked_what_is_there_and_what_fits() -> None:
    said = refusal(BIG, 20 * GB)
    for words in ("gpt2-1558m with 8 x 1024 tokens in fp32", "104.3 GB (97.11 GiB)",
                  "20.00 GB (18.63 GiB) free",
                  "This fits: --attention flash", "check the loss", "--force"):
        assert words in said


@pytest.mark.parametrize("free", [9 * GB, 20 * GB, 50 * GB])
def test_the_plan_that_is_named_passes_the_same_check(free: float) -> None:
    told = re.findall(r"--([\w-]+) ([\w-]+)", refusal(BIG, free))
    changes = {flag.replace("-", "_"): value for flag, value in told}
    numbers = {k: int(v) for k, v in changes.items() if v.isdigit()}
    said: list[str] = []
    _room.check(BIG.replace(**{**changes, **numbers}), "cpu", free, say=said.append)
    assert said == []


def test_what_fits_is_never_refused_and_what_is_unknown_neither() -> None:
    needed = peak.step_memory(BIG).peak
    said: list[str] = []
    _room.check(BIG, "cpu", needed, say=said.append)
    assert said[0].startswith("Memory is tight")
    _room.check(BIG, "cpu", 1.3 * needed, say=said.append)
    _room.check(BIG, "mps", None, say=said.append)
    assert len(said) == 1
    refusal(BIG, 0.999 * needed)


def test_on_a_cpu_no_workspace_of_multi_tensor_kernels_is_counted() -> None:
    config = RunConfig(model="gpt2-124m", batch=1, seq=16, optimizer="adamw")
    between = (peak.step_memory(config).peak
               + peak.step_memory(config.replace(optimizer="adamw-fused")).peak) / 2
    refusal(config, between, "cuda")
    _room.check(config, "cpu", between)


def test_force_goes_on_and_a_resumed_run_gets_no_plan() -> None:
    said: list[str] = []
    _room.check(BIG, "cpu", GB, force=True, say=said.append)
    assert said[0].startswith("Memory is short: gpt2-1558m")
    advice = refusal(BIG, GB, resumed=True)
    assert "keeps its settings" in advice
    assert "This fits" not in advice


def test_without_any_plan_the_largest_preset_that_fits_is_named() -> None:
    said = refusal(BIG, 2.5 * GB)
    found = re.search(r"--model ([\w-]+)", said)
    assert found
    assert found[1] in ("gpt2-124m", "gpt2-350m")
    assert "close other programs" in refusal(BIG, 1e6)
    assert "close other programs" in refusal(BIG, 0.0)


def test_the_advice_keeps_to_the_formats_that_the_device_has() -> None:
    wish = RunConfig(model="gpt2-1558m", batch=1, precision="amp-fp16")
    with pytest.raises(UnavailableError) as caught:
        _room.check(wish, "cuda", 16 * GB, catalogue_name="T4")
    assert "No setting makes this model fit here" in str(caught.value)
    assert "bf16" not in str(caught.value)
    assert "--precision pure-bf16" in refusal(wish, 16 * GB, "cuda")


@pytest.mark.parametrize("words", [
    ["train", "--device", "cpu"], ["compare", "--on", "cpu"],
    ["measure", "--backend", "device", "--on", "cpu"]])
def test_every_command_that_runs_steps_refuses_in_time(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(host, "available_bytes", lambda: 8 * GB)
    assert cli.main([*words, "--model", "gpt2-1558m", "--steps", "2"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"ironlaw {words[0]}: Memory for this step is not available")
    assert not list(tmp_path.iterdir())


def test_available_memory_is_the_systems_estimate_or_the_containers_rest(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  8000000 kB\nMemAvailable:   4000000 kB\n")
    assert host.available_bytes(meminfo, tmp_path) == 4_096_000_000
    assert host.available_bytes(tmp_path / "absent", tmp_path) is None
    (tmp_path / "memory.max").write_text("2000000000\n")
    (tmp_path / "memory.current").write_text("1500000000\n")
    assert host.available_bytes(meminfo, tmp_path) == 5e8
    (tmp_path / "memory.stat").write_text("anon 9\ninactive_file 200000000\nactive_file 7\n")
    assert host.available_bytes(meminfo, tmp_path) == 700_000_007
    (tmp_path / "memory.current").write_text("3000000000\n")
    assert host.available_bytes(meminfo, tmp_path) == 0
    (tmp_path / "memory.max").write_text("max\n")
    older = tmp_path / "memory"
    older.mkdir()
    (older / "memory.limit_in_bytes").write_text("1000000000\n")
    (older / "memory.usage_in_bytes").write_text("400000000\n")
    (older / "memory.stat").write_text("inactive_file 5\ntotal_inactive_file 100000000\n")
    assert host.available_bytes(meminfo, tmp_path) == 7e8


def test_free_memory_of_this_cpu_is_part_of_all_of_it() -> None:
    here = device.find("cpu")
    free = device.free_bytes(here)
    if free is not None:
        assert here.memory_bytes is not None
        assert 0 < free <= here.memory_bytes


def test_the_attention_is_named_with_its_reason() -> None:
    assert _attention.quickest("cpu") == "materialised"
    assert _attention.quickest("cuda") == _attention.quickest("mps") == "flash"
    assert "default on a CPU" in _attention.described("materialised", "cpu", asked=False)
    assert "as asked" in _attention.described("flash", "cpu", asked=True)
    assert "resumed" in _attention.described("flash", "cpu", asked=False, resumed=True)
