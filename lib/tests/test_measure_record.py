"""A recording: in time, resumable, small, and silent about whose machine it is."""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from ironlaw import cli, recordings, results
from ironlaw.config import RunConfig
from ironlaw.errors import InputError, UnavailableError
from ironlaw.measure import device, memory, record, record_plan
from ironlaw.measure.record import Instrument, compact
from ironlaw.results import MemorySweep, Result
from ironlaw.results_systems import RecordingIndex


def result(peaks: int = 1, note: str = "") -> MemorySweep:
    return MemorySweep(config={"batch": 1}, limit_bytes=1e9, largest_batch=2,
                       peaks=[(n, n / 3) for n in range(peaks)], notes={"n": note} if note else {})


def instrument(name: str, calls: list[str], make: Callable[[], Result] = result,
               least: float = 0.0, weight: float = 1.0) -> Instrument:
    def run(here: device.Device, seconds: float) -> Result:
        calls.append(name)
        return make()

    return Instrument(name, weight, least, run)


def made(out: Path, calls: list[str], names: str = "a b c", **more: object) -> RecordingIndex:
    todo = more.pop("instruments", None) or [instrument(n, calls) for n in names.split()]
    return record.record(out, device="cpu", instruments=todo, **more)  # type: ignore[arg-type]


def folder(out: Path) -> Path:
    return out / f"cpu_{torch.get_num_threads()}core"


def test_one_file_per_instrument_and_an_index_that_names_them(tmp_path: Path) -> None:
    calls: list[str] = []
    index = made(tmp_path, calls)
    assert calls == ["a", "b", "c"]
    assert {f.name for f in folder(tmp_path).iterdir()} == {"a.json", "b.json", "c.json",
                                                            "index.json"}
    assert results.load((folder(tmp_path) / "index.json").read_text()) == index
    for name, entry in index.instruments.items():
        held = results.load((folder(tmp_path) / entry.file).read_text())
        assert (entry.file, entry.kind) == (f"{name}.json", held.kind)


def test_a_second_run_keeps_what_is_fresh(tmp_path: Path) -> None:
    calls: list[str] = []
    made(tmp_path, calls, "a b")
    index = made(tmp_path, calls, "a b c")
    assert calls == ["a", "b", "c"]
    assert set(index.instruments) == {"a", "b", "c"}
    made(tmp_path, calls, "a b c", again=True)
    assert calls == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.parametrize("change", ["file", "versions", "age", "device", "index"])
