"""Options of a step that change how it is computed and not what: vocabulary, slices, compiling."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ironlaw import cli
from ironlaw.config import RunConfig
from ironlaw.errors import InputError
from ironlaw.gpt2 import checkpoint, compiling, precision, train
from ironlaw.gpt2.model import GPT, IGNORED
from ironlaw.gpt2.sample import sample
from ironlaw.gpt2.settings import TrainSettings
from ironlaw.gpt2.step import TrainingStep, build, random_batches

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = RunConfig(layers=2, width=32, heads=2, vocab=300, batch=4, seq=24)


def built(config: RunConfig = TINY, **options: object) -> TrainingStep:
    torch.manual_seed(0)
    return build(config, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("loss_rows", [0, 10])
@pytest.mark.parametrize("name", ["fp32", "amp-bf16", "amp-fp16", "pure-bf16"])
def test_a_padded_vocabulary_changes_neither_loss_nor_gradient(
    name: str, loss_rows: int
) -> None:
    config = TINY.replace(precision=name)
    plain, padded = built(config), built(config.replace(loss_rows=loss_rows), pad_vocab=True)
    assert padded.model.token_embedding.weight.shape == (320, 32)
    batches = random_batches(config)
    tolerance = 1e-6 if name == "fp32" else 2e-2
    for _ in range(3):
        a, b = plain.backward(batches), padded.backward(batches)
        assert a.item() == pytest.approx(b.item(), rel=tolerance)
        ours = padded.model.token_embedding.weight.grad
        theirs = plain.model.token_embedding.weight.grad
        assert ours is not None
        assert theirs is not None
        assert not ours[300:].any()  # no gradient reaches a token that does not exist
        assert (ours[:300] - theirs).norm() < 2 * tolerance * theirs.norm()
        plain.update()
        padded.update()
    assert not padded.model.token_embedding.weight[300:].any()


def test_padding_that_learns_would_change_the_loss() -> None:
    """Rows of zeros without the bias take part in the softmax: the test above can fail."""
    plain, padded = built(), built(pad_vocab=True)
    padded.model.no_such_token = None
    tokens, targets = random_batches(TINY)[0]
    assert padded.model.loss(tokens, targets) - plain.model.loss(tokens, targets) > 0.05


def test_a_padded_model_still_speaks_its_own_vocabulary() -> None:
    model = built(pad_vocab=True).model.eval()
    tokens = random_batches(TINY)[0][0]
    logits = model(tokens)
    assert logits.shape == (4, 24, 300)
    assert torch.isfinite(logits).all()
    assert sample(model, tokens[:1, :3], 40, temperature=100.0, top_k=None).max() < 300
    round_size = TINY.replace(vocab=320)
    assert built(round_size, pad_vocab=True).model.token_embedding.weight.shape == (320, 32)


def test_padding_takes_nothing_from_the_random_numbers_of_the_rest() -> None:
    plain, padded = built().model.state_dict(), built(pad_vocab=True).model.state_dict()
    assert plain.keys() == padded.keys()
    for name, value in plain.items():
        assert torch.equal(padded[name][:len(value)], value), name
    with torch.device("meta"):
        assert GPT(TINY.shape, pad_vocab=True).token_embedding.weight.is_meta


@pytest.mark.parametrize("loss_rows", [0, 10])
def test_compiling_goes_through_torch_and_computes_the_same(
    loss_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = torch.compile
    # Traced for real; the machine code alone is left out, which takes a minute and a C++ compiler.
    monkeypatch.setattr(torch, "compile", functools.partial(compiler, backend="aot_eager"))
    monkeypatch.setattr(compiling, "obstacle", lambda *_: "")
    config = TINY.replace(loss_rows=loss_rows)
    plain, compiled = built(config), built(config, compile=True)
    assert (plain.compiled, compiled.compiled, compiled.not_compiled) == (False, True, "")
    tokens, targets = random_batches(TINY)[0]
    targets = targets.masked_fill(targets < 30, IGNORED)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for _ in range(3):
        assert compiled([(tokens, targets)]).item() == pytest.approx(
            plain([(tokens, targets)]).item(), rel=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not torch._dynamo.utils.counters["graph_break"]
    assert set(compiled.model.state_dict()) == set(plain.model.state_dict())


def test_what_cannot_be_compiled_says_why_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    step = built(compile=True)
    assert not step.compiled
    assert "no-such-compiler was not found" in step.not_compiled
    assert step(random_batches(TINY)).item() > 0
    full, half = precision.of("fp32", "cpu"), precision.of("amp-bf16", "cpu")
    for capability, formats, expected in (((6, 1), full, "7.0"), ((7, 5), half, "8.0"),
                                          ((7, 5), full, ""), ((9, 0), half, "")):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, c=capability: c)
        found = compiling.obstacle(formats, "cuda")
        assert expected in found
        assert bool(found) == bool(expected)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "Triton on CUDA" in compiling.obstacle(full, "cuda")
    assert "mps" in compiling.obstacle(full, "mps")
    tiled = built(TINY.replace(attention="tiled"), compile=True)
    assert not tiled.compiled
    assert "written to be read" in tiled.not_compiled


class BrokenCompilerError(Exception):
    """A compiler that is there and does not work."""


class _RaisesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, loss: torch.Tensor) -> torch.Tensor:
        return loss.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        raise BrokenCompilerError("\n no kernel for the second\nmany more lines")


def breaks_at_once(function: object) -> Callable[..., torch.Tensor]:
    raise BrokenCompilerError("\n no kernel for the second\nmany more lines")


def breaks_in_the_forward_pass(function: object) -> Callable[..., torch.Tensor]:
    def compiled(*tensors: torch.Tensor) -> torch.Tensor:
        torch.rand(9)  # random numbers are gone by the time it fails
        raise BrokenCompilerError("\n no kernel for the second\nmany more lines")
    return compiled


def breaks_in_the_second_backward_pass(
    function: Callable[..., torch.Tensor]
) -> Callable[..., torch.Tensor]:
    calls: list[None] = []

    def compiled(*tensors: torch.Tensor) -> torch.Tensor:
        calls.append(None)
        result = function(*tensors)
        return result if len(calls) == 1 else _RaisesBackward.apply(result)
    return compiled


@pytest.mark.parametrize("loss_rows", [0, 10])
@pytest.mark.parametrize("compiler", [breaks_at_once, breaks_in_the_forward_pass,
                                      breaks_in_the_second_backward_pass])
def test_a_compiler_that_fails_costs_nothing(
    compiler: object, loss_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TINY.replace(loss_rows=loss_rows, accumulate=2)
    batches = random_batches(config)
    plain = built(config, dropout=0.2)
    expected = [plain(batches).item() for _ in range(3)]
    monkeypatch.setattr(torch, "compile", compiler)
    monkeypatch.setattr(compiling, "obstacle", lambda *_: "")
    step = built(config, dropout=0.2, compile=True)
    assert [step(batches).item() for _ in range(3)] == expected
    assert not step.compiled
    assert step.not_compiled == ("torch.compile failed (BrokenCompilerError: no kernel for the "
                                 "second)")
    for name, value in plain.model.state_dict().items():
        assert torch.equal(step.model.state_dict()[name], value), name


def test_gradients_of_earlier_batches_outlive_a_compiler_that_fails(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = built()
    batches = random_batches(TINY)
    for _ in range(2):
        plain.backward(batches)
    monkeypatch.setattr(torch, "compile", breaks_in_the_second_backward_pass)
    monkeypatch.setattr(compiling, "obstacle", lambda *_: "")
    step = built(compile=True)
    before = built()
    before.backward(batches)
    for ours, theirs in zip(step.model.parameters(), before.model.parameters(), strict=True):
        ours.grad = theirs.grad
    step._compiled_loss(*batches[0])  # type: ignore[misc]  # its one good pass
    step.backward(batches)
    assert step.not_compiled
    for ours, theirs in zip(step.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)  # type: ignore[arg-type]


def test_errors_that_are_not_the_compilers_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "obstacle", lambda *_: "")

    def short(*_: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch, "compile", lambda function: short)
    step = built(compile=True)
    with pytest.raises(torch.OutOfMemoryError):
        step(random_batches(TINY))
    monkeypatch.setattr(torch, "compile", lambda function: function)
    step = built(compile=True)
    wrong = [(tokens + 10**6, targets) for tokens, targets in random_batches(TINY)]
    with pytest.raises(IndexError):
        step(wrong)


def test_a_run_says_once_that_the_compiler_failed_and_its_result_keeps_it(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", breaks_in_the_forward_pass)
    monkeypatch.setattr(compiling, "obstacle", lambda *_: "")
    run = RunConfig(layers=1, width=32, heads=2, batch=2, seq=32)
    said: list[str] = []
    found = train.train(TrainSettings(run=run, steps=3, corpus=str(text), compile=True),
                        tmp_path / "run", say=said.append)
    assert [line for line in said if "ompile" in line] == [
        "Not compiled: torch.compile failed (BrokenCompilerError: no kernel for the second). "
        "Steps run as they stand."]
    assert found.notes["compile"].startswith("torch.compile failed")
    assert len(found.losses) == 3


def test_the_options_reach_a_run_and_its_checkpoint(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    run = RunConfig(layers=1, width=32, heads=2, vocab=4100, batch=2, seq=32)
    plain = TrainSettings(run=run, steps=6, corpus=str(text), checkpoint_every=3)
    chosen = TrainSettings(run=run.replace(loss_rows=16), steps=6, corpus=str(text),
                           checkpoint_every=3, pad_vocab=True, compile=True)
    said: list[str] = []
    expected = train.train(plain, tmp_path / "plain")
    found = train.train(chosen, tmp_path / "chosen", say=said.append)
    for (_, a), (_, b) in zip(expected.losses, found.losses, strict=True):
        assert a == pytest.approx(b, rel=1e-4)
    assert found.config["run"]["loss_rows"] == 16
    assert any("no-such-compiler was not found" in line for line in said)
    assert "no-such-compiler" in found.notes["compile"]
    state = checkpoint.load(checkpoint.saved(tmp_path / "chosen")[0])
    assert state["model"]["token_embedding.weight"].shape == (4160, 32)
    model = checkpoint.load_model(tmp_path / "chosen")
    assert model(torch.zeros(1, 4, dtype=torch.long)).shape == (1, 4, 4100)
    with pytest.raises(InputError, match="pad_vocab"):
        train.train(TrainSettings(run=run.replace(loss_rows=16), steps=6, corpus=str(text),
                                  compile=True), tmp_path / "chosen", resume=True)


@pytest.mark.parametrize(("changes", "named"), [
    ({"rewinds": -1}, "rewinds"),
    ({"skip_batches": -1}, "skip_batches"),
])
def test_bad_options_are_named(changes: dict[str, int], named: str) -> None:
    with pytest.raises(InputError) as caught:
        TrainSettings(**changes)  # type: ignore[arg-type]
    assert caught.value.argument == named


def test_the_flags_make_the_settings_and_a_resumed_run_keeps_them(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    given = ["train", "--layers", "1", "--width", "32", "--heads", "2", "--batch", "2", "--seq",
             "32", "--threads", "1", "--device", "cpu", "--corpus", str(text)]
    out = str(tmp_path / "run")
    assert cli.main([*given, "--steps", "4", "--out", out, "--rewinds", "2", "--skip-batches", "7",
                     "--loss-rows", "16", "--pad-vocab", "--compile"]) == 0
    shown = capsys.readouterr().out
    assert "Rewinds       0 of at most 2: none needed" in shown
    assert "Not compiled  torch.compile needs a C++ compiler" in shown
    saved = checkpoint.settings_of(Path(out))
    assert saved is not None
    assert (saved.rewinds, saved.skip_batches, saved.run.loss_rows, saved.pad_vocab,
            saved.compile) == (2, 7, 16, True, True)
    assert cli.main(["train", "--resume", "--out", out, "--json"]) == 0
    capsys.readouterr()
    assert cli.main(["train", "--resume", "--out", out, "--rewinds", "3"]) == 2
    assert "rewinds = 3, but it must be 2, as in the run" in capsys.readouterr().err
    assert cli.main([*given, "--rewinds", "1", "--checkpoint-every", "0"]) == 2
    assert "Rewinding needs checkpoints" in capsys.readouterr().err
