"""Original weights: by name, by folder, by file; and every way in which they are not there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from ironlaw import cli
from ironlaw.config import RunConfig
from ironlaw.errors import InputError, UnavailableError
from ironlaw.gpt2 import checkpoint, pretrained
from ironlaw.gpt2.model import GPT
from ironlaw.gpt2.settings import TrainSettings
from ironlaw.gpt2.train import Trainer
from ironlaw.transformer import MODELS, Shape

SMALL = Shape("small", layers=2, width=32, heads=2, context=64, vocab=4100)
TOKENS = torch.arange(40).view(1, 40) * 100


@pytest.fixture(scope="module")
def original() -> Any:
    """A GPT-2 of the `transformers` library with random weights, biases included."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=SMALL.vocab, n_positions=SMALL.context, n_embd=SMALL.width,
        n_layer=SMALL.layers, n_head=SMALL.heads, bos_token_id=0, eos_token_id=0)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    return model


@pytest.fixture(scope="module")
def folder(original: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("weights") / "mine"
    original.save_pretrained(place, safe_serialization=True)
    assert (place / "model.safetensors").exists()
    return place


@pytest.mark.parametrize("pad_vocab", [False, True])
def test_a_folder_gives_the_originals_logits(original: Any, folder: Path, pad_vocab: bool) -> None:
    model = GPT.from_pretrained(str(folder), pad_vocab=pad_vocab, attention="materialised").eval()
    assert (model.shape.layers, model.shape.heads, model.shape.context) == (2, 2, 64)
    with torch.no_grad():
        assert torch.allclose(model(TOKENS), original(TOKENS).logits, atol=1e-4, rtol=0)


def test_a_file_needs_the_sizes_and_gives_the_same(original: Any, folder: Path) -> None:
    file = str(folder / "model.safetensors")
    with pytest.raises(InputError, match="number of heads"):
        GPT.from_pretrained(file)
    model = GPT.from_pretrained(file, shape=SMALL).eval()
    with torch.no_grad():
        assert torch.allclose(model(TOKENS), original(TOKENS).logits, atol=1e-4, rtol=0)
    broken = folder.parent / "broken.safetensors"
    broken.write_bytes(b"no tensors here")
    with pytest.raises(InputError, match=r"whole \.safetensors file"):
        GPT.from_pretrained(str(broken), shape=SMALL)


def test_another_size_is_refused_by_the_name_of_the_tensor(folder: Path) -> None:
    with pytest.raises(InputError, match=r"wte.weight = \(4100, 32\), but it must be of shape"):
        GPT.from_pretrained(str(folder), shape=MODELS["nano"])
    deeper = Shape("deeper", layers=3, width=32, heads=2, context=64, vocab=4100)
    with pytest.raises(InputError, match=r"h\.2\.ln_1"):
        GPT.from_pretrained(str(folder), shape=deeper)


def test_untied_heads_and_linear_layers_that_lie_the_other_way_are_refused(original: Any) -> None:
    state = dict(original.state_dict())
    with pytest.raises(InputError, match="tied"):
        pretrained.load_transformers(
            GPT(SMALL), {**state, "lm_head.weight": state["lm_head.weight"] + 1})
    name = "transformer.h.0.attn.c_attn.weight"
    with pytest.raises(InputError, match="c_attn"):
        pretrained.load_transformers(GPT(SMALL), {**state, name: state[name].T})


def test_another_architecture_is_refused(original: Any, tmp_path: Path) -> None:
    import json

    original.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "activation_function": "relu"}))
    with pytest.raises(InputError, match="activation_function = 'gelu_new'"):
        GPT.from_pretrained(str(tmp_path))


def test_names_are_those_of_the_library_and_of_the_presets() -> None:
    assert {pretrained.preset_of(name) for name in pretrained.ORIGINALS} == set(MODELS) - {"nano"}
    assert pretrained.preset_of("gpt2-774m") == "gpt2-774m"
    assert pretrained.preset_of("nano") is None
    with pytest.raises(InputError, match="no file or folder of that name"):
        GPT.from_pretrained("gpt3")


@pytest.mark.parametrize("name", ["gpt2", "gpt2-1558m"])
def test_without_a_network_it_says_what_is_missing_and_the_way_round(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    import huggingface_hub.constants
    import transformers.utils.hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for module in (huggingface_hub.constants, transformers.utils.hub):
        for place in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"):
            if hasattr(module, place):
                monkeypatch.setattr(module, place, str(tmp_path))
    with pytest.raises(UnavailableError) as caught:
        GPT.from_pretrained(name)
    said = str(caught.value)
    assert "could not be fetched" in said
    assert "save_pretrained('FOLDER')" in said
    assert ("gpt2-xl" if name == "gpt2-1558m" else "gpt2") in said


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch,
                                                   folder: Path) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(UnavailableError, match="pip install transformers"):
        GPT.from_pretrained("gpt2")
    with pytest.raises(UnavailableError, match="pip install safetensors"):
        GPT.from_pretrained(str(folder / "model.safetensors"), shape=SMALL)


@pytest.mark.usefixtures("one_thread")
def test_a_run_starts_from_the_weights_and_resumes_without_them(
    folder: Path, text: Path, tmp_path: Path, original: Any
) -> None:
    # The tiny model's context is 64 and nano's 256: a preset decides the context, so the
    # weights are given the sizes of a preset here.
    import transformers

    shape = MODELS["nano"]
    torch.manual_seed(1)
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=shape.vocab, n_positions=shape.context, n_embd=32, n_layer=1, n_head=2,
        bos_token_id=0, eos_token_id=0))
    place = tmp_path / "weights"
    theirs.save_pretrained(place)
    run = RunConfig(layers=1, width=32, heads=2, batch=2, seq=32)
    settings = TrainSettings(run=run, steps=4, corpus=str(text), init=str(place),
                             checkpoint_every=2)
    trainer = Trainer(settings, tmp_path / "run")
    assert torch.equal(trainer.train_step.model.token_embedding.weight,
                       theirs.transformer.wte.weight)
    expected = trainer.result(trainer.run()).losses
    checkpoint.saved(tmp_path / "run")[0].unlink()
    (place / "model.safetensors").unlink()
    resumed = Trainer(settings, tmp_path / "run", resume=True)
    assert resumed.step == 2
    assert resumed.result(resumed.run()).losses == expected


def test_the_command_takes_the_model_from_the_name(monkeypatch: pytest.MonkeyPatch,
                                                   capsys: pytest.CaptureFixture[str],
                                                   tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "transformers", None)
    given = ["train", "--device", "cpu", "--seq", "16", "--batch", "1", "--steps", "1"]
    Path("text.txt").write_text("some words to train on\n" * 2000, encoding="utf-8")
    assert cli.main([*given, "--corpus", "text.txt", "--init", "gpt2", "--layers", "1"]) == 2
    said = capsys.readouterr().err
    assert "Training gpt2-124m" in said
    assert "The library transformers is not available" in said.splitlines()[-1]
    assert cli.main([*given, "--corpus", "text.txt", "--init", "gpt5"]) == 2
    assert "init = 'gpt5'" in capsys.readouterr().err.splitlines()[-1]
