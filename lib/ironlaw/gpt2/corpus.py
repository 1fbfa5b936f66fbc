"""Real text as training data: found, hashed, encoded once, and dealt out in batches.

The default corpus is on every machine that runs Python: the source and documentation
strings of its own standard library, without its tests. Any UTF-8 text file will do too.
Every run reads the text once, whole, to see by its hash whether it is still the same; the
text has to fit in memory for that moment. What training then reads is a file of 16-bit token
numbers, mapped into memory: the operating system counts its pages as cache and may drop them,
though some tools show them as if the process had grown.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import workspace
from ..errors import InputError, UnavailableError, count
from .settings import STANDARD_LIBRARY
from .tokens import Tokenizer

Tokens: TypeAlias = NDArray[np.uint16]

TESTS = {"test", "tests", "idle_test"}
INSTALLED = {"site-packages", "dist-packages"}
VALIDATION_EVERY = 20
"""Every 20th document is kept for validation: 5 % of the text."""
_PIECE = 1 << 16
_FORMAT = 1


@dataclass(frozen=True)
class Corpus:
    """An encoded corpus: two memory-mapped arrays of token numbers.

    `sha256` is over the contents of all documents in order; `text_bytes` is their size.
    """

    name: str
    sha256: str
    tokenizer: str
    documents: int
    text_bytes: int
    train: Tokens
    validation: Tokens


def standard_library() -> list[Path]:
    """The standard library's `.py` files without its tests, in an order that never varies."""
    root = Path(sysconfig.get_paths()["stdlib"])
    skipped = TESTS | INSTALLED
    found = [file for file in root.rglob("*.py")
             if not skipped.intersection(file.relative_to(root).parts)]
    if not found:
        raise UnavailableError("The standard library's source",
                               f"{root} holds no .py files (some builds of Python ship none).",
                               "Name a text file of your own: --corpus FILE")
    return sorted(found, key=lambda file: file.relative_to(root).as_posix())


def documents(source: str) -> list[str]:
    """The texts of `source`: "standard-library" or the path of a UTF-8 text file.

    A file is cut after line ends into pieces of about 64 kB, so that all cores can encode
    them; where lines are longer than that, after a space, or anywhere in a text without any.
    Each piece counts as a document without an end-of-text token after it.
    """
    if source == STANDARD_LIBRARY:
        # A few old sources are not UTF-8; their odd bytes become U+FFFD.
        return [file.read_text(encoding="utf-8", errors="replace") for file in standard_library()]
    file = Path(source)
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as problem:
        raise InputError("corpus", source, "a text file that can be read",
                         f"{problem.strerror or problem}. Check the path, or leave --corpus out "
                         "to train on Python's standard library.") from None
    except UnicodeDecodeError as problem:
        raise InputError("corpus", source, "a text file in UTF-8",
                         f"Byte {problem.start} is not UTF-8. Save the file as UTF-8, or convert "
                         "it: iconv -f latin1 -t utf-8 FILE") from None
    return _pieces(text)


