"""One description of a training step, shared by every command.

`RunConfig` is the only place where a flag of `predict`, `measure`, `compare` and
`train` is named, given a default and explained. Command-line flags, JSON and the
flag table of the documentation are made from its fields.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from .errors import InputError, choice, count
from .transformer import MODELS, Shape, model

PRECISIONS = ("fp32", "amp-bf16", "amp-fp16", "pure-bf16", "document")
ATTENTIONS = ("flash", "materialised")
"""The two ways that the course compares: S x S scores in tiles, or written to memory."""
ATTENTION_FORMS = (*ATTENTIONS, "tiled")
"""Also "tiled": the fused kernel's algorithm spelled out in Python, to read and to try."""
RECOMPUTES = ("none", "selective", "every-block", "sqrt")
"""The policies with names of their own; "every-4" re-runs four blocks at a time."""
_EVERY = re.compile(r"every-([1-9][0-9]{0,3})")
TRAINABLE_OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam", "adamw",
                        "adamw-foreach", "adamw-fused")
OPTIMIZERS = (*TRAINABLE_OPTIMIZERS, "adafactor", "adam-8bit", "galore")


def _flag(default: Any, help: str, choices: Iterable[str] | None = None) -> Any:
    metadata = {"help": help, "choices": tuple(choices) if choices else None}
    return field(default=default, metadata=metadata)


def blocks_per_segment(recompute: str, layers: int, argument: str = "recompute") -> int | None:
    """How many blocks of `layers` the policy re-runs together; None where it re-runs none whole.

    1 for "every-block", ceil(sqrt(layers)) for "sqrt", K for "every-K" (at most all of them).
    Raises `InputError` under the name `argument` for a policy that there is not.
    """
    named = {"none": None, "selective": None, "every-block": 1,
             "sqrt": math.ceil(math.sqrt(layers))}
    if recompute in named:
        return named[recompute]
    found = _EVERY.fullmatch(recompute) if isinstance(recompute, str) else None
    if found is None:
        raise InputError(argument, recompute, "one of " + ", ".join(map(repr, RECOMPUTES))
                         + ", or 'every-K' with a whole number K of blocks",
                         "For example every-4: the inputs of every fourth block are kept.")
    return min(int(found[1]), layers)


@dataclass(frozen=True)
class RunConfig:
    """One training step: what is trained, on how much data, and how.

    Sizes are counts. `batch` is the micro-batch in sequences, `seq` the sequence
    length in tokens, `accumulate` the micro-batches per optimizer step.
    """

    model: str = _flag("nano", "preset whose sizes are used", MODELS)
    layers: int | None = _flag(None, "transformer blocks, N_L (default: the preset's)")
    width: int | None = _flag(None, "hidden width, d (default: the preset's)")
    heads: int | None = _flag(None, "attention heads, H (default: the preset's)")
    vocab: int | None = _flag(None, "vocabulary size, V (default: the preset's)")
    batch: int = _flag(8, "sequences in one micro-batch, B")
    seq: int | None = _flag(None, "tokens in one sequence, S (default: the preset's context)")
    accumulate: int = _flag(1, "micro-batches per optimizer step")
    precision: str = _flag("fp32", "number formats; 'document' is the 2+2+4+8 byte recipe",
                           PRECISIONS)
    attention: str = _flag("flash", "fused tiles (flash), materialised S x S scores, or the "
                           "tiles spelled out to be read (tiled, slow)", ATTENTION_FORMS)
    recompute: str = _flag("none", "what the backward pass recomputes: " + ", ".join(RECOMPUTES)
                           + ", or every-K for K blocks at a time")
    loss_rows: int = _flag(0, "tokens whose logits are held at once, each slice giving its part "
                           "of loss and gradient; 0: all")
    optimizer: str = _flag("adamw", "update rule", OPTIMIZERS)
    device: str = _flag("this", "an accelerator of the catalogue, or 'this' device")

    def __post_init__(self) -> None:
        for item in fields(self):
            allowed = item.metadata["choices"]
            if allowed:
                choice(item.name, getattr(self, item.name), allowed)
        blocks_per_segment(self.recompute, 1)
        for name in ("batch", "accumulate"):
            count(name, getattr(self, name))
        count("loss_rows", self.loss_rows, low=0)
        for name in ("layers", "width", "heads", "vocab", "seq"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name))
        if self.seq is not None and self.seq > self.shape.context:
            raise InputError("seq", self.seq, f"at most the model's context, {self.shape.context}",
                             "Shorten --seq or choose a model with a longer context.")

    @property
    def shape(self) -> Shape:
        """The model's sizes after `layers`, `width`, `heads` and `vocab` are applied."""
        return model(self.model).resized(layers=self.layers, width=self.width,
                                         heads=self.heads, vocab=self.vocab)

    @property
    def sequence(self) -> int:
        """Tokens per sequence: `seq`, or the model's whole context."""
        return self.seq if self.seq is not None else self.shape.context

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one optimizer step consumes on one device."""
        return self.batch * self.sequence * self.accumulate

    def replace(self, **changes: Any) -> RunConfig:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for `json.dump`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunConfig:
        """The inverse of `to_json`; unknown names raise `InputError`."""
        known = [item.name for item in fields(cls)]
        for name in data:
            choice("config field", name, known)
        return cls(**data)

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser, names: Iterable[str] | None = None) -> None:
        """Add one `--flag` per field (or per name in `names`) to `parser`."""
        wanted = None if names is None else set(names)
        for item in fields(cls):
            if wanted is not None and item.name not in wanted:
                continue
            kind: type = int if "int" in str(item.type) else str
            shown = "" if item.default is None else f" (default: {item.default})"
            parser.add_argument(f"--{item.name.replace('_', '-')}", type=kind, default=item.default,
                                choices=item.metadata["choices"],
                                help=item.metadata["help"] + shown)

    @classmethod
    def from_flags(cls, namespace: argparse.Namespace) -> RunConfig:
        """The configuration that parsed flags describe; absent flags keep their default."""
        names = [item.name for item in fields(cls) if hasattr(namespace, item.name)]
        return cls(**{name: getattr(namespace, name) for name in names})