def test_what_is_not_fresh_is_measured_again(tmp_path: Path, change: str,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    made(tmp_path, calls, "a")
    file = folder(tmp_path) / "index.json"
    data = json.loads(file.read_text())
    if change == "file":
        (folder(tmp_path) / "a.json").write_text("{}")
    elif change == "versions":
        data["instruments"]["a"]["versions"]["torch"] = "1.0"
    elif change == "age":
        data["instruments"]["a"]["measured_on"] = "2020-01-01T00:00:00+00:00"
    elif change == "device":
        data["device"] = "another"
    file.write_text("{" if change == "index" else json.dumps(data))
    index = made(tmp_path, calls, "a")
    assert calls == ["a", "a"]
    assert set(index.instruments) == {"a"}


def test_what_was_made_on_a_busy_machine_is_made_again_on_a_quiet_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    share = 0.3
    monkeypatch.setattr(record.timing, "processor_share", lambda: share)

    def noisy() -> Result:
        notes = record.host.circumstances(2, share)
        return dataclasses.replace(result(), notes=notes)

    todo = [instrument("a", calls, noisy), instrument("b", calls)]
    index = made(tmp_path, calls, instruments=todo)
    assert "beside a:" in index.notes["busy"]
    assert made(tmp_path, calls, instruments=todo).notes == index.notes
    assert calls == ["a", "b"], "no quieter now: nothing to gain"
    share = 0.95
    assert "busy" not in made(tmp_path, calls, instruments=todo).notes
    assert calls == ["a", "b", "a"]


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    calls: list[str] = []
    made(tmp_path, calls, "a b c", only=["b"])
    assert calls == ["b"]
    with pytest.raises(InputError, match="'a', 'b', 'c'"):
        made(tmp_path, calls, "a b c", only=["d"])


def test_time_is_shared_by_weight_and_none_is_overdrawn(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 s: 'a' may take 3 of 4 parts but takes 50 s; 'b' needs 20 s and is named; 'c' fits."""
    clock, allowed = [0.0], {}
    monkeypatch.setattr(record, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def taking(name: str, spent: float, weight: float, least: float) -> Instrument:
        def run(here: device.Device, seconds: float) -> Result:
            allowed[name] = seconds
            clock[0] += spent
            return result()
        return Instrument(name, weight, least, run)

    index = made(tmp_path, [], minutes=1.0, instruments=[
        taking("a", 50.0, 6.0, 1.0), taking("b", 1.0, 1.0, 20.0), taking("c", 5.0, 1.0, 1.0)])
    assert allowed == {"a": pytest.approx(45.0), "c": pytest.approx(10.0)}
    assert "needs about 20 s" in index.reasons["b"]
    assert index.instruments["a"].seconds == 50.0


@pytest.mark.parametrize("problem", [
    RuntimeError("CUDA out of memory\nlong trace"), UnavailableError("NCCL", "one GPU.", "Buy."),
    MemoryError(), ImportError("no module named x"), AttributeError("older PyTorch")])
def test_a_failure_is_named_and_the_rest_goes_on(tmp_path: Path, problem: Exception) -> None:
    def broken() -> Result:
        raise problem

    calls: list[str] = []
    index = made(tmp_path, calls, instruments=[instrument("a", calls, broken),
                                               instrument("b", calls)])
    assert set(index.instruments) == {"b"}
    assert "\n" not in index.reasons["a"]
    assert index.reasons["a"]
    healed = made(tmp_path, calls, "a b")
    assert healed.reasons == {}
    assert calls == ["a", "b", "a"]


def test_an_interrupt_leaves_a_whole_index(tmp_path: Path) -> None:
    def interrupted() -> Result:
        raise KeyboardInterrupt

    calls: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, calls, instruments=[instrument("a", calls),
                                           instrument("b", calls, interrupted)])
    index = results.load((folder(tmp_path) / "index.json").read_text())
    assert isinstance(index, RecordingIndex)
    assert set(index.instruments) == {"a"}
    made(tmp_path, calls, "a b")
    assert calls == ["a", "b", "b"]
    assert not list(folder(tmp_path).glob(".writing-*"))


def test_killed_at_work_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """The process dies by SIGKILL inside the second of three instruments."""
    code = """
import os, signal, sys
from pathlib import Path
from test_measure_record import instrument
from ironlaw.measure import record
def die(here, seconds):
    os.kill(os.getpid(), signal.SIGKILL)
record.record(Path(sys.argv[1]), device="cpu", minutes=1, instruments=[
    instrument("one", []), record.Instrument("two", 1.0, 0.0, die), instrument("three", [])])
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)],
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
                          capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert sorted(f.name for f in folder(tmp_path).iterdir()) == ["index.json", "one.json"]
    calls: list[str] = []
    index = made(tmp_path, calls, "one two three", minutes=1)
    assert list(index.instruments) == ["one", "two", "three"]
    assert calls == ["two", "three"]


class PretendedGpu(device.Device):
    """Takes every path of a CUDA device, and computes on the CPU."""

    @property
    def type(self) -> str:
        return "cuda"


def test_a_gpus_batches_are_halved_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(layers=1, width=32, heads=2, vocab=512, batch=8, seq=64)
    gpu = PretendedGpu(torch.device("cpu"), "GPU", 1e9, 2, None, {})
    needs = memory.trace(config.replace(batch=4)).peak_bytes
    for free, batch in ((1e9, 8), (1.26 * needs, 4), (1.24 * needs, 2)):
        monkeypatch.setattr(device, "free_bytes", lambda here, free=free: free)
        assert record_plan.fitting(gpu, config).batch == batch, "a fifth stays free"
    assert record_plan.fitting(device.find("cpu"), config) == config, "a CPU's stay as they are"
    with pytest.raises(UnavailableError, match=r"4 x 64"):
        record_plan.fitting(gpu, config, least=4)