def content_hash(texts: list[str]) -> str:
    """SHA-256 over all texts with their lengths, in order."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def load(source: str, tokenizer: Tokenizer) -> Corpus:
    """The corpus `source` encoded by `tokenizer`: from the cache, or encoded now and kept.

    The cache sits in `workspace.home()`; its key is the hash of the text and of the
    tokenizer, so a changed file is encoded afresh and a stale one is never used.
    """
    texts = documents(source)
    digest = content_hash(texts)
    key = hashlib.sha256(f"{_FORMAT} {digest} {tokenizer.sha256} {source == STANDARD_LIBRARY}"
                         .encode()).hexdigest()
    folder = workspace.home() / "corpora" / key[:32]
    name = source if source == STANDARD_LIBRARY else Path(source).name
    with contextlib.suppress(OSError, ValueError, KeyError):
        return _mapped(folder, name)
    _encode(texts, digest, tokenizer, folder, separated=source == STANDARD_LIBRARY)
    return _mapped(folder, name)


def _encode(texts: list[str], digest: str, tokenizer: Tokenizer, folder: Path,
            *, separated: bool) -> None:
    """Write the token file and its description beside `folder`, then move them there at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".encoding-"))
    try:
        counts = {"train": 0, "validation": 0}
        with (work / "train.u16").open("wb") as train, (work / "validation.u16").open("wb") as kept:
            for index, numbers in enumerate(_encoded(texts, tokenizer)):
                held_out = index % VALIDATION_EVERY == VALIDATION_EVERY - 1
                values = np.asarray([*numbers, tokenizer.end_of_text] if separated else numbers,
                                    dtype=np.uint16)
                values.tofile(kept if held_out else train)
                counts["validation" if held_out else "train"] += len(values)
            for handle in (train, kept):
                handle.flush()
                os.fsync(handle.fileno())
        about = {"sha256": digest, "tokenizer": tokenizer.name, "documents": len(texts),
                 "text_bytes": sum(len(t.encode("utf-8")) for t in texts), "tokens": counts}
        (work / "about.json").write_text(json.dumps(about), encoding="utf-8")
        if folder.exists():  # damaged, or another process was quicker: ours is as good
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            work.replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _encoded(texts: list[str], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """Encode in groups: parallel within one, and memory stays bounded."""
    group = 64
    for first in range(0, len(texts), group):
        yield from tokenizer.encode_many(texts[first:first + group])


def _mapped(folder: Path, name: str) -> Corpus:
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    arrays = {}
    for part, length in about["tokens"].items():
        file = folder / f"{part}.u16"
        if file.stat().st_size != 2 * length:
            raise ValueError(f"{file} is not whole")
        arrays[part] = (np.memmap(file, dtype=np.uint16, mode="r") if length
                        else np.zeros(0, dtype=np.uint16))
    return Corpus(name=name, sha256=about["sha256"], tokenizer=about["tokenizer"],
                  documents=about["documents"], text_bytes=about["text_bytes"],
                  train=arrays["train"], validation=arrays["validation"])


def _pieces(text: str) -> list[str]:
    pieces, start = [], 0
    # A short text still gets at least 20 pieces, so that some of it can be held out: none is
    # longer than twice `size`.
    size = max(1, min(_PIECE, len(text) // (2 * VALIDATION_EVERY)))
    while start < len(text):
        end = _end_of_piece(text, start + size, size)
        pieces.append(text[start:end])
        start = end
    return pieces


def _end_of_piece(text: str, least: int, within: int) -> int:
    """Where a piece ends that reaches to `least`: after the next line or word near by."""
    for mark in ("\n", " "):
        found = text.find(mark, least, least + within)
        if found >= 0:
            return found + 1
    return min(least, len(text))


class Batches:
    """Deals out sequences of a token array, each once per epoch, in a seeded order.

    What comes next depends only on `seed` and on `position` (sequences dealt so far), so
    one number saved in a checkpoint is enough to continue exactly. Every epoch cuts the
    text at new places and shuffles anew.
    """

    def __init__(self, tokens: Tokens, batch: int, seq: int, seed: int, position: int = 0) -> None:
        self.tokens = tokens
        self.batch = count("batch", batch)
        self.seq = count("seq", seq)
        self.seed = count("seed", seed, low=0)
        self.position = count("position", position, low=0)
        self.per_epoch = (len(tokens) - seq) // seq
        if self.per_epoch < 1:
            raise InputError("corpus", f"{len(tokens)} tokens",
                             f"at least {2 * seq} tokens for sequences of {seq}",
                             "Give a longer text (--corpus) or shorter sequences (--seq).")
        self._epoch = -1
        self._starts = np.zeros(0, dtype=np.int64)

    def next(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens [B, S] and targets [B, S], each target the token that follows."""
        starts = [self._start(self.position + i) for i in range(self.batch)]
        self.position += self.batch
        windows = np.stack([self.tokens[s:s + self.seq + 1] for s in starts]).astype(np.int64)
        return windows[:, :-1], windows[:, 1:]

    def _start(self, index: int) -> int:
        epoch, place = divmod(index, self.per_epoch)
        if epoch != self._epoch:
            generator = np.random.default_rng([self.seed, epoch])
            shift = generator.integers(self.seq)
            self._starts = generator.permutation(self.per_epoch) * self.seq + shift
            self._epoch = epoch
        return int(self._starts[place])
