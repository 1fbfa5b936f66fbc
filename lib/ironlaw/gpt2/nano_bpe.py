"""Learns the small tokenizer of `nano`: a byte-level BPE of exactly 4,096 tokens.

`python -m ironlaw.gpt2.nano_bpe FILE` writes it afresh from the standard library of the
Python that runs. The shipped file stays as it is when Python moves on: a tokenizer's
numbers are part of every model trained with it.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import InputError, count
from ..transformer import MODELS
from . import corpus
from .settings import STANDARD_LIBRARY
from .tokens import END_OF_TEXT, byte_level, byte_symbols, library, vocabulary_of


def train_bpe(texts: Iterable[str], size: int) -> list[tuple[str, str]]:
    """Learn the merges of a byte-level BPE of `size` tokens from `texts`.

    The result depends on the texts alone, not on how many cores the machine has. Raises
    `InputError` when the texts hold too few different words for `size`.
    """
    count("size", size, low=258)
    backend = library()
    tokenizer = byte_level(backend.Tokenizer(backend.models.BPE()))
    trainer = backend.trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END_OF_TEXT], initial_alphabet=byte_symbols(),
        show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    learnt = json.loads(tokenizer.to_str())["model"]["merges"]
    merges = [(left, right) for left, right in learnt]
    found = len(vocabulary_of(merges))
    if found != size:
        raise InputError("size", size, f"at most {found} for these texts",
                         "Give more text or ask for a smaller vocabulary.")
    return merges


def as_file(texts: Iterable[str], trained_on: dict[str, Any], size: int) -> str:
    """The content of `data/nano_bpe.json`; `trained_on` records where `texts` are from."""
    lines = ",\n".join("  " + json.dumps(pair) for pair in train_bpe(texts, size))
    return ('{\n "trained_on": ' + json.dumps(trained_on, sort_keys=True)
            + ',\n "merges": [\n' + lines + "\n ]\n}\n")


def main(target: Path) -> None:
    """Train on this Python's standard library and write `target`."""
    texts = corpus.documents(STANDARD_LIBRARY)
    about = {"corpus": STANDARD_LIBRARY, "python": platform.python_version(),
             "sha256": corpus.content_hash(texts)}
    target.write_text(as_file(texts, about, MODELS["nano"].vocab), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