def test_what_does_not_fit_at_all_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "free_bytes", lambda here: 1e6)
    gpu = PretendedGpu(torch.device("cpu"), "GPU", 1e6, 2, None, {})
    with pytest.raises(UnavailableError, match=r"1\.000 MB"):
        record_plan.fitting(gpu, RunConfig(batch=2, seq=64))


def test_a_file_too_large_is_refused(tmp_path: Path) -> None:
    index = made(tmp_path, [], instruments=[instrument("a", [], lambda: result(100_000))])
    assert not index.instruments
    assert "more than a recording's file may have" in index.reasons["a"]
    assert not (folder(tmp_path) / "a.json").exists()


def test_names_and_folders_do_not_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "ada-laptop")
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    home = "/ho" + "me/ada/course/model.pt"
    windows = r"C:\Us" + r"ers\ada\x.txt"
    note = f"ada on ada-laptop read {home} and {windows}, not adaptive 3/4 s or aten::mm"
    made(tmp_path, [], instruments=[instrument("a", [], lambda: result(note=note))])
    text = (folder(tmp_path) / "a.json").read_text()
    assert json.loads(text)["notes"]["n"] == (
        "[user] on [host] read [model.pt] and [x.txt], not adaptive 3/4 s or aten::mm")


def test_a_users_name_changes_no_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "memory_sweep")
    made(tmp_path, [], instruments=[instrument("a", [])])
    assert results.load((folder(tmp_path) / "a.json").read_text()) == result()


def test_rounding_keeps_whole_numbers_whole() -> None:
    value = {"flops": 8.7517e11 + 1, "count": 123456789, "time": 0.123456789, "no": None,
             "yes": True, "list": [1 / 3, -2.5]}
    assert compact(value) == {"flops": 875170000001.0, "count": 123456789, "time": 0.1234568,
                              "no": None, "yes": True, "list": [0.3333333, -2.5]}
    with pytest.raises(InputError, match="finite"):
        compact({"x": float("nan")})


def test_a_recording_is_named_after_the_kind_of_device() -> None:
    gpu = device.Device(torch.device("cuda", 0), "NVIDIA A100-SXM4-80GB", 8e10, 16,
                        "A100 SXM 80GB", {})
    assert record.recording_name(gpu) == "a100_sxm_80gb"
    assert record.recording_name(dataclasses.replace(gpu, catalogue_name=None)) == (
        "nvidia_a100_sxm4_80gb")


def test_the_plan_suits_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = record.available(device.find("cpu"), Path("."))
    names = [one.name for one in cpu]
    assert len(names) == len(set(names))
    assert set(names) >= {"device", "step", "memory", "attention", "precision", "recompute",
                          "pipeline", "trace", "scaling", "roofline", "energy", "activations"}
    monkeypatch.setattr(record, "obstacle", lambda target, dtype: "")
    gpu = device.Device(torch.device("cuda", 0), "GPU", 8e10, 16, None, {})
    more = [one.name for one in record.available(gpu, Path("."))]
    assert len(more) == len(set(more))
    assert set(more) >= {"step_gpt2-1558m", "memory_gpt2-1558m"}
    compiled = [name for name in more if name.endswith("_compiled")]
    assert compiled == [f"step_gpt2-{size}_compiled" for size in ("124m", "350m", "774m", "1558m")]
    assert not [name for name in names if name.endswith("_compiled")], "a GPU's alone"


def test_a_gpus_steps_are_recorded_plain_and_in_the_quickest_form(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, tuple[str, bool, bool]] = {}

    def measured(config: RunConfig, *, pad_vocab: bool, compile: bool, **_: object) -> Result:
        asked[name] = config.model, pad_vocab, compile
        return result()

    monkeypatch.setattr(record, "obstacle", lambda target, dtype: "")
    monkeypatch.setattr(record_plan, "fitting", lambda here, config, least=1: config)
    monkeypatch.setattr("ironlaw.measure.step.measure_step", measured)
    gpu = PretendedGpu(torch.device("cpu"), "GPU", 8e10, 2, None, {})
    for one in record.available(gpu, tmp_path):
        if one.name.startswith("step"):
            name = one.name
            one.make(gpu, 60.0)
    assert asked["step"] == ("gpt2-124m", False, False)
    assert asked["step_gpt2-124m_compiled"] == ("gpt2-124m", True, True)
    assert asked["step_gpt2-1558m"] == ("gpt2-1558m", False, False)
    assert asked["step_gpt2-1558m_compiled"] == ("gpt2-1558m", True, True)
    assert len(asked) == 8


