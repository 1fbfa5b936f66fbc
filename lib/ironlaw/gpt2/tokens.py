"""Text to token numbers and back: GPT-2's own byte-level BPE, and a small one for nano.

A byte-level BPE starts from 256 symbols, one per byte, and has learnt an ordered list of
merges; text becomes tokens by applying the merges in that order. So the list is the whole
tokenizer: GPT-2's vocabulary follows from its 50,000 merges, and only those are shipped.
`nano` would spend most of its step in a 50,257-wide head, so it has a tokenizer of 4,096
tokens, learnt by `nano_bpe` from the Python standard library's source.

Encoding runs in the `tokenizers` library. See `data/README.md` for where the files come
from and under which licence.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ..errors import InputError, IronlawError, UnavailableError, count
from ..transformer import GPT2_VOCAB, MODELS

END_OF_TEXT = "<|endoftext|>"
GPT2_MERGES = "gpt2_merges.txt.gz"
GPT2_MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
NANO_TOKENIZER = "nano_bpe.json"
NANO_TOKENIZER_SHA256 = "12e02fe0618b2281782d2c28509eece0a3559bec544dda0ff0fc647a87858eab"


@dataclass(frozen=True)
class Tokenizer:
    """A byte-level BPE. `size` is its number of tokens, `sha256` names its exact content."""

    name: str
    size: int
    end_of_text: int
    sha256: str
    _backend: Any

    def encode(self, text: str) -> list[int]:
        """Token numbers of `text`; a literal "<|endoftext|>" in it is ordinary text."""
        numbers: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return numbers

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers of every text, encoded in parallel on all cores."""
        encoded = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [item.ids for item in encoded]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of `numbers`; bytes that are not whole UTF-8 show as the sign U+FFFD."""
        words = [n for n in numbers if n != self.end_of_text]
        text: str = self._backend.decode(words, skip_special_tokens=False)
        return text


@cache
def gpt2() -> Tokenizer:
    """The original GPT-2 tokenizer, 50,257 tokens."""
    return _tokenizer("gpt2", gpt2_vocabulary(), _gpt2_merges(), GPT2_MERGES_SHA256)


def gpt2_merges_file() -> bytes:
    """The original `vocab.bpe`: a version line, then one merge a line. Checked by hash."""
    raw = gzip.decompress(shipped(GPT2_MERGES))
    _check(GPT2_MERGES, raw, GPT2_MERGES_SHA256)
    return raw


def gpt2_vocabulary() -> dict[str, int]:
    """The original `encoder.json`: bytes first, then one token per merge, then end of text."""
    symbols = [*byte_symbols(), *(left + right for left, right in _gpt2_merges()), END_OF_TEXT]
    return {symbol: number for number, symbol in enumerate(symbols)}


def _gpt2_merges() -> list[tuple[str, str]]:
    lines = gpt2_merges_file().decode("utf-8").split("\n")
    return [(left, right) for left, right in (line.split(" ") for line in lines[1:-1])]


@cache
def nano() -> Tokenizer:
    """The course's own tokenizer of 4,096 tokens, for `nano`."""
    # A checkout on Windows may have changed the line ends; the content is the same.
    raw = shipped(NANO_TOKENIZER).replace(b"\r\n", b"\n")
    _check(NANO_TOKENIZER, raw, NANO_TOKENIZER_SHA256)
    data = json.loads(raw)
    merges = [(left, right) for left, right in data["merges"]]
    return _tokenizer("nano", vocabulary_of(merges), merges, NANO_TOKENIZER_SHA256)


def for_vocab(vocab: int) -> Tokenizer:
    """The tokenizer whose numbers fit a model of `vocab` tokens.

    GPT-2's serves 50,257 and more (a padded head), nano's everything from 4,096 up to it.
    """
    count("vocab", vocab)
    if vocab >= GPT2_VOCAB:
        return gpt2()
    if vocab >= MODELS["nano"].vocab:
        return nano()
    raise InputError("vocab", vocab, f"at least {MODELS['nano'].vocab}",
                     "The smallest tokenizer here has that many tokens.")


def byte_symbols() -> list[str]:
    """The 256 printable characters that stand for bytes, in the order of GPT-2's numbers.

    Printable bytes stand for themselves and come first; the other 68 (space, controls,
    ...) borrow the characters from U+0100 on.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]


def vocabulary_of(merges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Numbers of a tokenizer trained here: end of text 0, then the bytes, then the merges."""
    symbols = [END_OF_TEXT, *byte_symbols(), *(left + right for left, right in merges)]
    return {symbol: number for number, symbol in enumerate(symbols)}


def _tokenizer(name: str, vocabulary: dict[str, int], merges: list[tuple[str, str]],
               sha256: str) -> Tokenizer:
    backend = library()
    # The end of text is no special token of the backend: written out in a corpus it stays
    # text, and only the corpus builder puts the real one between documents.
    made = byte_level(backend.Tokenizer(backend.models.BPE(vocab=vocabulary, merges=merges)))
    return Tokenizer(name, len(vocabulary), vocabulary[END_OF_TEXT], sha256, made)


def byte_level(tokenizer: Any) -> Any:
    """`tokenizer` of the backend, set to work on bytes as GPT-2 does."""
    backend = library()
    tokenizer.pre_tokenizer = backend.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = backend.decoders.ByteLevel()
    return tokenizer


def library() -> Any:
    """The `tokenizers` library, or `UnavailableError`."""
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError:
        raise UnavailableError("The library tokenizers", "it turns text into token numbers.",
                               "Install it with: pip install 'ironlaw[labs]'") from None
    return tokenizers


def shipped(name: str) -> bytes:
    """The content of a file in `data/`."""
    return (files(__package__) / "data" / name).read_bytes()


def _check(name: str, content: bytes, expected: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise IronlawError(f"The tokenizer file {name} is damaged: its SHA-256 is {found} and "
                           f"should be {expected}. Install ironlaw again.")
