"""What a training run is: everything that decides its outcome, and nothing else."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..config import RunConfig
from ..errors import InputError, choice, count, not_negative, number, positive

STANDARD_LIBRARY = "standard-library"
"""The corpus that every Python brings along: its standard library's source."""
LEARNING_RATES = {"nano": 3e-3, "gpt2-124m": 6e-4, "gpt2-350m": 3e-4, "gpt2-774m": 2.5e-4,
                  "gpt2-1558m": 2e-4}
"""Peak learning rates: GPT-3's for its models of like size (Brown et al. 2020, table 2.1);
nano's was found by trial here."""


@dataclass(frozen=True)
class TrainSettings:
    """A training run. The step itself is `run`; the rest is how it is repeated.

    `learning_rate` is the peak (None: the usual one of the model), reached after `warmup`
    steps (None: a tenth of all, at most 100) and left on half a cosine down to a tenth.
    `weight_decay` and `dropout` are fractions, `clip` the largest gradient norm (0: no
    limit). `corpus` is "standard-library" or a text file. `seed` decides initial weights,
    dropout and the order of the data. `checkpoint_every` counts steps (0: only at the end).

    `rewinds` is how often the run may go back to a checkpoint after a spike of the loss (0:
    never; see `watch`), leaving out the text since then and that of `skip_batches` more steps.
    `init` names weights to start from ("gpt2", a folder, a file: see `pretrained`); "" draws them.
    `pad_vocab` and `compile` change how a step is computed, and with it only the
    last digits of its result: see `model.GPT` and `step.TrainingStep`.
    """

    run: RunConfig = field(default_factory=RunConfig)
    steps: int = 200
    learning_rate: float | None = None
    warmup: int | None = None
    weight_decay: float = 0.1
    clip: float = 1.0
    dropout: float = 0.0
    corpus: str = STANDARD_LIBRARY
    seed: int = 0
    checkpoint_every: int = 50
    rewinds: int = 0
    skip_batches: int = 5
    init: str = ""
    pad_vocab: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        count("steps", self.steps)
        count("seed", self.seed, low=0, high=2**63 - 1)
        count("checkpoint_every", self.checkpoint_every, low=0)
        if self.learning_rate is not None:
            positive("learning_rate", self.learning_rate)
        if self.warmup is not None:
            count("warmup", self.warmup, low=0, high=self.steps)
        count("rewinds", self.rewinds, low=0)
        count("skip_batches", self.skip_batches, low=0)
        if self.rewinds and not self.checkpoint_every:
            raise InputError("checkpoint_every", 0, "at least 1 when a run may go back",
                             "Rewinding needs checkpoints: give --checkpoint-every 50.")
        not_negative("weight_decay", self.weight_decay)
        not_negative("clip", self.clip)
        number("dropout", self.dropout, low=0.0, high=0.99)

    @property
    def peak_rate(self) -> float:
        """The learning rate at the end of warm-up."""
        return self.learning_rate or LEARNING_RATES[self.run.model]

    def rate(self, step: int) -> float:
        """The learning rate of `step`, counted from 0: linear warm-up, then half a cosine."""
        warmup = min(100, self.steps // 10) if self.warmup is None else self.warmup
        if step < warmup:
            return self.peak_rate * (step + 1) / warmup
        progress = (step - warmup) / max(1, self.steps - warmup)
        return self.peak_rate * (0.1 + 0.9 * 0.5 * (1.0 + math.cos(math.pi * progress)))

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for `json.dump`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrainSettings:
        """The inverse of `to_json`; unknown names raise `InputError`."""
        known = {item.name for item in fields(cls)}
        for name in data:
            choice("training setting", name, known)
        return cls(**{**data, "run": RunConfig.from_json(data["run"])})

    def refuse_other(self, saved: TrainSettings) -> None:
        """Raise `InputError` naming the first setting that differs from the `saved` run's.

        How often to save may change, except in a run that goes back to what was saved.
        """
        ours, theirs = _flat(self), _flat(saved)
        free = set() if self.rewinds else {"checkpoint_every", "skip_batches"}
        for name, value in ours.items():
            if name not in free and value != theirs[name]:
                raise InputError(
                    name, value, f"{theirs[name]!r}, as in the run that is resumed",
                    "Leave it out to resume that run as it was, or start a new run with --out.")


def _flat(settings: TrainSettings) -> dict[str, Any]:
    values = settings.to_json()
    run = values.pop("run")
    run["seq"] = settings.run.sequence
    return {**run, **values, "learning_rate": settings.peak_rate}
