"""What a self-check question is: five kinds, all immutable, none aware of a notebook.

Every wrong answer that the bank foresees carries two sentences: the misconception
it betrays and the fact that mends it. Text is plain Unicode with three marks that
`text` turns into HTML or Markdown: `code`, *emphasis*, and a one-letter symbol with
its subscript (R_peak, η_hw).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["choice", "true-false", "order", "fill-in", "written"]
KINDS: tuple[Kind, ...] = ("choice", "true-false", "order", "fill-in", "written")
LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class Mistake:
    """A wrong idea: what the answer gives away, and the sentence that sets it right."""

    betrays: str
    mends: str


@dataclass(frozen=True)
class Option:
    """One option of a choice. `why` belongs to the right one, `mistake` to all others."""

    letter: str
    text: str
    why: str = ""
    mistake: Mistake | None = None


@dataclass(frozen=True)
class Row:
    """One row of an ordering question: its number, its text, and why it stands where it does."""

    number: int
    text: str
    why: str


@dataclass(frozen=True)
class Swap:
    """A foreseen slip in an ordering: row `first` put before row `then`."""

    first: int
    then: int
    mistake: Mistake


@dataclass(frozen=True)
class Wording:
    """Wrong words that a learner may fill in for one and the same reason."""

    answers: tuple[str, ...]
    mistake: Mistake


@dataclass(frozen=True)
class RubricLine:
    """One thing that a written answer must say, and the points it is worth.

    `terms` are words that such an answer likely holds, each with its alternatives ("hid|overlap",
    the beginnings of words): they help a person who marks, and never score.
    """

    points: int
    text: str
    terms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A number that an item prints or leans on, and the library call that yields it.

    `call` is a dotted path below `ironlaw` ("predict.iron_law.training_flops"), and an
    argument may be such a call too; `attribute` picks one field of the result. `over`
    replaces some arguments in a second call by which the first is divided (a ratio), and
    `complement` takes what is missing from 1 (a saving). The result is divided by `scale`.
    `shown` stands word for word in the item; `printed` is its value in `unit`, equal to
    the computed one when rounded to `digits`. `greater_than` and `less_than` are the
    comparisons that the key rests on, in the same unit.
    """

    name: str
    call: str
    arguments: dict[str, Any]
    printed: float
    digits: int
    shown: str
    unit: str
    scale: float = 1.0
    over: dict[str, Any] = field(default_factory=dict)
    complement: bool = False
    attribute: str = ""
    greater_than: float | None = None
    less_than: float | None = None


@dataclass(frozen=True, kw_only=True)
class Item:
    """What every kind has in common. `minutes` is a working time, `difficulty` 1 to 3."""

    id: str
    section: int
    kind: Kind
    topic: str
    stem: str
    explanation: str
    objective: str
    difficulty: int
    minutes: int
    points: int
    source: str
    figures: tuple[Figure, ...] = ()

    def texts(self) -> list[str]:
        """Every sentence of the item, in reading order."""
        return [self.stem, self.explanation]


@dataclass(frozen=True, kw_only=True)
class Choice(Item):
    """One letter is right."""

    options: tuple[Option, ...]
    key: str

    def option(self, letter: str) -> Option:
        """The option called `letter`."""
        return next(o for o in self.options if o.letter == letter)

    def texts(self) -> list[str]:
        said = [self.stem]
        for o in self.options:
            said += [o.text, o.why] if o.mistake is None else [o.text, *_both(o.mistake)]
        return [*said, self.explanation]


@dataclass(frozen=True, kw_only=True)
class TrueFalse(Item):
    """A statement that holds or does not; the learner also says why.

    `mistake` answers the wrong verdict; `reason` is a model for the learner's own, and
    `reason_terms` are words that such a reason likely holds (see `RubricLine`).
    """

    key: bool
    mistake: Mistake
    reason: str
    reason_terms: tuple[str, ...] = ()

    def texts(self) -> list[str]:
        return [self.stem, *_both(self.mistake), self.reason, self.explanation]


@dataclass(frozen=True, kw_only=True)
class Order(Item):
    """Rows to be put in order; `key` lists their numbers from first to last."""

    rows: tuple[Row, ...]
    key: tuple[int, ...]
    swaps: tuple[Swap, ...]

    def row(self, number: int) -> Row:
        """The row with that number."""
        return next(r for r in self.rows if r.number == number)

    def texts(self) -> list[str]:
        said = [self.stem]
        for r in self.rows:
            said += [r.text, r.why]
        for s in self.swaps:
            said += _both(s.mistake)
        return [*said, self.explanation]


@dataclass(frozen=True, kw_only=True)
class FillIn(Item):
    """One word or term completes the sentence; the gap in the stem is written ____."""

    accepted: tuple[str, ...]
    wordings: tuple[Wording, ...]

    @property
    def key(self) -> str:
        """The spelling that is shown as the answer."""
        return self.accepted[0]

    def texts(self) -> list[str]:
        said = [self.stem]
        for w in self.wordings:
            said += _both(w.mistake)
        return [*said, self.explanation]


@dataclass(frozen=True, kw_only=True)
class Written(Item):
    """A short answer in prose, marked by a person along a rubric."""

    model_answer: str
    rubric: tuple[RubricLine, ...]

    def texts(self) -> list[str]:
        return [self.stem, self.model_answer, *(r.text for r in self.rubric), self.explanation]


def _both(mistake: Mistake) -> list[str]:
    return [mistake.betrays, mistake.mends]
