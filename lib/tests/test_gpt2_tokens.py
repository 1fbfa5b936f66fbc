"""The tokenizers: GPT-2's own, equal to tiktoken's, and nano's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.errors import InputError, IronlawError
from ironlaw.gpt2 import nano_bpe, tokens

VOCAB_BPE = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
ENCODER_JSON = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json"
TEXTS = [
    "Hello, I'm a language model,",
    "  leading spaces,\ttabs\n\n\nand  lines   \n",
    "def f(x):\n    return x ** 2  # don't\r\n",
    "Tiếng Việt, 日本語, émigré, \U0001f600 and \x00 \x7f",
    "It's we're THEY'LL 12345 3.14159 !!! ... <|endoftext|>",
    "",
]


def tiktoken_gpt2(folder: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """tiktoken's GPT-2 encoding without a network: its cache is filled from our data.

    tiktoken checks both files against the SHA-256 of OpenAI's originals, so this also
    proves that ours are those, including the vocabulary, which is derived here.
    """
    tiktoken = pytest.importorskip("tiktoken")
    merges = tokens.gpt2_merges_file()
    vocabulary = json.dumps(tokens.gpt2_vocabulary()).encode()
    for address, content in ((VOCAB_BPE, merges), (ENCODER_JSON, vocabulary)):
        (folder / hashlib.sha1(address.encode()).hexdigest()).write_bytes(content)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    return tiktoken.get_encoding("gpt2")


def test_equal_to_tiktoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tiktoken_gpt2(tmp_path, monkeypatch)
    ours = tokens.gpt2()
    source = Path(json.__file__).read_text(encoding="utf-8")
    for text in [*TEXTS, source]:
        assert ours.encode(text) == theirs.encode_ordinary(text)  # type: ignore[attr-defined]
    assert (ours.size, ours.end_of_text) == (50_257, 50_256)


def test_the_well_known_sentence() -> None:
    expected = [15496, 11, 314, 1101, 257, 3303, 2746, 11]
    assert tokens.gpt2().encode("Hello, I'm a language model,") == expected


def test_nano_has_4096_tokens_and_all_bytes() -> None:
    nano = tokens.nano()
    assert (nano.size, nano.end_of_text) == (4_096, 0)
    merges = json.loads(tokens.shipped(tokens.NANO_TOKENIZER))["merges"]
    vocabulary = tokens.vocabulary_of([(a, b) for a, b in merges])
    assert sorted(vocabulary.values()) == list(range(4_096))
    assert set(tokens.byte_symbols()) <= set(vocabulary)


@given(st.text(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_text_survives_both_tokenizers(text: str) -> None:
    for tokenizer in (tokens.gpt2(), tokens.nano()):
        numbers = tokenizer.encode(text)
        assert tokenizer.decode(numbers) == text
        assert all(0 <= n < tokenizer.size for n in numbers)
        assert tokenizer.end_of_text not in numbers


def test_encoding_many_is_encoding_each() -> None:
    for tokenizer in (tokens.gpt2(), tokens.nano()):
        assert tokenizer.encode_many(TEXTS) == [tokenizer.encode(text) for text in TEXTS]


def test_source_code_takes_fewer_tokens_than_bytes() -> None:
    source = Path(json.__file__).read_text(encoding="utf-8")
    assert len(tokens.nano().encode(source)) < 0.4 * len(source)


def test_learning_a_tokenizer_is_repeatable_and_exact_in_size() -> None:
    texts = [Path(nano_bpe.__file__).read_text(encoding="utf-8"),
             Path(json.__file__).read_text(encoding="utf-8")]
    first = nano_bpe.as_file(texts, {"corpus": "two files"}, 600)
    assert first == nano_bpe.as_file(texts, {"corpus": "two files"}, 600)
    merges = json.loads(first)["merges"]
    assert len(merges) == 600 - 257
    with pytest.raises(InputError, match="at most"):
        nano_bpe.train_bpe(["too little text"], 600)


def test_the_tokenizer_follows_the_vocabulary() -> None:
    assert tokens.for_vocab(50_257).name == "gpt2"
    assert tokens.for_vocab(50_304).name == "gpt2"  # a padded head
    assert tokens.for_vocab(4_096).name == "nano"
    with pytest.raises(InputError, match="at least 4096"):
        tokens.for_vocab(300)


def test_a_damaged_file_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tokens.shipped(tokens.NANO_TOKENIZER)
    monkeypatch.setattr(tokens, "shipped", lambda name: whole.replace(b'"s"', b'"t"', 1))
    with pytest.raises(IronlawError, match=r"nano_bpe\.json is damaged"):
        tokens.nano.__wrapped__()
