"""Corpora: the same text in the same order, encoded once, dealt out exactly once an epoch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ironlaw import workspace
from ironlaw.errors import InputError
from ironlaw.gpt2 import corpus, tokens
from ironlaw.gpt2.corpus import Batches


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    lines = [f"line {i}: the {i % 7}th word of đoạn {i * i}\n" for i in range(3000)]
    file.write_text("".join(lines), encoding="utf-8")
    return file


def test_the_standard_library_comes_without_tests_and_in_one_order() -> None:
    files = corpus.standard_library()
    names = [file.as_posix() for file in files]
    assert len(files) > 400
    assert any(name.endswith("/json/decoder.py") for name in names)
    assert not [n for n in names if "/test/" in n or "/tests/" in n or "site-packages" in n]
    assert files == corpus.standard_library()


def test_every_token_is_kept_and_a_part_is_held_back(text: Path) -> None:
    tokenizer = tokens.nano()
    made = corpus.load(str(text), tokenizer)
    total = len(made.train) + len(made.validation)
    assert 0.02 < len(made.validation) / total < 0.10
    pieces = corpus.documents(str(text))
    assert "".join(pieces) == text.read_text(encoding="utf-8")
    held_out = "".join(piece for i, piece in enumerate(pieces) if i % 20 == 19)
    assert tokenizer.decode(made.validation.tolist()) == held_out
    assert made.text_bytes == text.stat().st_size


@pytest.mark.parametrize("content", [
    "Words in one long line. " * 900 + "\n", "word" * 5000,
    "".join(f"{'line ' * 60}{i}\n" for i in range(31))])
def test_a_text_with_long_lines_is_cut_too(tmp_path: Path, content: str) -> None:
    file = tmp_path / "line.txt"
    file.write_text(content, encoding="utf-8")
    pieces = corpus.documents(str(file))
    assert 20 <= len(pieces) <= 41
    assert "".join(pieces) == content
    made = corpus.load(str(file), tokens.nano())
    assert len(made.validation) > 0.02 * len(made.train)


def test_the_hash_follows_the_content(text: Path) -> None:
    first = corpus.load(str(text), tokens.nano())
    assert corpus.load(str(text), tokens.nano()).sha256 == first.sha256
    moved = text.with_name("copy.txt")
    moved.write_bytes(text.read_bytes())
    assert corpus.load(str(moved), tokens.nano()).sha256 == first.sha256
    text.write_text(text.read_text(encoding="utf-8").replace("word", "ward"), encoding="utf-8")
    changed = corpus.load(str(text), tokens.nano())
    assert changed.sha256 != first.sha256
    assert not np.array_equal(changed.train[:2000], first.train[:2000])


def test_the_cache_is_used_and_a_damaged_one_is_not(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = corpus.load(str(text), tokens.nano())
    folders = list((workspace.home() / "corpora").iterdir())
    assert len(folders) == 1  # and no work folder left behind
    with monkeypatch.context() as without:
        without.setattr(corpus, "_encode", lambda *a, **k: pytest.fail("encoded again"))
        assert np.array_equal(corpus.load(str(text), tokens.nano()).train, first.train)
    expected = np.array(first.train)
    with (folders[0] / "train.u16").open("r+b") as handle:
        handle.truncate(100)
    assert np.array_equal(corpus.load(str(text), tokens.nano()).train, expected)
    (folders[0] / "about.json").write_text(json.dumps({}), encoding="utf-8")
    assert np.array_equal(corpus.load(str(text), tokens.nano()).train, expected)


def test_each_tokenizer_has_its_own_cache(text: Path) -> None:
    nano, gpt2 = (corpus.load(str(text), t) for t in (tokens.nano(), tokens.gpt2()))
    assert nano.sha256 == gpt2.sha256
    assert (nano.tokenizer, gpt2.tokenizer) == ("nano", "gpt2")
    assert nano.train.max() < 4096 < gpt2.train.max()


@pytest.mark.parametrize(("content", "words"), [
    (b"caf\xe9 au lait", "Byte 3 is not UTF-8"),
    (None, "No such file"),
])
def test_a_file_that_is_no_text_is_named(tmp_path: Path, content: bytes | None,
                                         words: str) -> None:
    file = tmp_path / "odd.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        corpus.load(str(file), tokens.nano())
    assert caught.value.argument == "corpus"
    assert caught.value.value == str(file)


@pytest.mark.parametrize("content", ["", "too short"])
def test_a_text_too_short_for_one_sequence_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "short.txt"
    file.write_text(content, encoding="utf-8")
    made = corpus.load(str(file), tokens.nano())
    with pytest.raises(InputError, match="Give a longer text"):
        Batches(made.train, 2, 64, seed=0)


def numbered(length: int = 1000) -> corpus.Tokens:
    return np.arange(length, dtype=np.uint16)


def test_targets_follow_their_tokens() -> None:
    inputs, targets = Batches(numbered(), 3, 16, seed=0).next()
    assert inputs.shape == targets.shape == (3, 16)
    assert np.array_equal(targets, inputs + 1)


def test_an_epoch_deals_every_window_once_and_the_next_one_differs() -> None:
    batches = Batches(numbered(), 1, 16, seed=3)
    epochs = [[int(batches.next()[0][0, 0]) for _ in range(batches.per_epoch)] for _ in range(2)]
    for starts in epochs:
        assert len(set(starts)) == batches.per_epoch == 61
        assert len({s % 16 for s in starts}) == 1  # windows that do not overlap
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) != epochs[0]


def test_the_position_alone_continues_exactly_also_across_epochs() -> None:
    unbroken = Batches(numbered(), 4, 16, seed=5)
    expected = [unbroken.next()[0] for _ in range(40)]  # 160 sequences: over two epochs
    first = Batches(numbered(), 4, 16, seed=5)
    for _ in range(17):
        first.next()
    second = Batches(numbered(), 4, 16, seed=5, position=first.position)
    for wanted in expected[17:]:
        assert np.array_equal(second.next()[0], wanted)


def test_another_seed_deals_another_order() -> None:
    one, two = (Batches(numbered(), 4, 16, seed=s).next()[0] for s in (1, 2))
    assert not np.array_equal(one, two)
