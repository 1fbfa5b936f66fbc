"""Batches made while training waits for them: read a file, tokenise it, cut it into sequences.

This is what a DataLoader's worker does when nothing was prepared beforehand, and so what
the pipeline instrument times. (The trainer's own corpus is encoded once and kept.)
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ..errors import InputError, count
from ..gpt2 import tokens
from ..gpt2.feed import PREFETCH, start_method
from ._torch import torch

Transform: TypeAlias = Callable[[str], str]


class TextBatches(IterableDataset[torch.Tensor]):
    """Endless batches [B, S + 1] of int64 tokens from text files, in order.

    With workers each takes every n-th file, so that no text comes twice per pass.
    `transform`, if any, is applied to a file's text before it is tokenised; workers must
    be able to import it.
    """

    def __init__(self, files: Sequence[Path], vocab: int, batch: int, seq: int,
                 transform: Transform | None = None) -> None:
        super().__init__()
        if not files:
            raise InputError("files", list(files), "at least one text file")
        self.files = [str(file) for file in files]
        self.vocab = vocab
        self.batch = count("batch", batch)
        self.seq = count("seq", seq)
        self.transform = transform

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        # With more workers than files some share one: a worker without work would end its
        # part of an endless stream.
        mine = self.files[first::step] or [self.files[first % len(self.files)]]
        tokenizer = tokens.for_vocab(self.vocab)
        need = self.batch * (self.seq + 1)
        kept: list[int] = []
        for file in itertools.cycle(mine):
            text = read(file)
            if self.transform is not None:
                text = self.transform(text)
            kept.extend([*tokenizer.encode(text), tokenizer.end_of_text])
            while len(kept) >= need:
                yield torch.tensor(kept[:need]).view(self.batch, self.seq + 1)
                del kept[:need]


def read(file: str | Path) -> str:
    """The text of `file`; bytes that are not UTF-8 become U+FFFD."""
    return Path(file).read_bytes().decode("utf-8", errors="replace")


def clean(text: str) -> str:
    """Runs of blanks as one, none at the end of a line: character by character, in Python.

    A transformation of the kind that makes a pipeline slow, for measuring with.
    """
    kept: list[str] = []
    for character in text:
        if character == "\n":
            while kept and kept[-1] == " ":
                kept.pop()
        elif character in " \t":
            if kept and kept[-1] == " ":
                continue
            character = " "
        kept.append(character)
    return "".join(kept)


def loader(dataset: TextBatches, workers: int, *, pinned: bool,
           prefetch: int = PREFETCH) -> DataLoader[torch.Tensor]:
    """A DataLoader over `dataset` with `workers` processes (0: in this one).

    `pinned` copies batches to page-locked memory, from which a GPU fetches on its own;
    only CUDA knows that.
    """
    count("workers", workers, low=0)
    count("prefetch", prefetch)
    options: dict[str, Any] = {}
    if workers:
        if getattr(dataset.transform, "__module__", None) == "__main__":
            raise InputError("transform", dataset.transform, "a function that workers can import",
                             "Write it to a file of its own (%%writefile in a notebook) and "
                             "import it from there.")
        context = multiprocessing.get_context(start_method())
        if context.get_start_method() == "forkserver":
            # Imported once there and inherited, instead of once in every worker.
            context.set_forkserver_preload([__name__])
        options = {"multiprocessing_context": context, "prefetch_factor": prefetch,
                   "timeout": 120}
    return DataLoader(dataset, batch_size=None, num_workers=workers, pin_memory=pinned, **options)