def test_a_resumed_step_finds_the_recorded_peak(tmp_path: Path) -> None:
    assert record_plan.recorded_profile(tmp_path) is None
    (tmp_path / "device.json").write_text('{"schema": 1, "kind": "memory"}')
    assert record_plan.recorded_profile(tmp_path) is None
    held = recordings.load(recordings.names()[0], "device")
    (tmp_path / "device.json").write_text(json.dumps(held.to_json()))
    assert record_plan.recorded_profile(tmp_path) == held


def test_the_command_records_resumes_and_prints_json(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["record", "--out", str(tmp_path), "--only", "energy", "--minutes", "0.5",
             "--device", "cpu", "--json"]
    assert cli.main(words) == 0
    first = capsys.readouterr()
    index = RecordingIndex.from_json(first.out)
    assert list(index.instruments) == ["energy"]
    assert "energy: done" in first.err
    assert cli.main(words) == 0
    again = capsys.readouterr()
    assert "energy: fresh, kept" in again.err
    assert RecordingIndex.from_json(again.out).instruments == index.instruments
    assert cli.main([*words[:-1], "--show"]) == 0
    assert "Energy was not measured." in capsys.readouterr().out
    assert cli.main(["record", "--only", "nonsense", "--out", str(tmp_path)]) == 2
    assert "only" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert cli.main(["record", "--only", "energy", "--out", str(tmp_path / "file")]) == 2


# --- what comes with the course -----------------------------------------------------------

def test_recordings_of_the_course_can_be_read_without_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from ironlaw import recordings as r\n"
         "print(*r.names()); r.load(r.names()[0], 'step'); assert 'torch' not in sys.modules"],
        capture_output=True, text=True, check=True)
    assert done.stdout.split() == recordings.names()
    assert recordings.names()
    with pytest.raises(InputError, match=recordings.names()[0]):
        recordings.index("abacus")
    with pytest.raises(InputError, match="'step'"):
        recordings.load(recordings.names()[0], "abacus")


@pytest.mark.parametrize("name", recordings.names())
def test_recordings_of_the_course_hold_together(name: str) -> None:
    index = recordings.index(name)
    assert index.name == name
    assert all(instrument_ in str(index) for instrument_ in index.instruments)
    assert set(index.instruments) | set(index.reasons) >= {
        "device", "step", "memory", "attention", "precision", "recompute", "pipeline", "trace",
        "scaling", "roofline", "energy"}
    root = Path(recordings.__file__).parent / name
    assert {f.name for f in root.iterdir()} == {
        "index.json", *(e.file for e in index.instruments.values())}
    for instrument_, entry in index.instruments.items():
        data = (root / entry.file).read_bytes()
        assert len(data) <= record.LARGEST
        assert record.hashlib.sha256(data).hexdigest() == entry.sha256, "edited by hand?"
        held = recordings.load(name, instrument_)
        assert held.kind == entry.kind
        text = data.decode()
        assert len(str(held)) > 100
        assert not re.search(r"/(home|root|tmp|Users)/", text)
        _medians_are_those_of_the_samples(json.loads(text))


def _medians_are_those_of_the_samples(value: object) -> None:
    if isinstance(value, dict):
        samples = value.get("samples")
        if isinstance(samples, list) and samples and isinstance(value.get("seconds"), float):
            assert min(samples) <= value["seconds"] <= max(samples)
        for inner in value.values():
            _medians_are_those_of_the_samples(inner)
    elif isinstance(value, list):
        for inner in value:
            _medians_are_those_of_the_samples(inner)
