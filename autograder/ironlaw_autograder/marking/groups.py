"""Answers to one question, put into groups of which one member stands for all.

Three kinds of group: untouched answers; answers that agree word for word; and answers that
are very alike. "Very alike" means: of the words of both, at least `ALIKE` stand in common and
in the same order (1 - InDel distance / words of both, by rapidfuzz); every member is that
close to the member that is shown, not just to some other member; and numbers and words that
turn a meaning round ("not", "more", "less" ...) are the same in both.

Whether a text was copied, nobody can say from this: short right answers are alike by nature.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
from rapidfuzz.distance import Indel, Levenshtein
from rapidfuzz.process import cdist

ALIKE = 0.85
# Below this length, answers that differ in their numbers alone tell nothing.
LONG = 25
# Differences that are shown for one answer.
MOST = 8

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?|[^\W_]+")
_TURNING = """
not no never none nor neither without cannot isn't aren't doesn't don't didn't won't can't wasn't
more less most least fewer higher lower larger smaller greater bigger longer shorter faster slower
above below up down increase increases decrease decreases rise rises fall falls grows shrinks
only all before after over under twice half compute memory communication latency bandwidth
"""
_TURNS = frozenset(_TURNING.split())


class Written(Protocol):
    """What grouping needs of an answer."""

    @property
    def student(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def untouched(self) -> bool: ...


A = TypeVar("A", bound=Written)


@dataclass(frozen=True)
class Group(Generic[A]):
    """Answers that can be marked together. The first member is shown for all of them.

    `kind` is "untouched", "identical", "alike" or "single"; `closeness` holds, for each
    member, the share of words that it has in common with the first. `number` is what the
    instructor calls the group; untouched answers are group 0.
    """

    number: int
    kind: str
    members: list[A]
    closeness: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Pair:
    """Two groups whose texts are very alike but for numbers or turning words."""

    first: int
    second: int
    closeness: float


def words(text: str) -> tuple[str, ...]:
    """The words and numbers of a text; case, punctuation and Markdown signs do not count."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return tuple(_WORD.findall(plain))


def groups(answers: Sequence[A]) -> list[Group[A]]:
    """All answers in groups, the largest first; always the same for the same answers."""
    ordered = sorted(answers, key=lambda answer: answer.student)
    untouched = [answer for answer in ordered if answer.untouched]
    same: dict[tuple[str, ...], list[A]] = {}
    for answer in ordered:
        if not answer.untouched:
            same.setdefault(words(answer.text), []).append(answer)
    made = _stars(list(same), list(same.values()))
    made.sort(key=lambda group: (-len(group.members), group.members[0].student))
    found = [Group(number, group.kind, group.members, group.closeness)
             for number, group in enumerate(made, start=1)]
    if untouched:
        found.append(Group(0, "untouched", untouched, [1.0] * len(untouched)))
    return found


def alike(found: Sequence[Group[A]]) -> list[Pair]:
    """Pairs of groups with long texts that would be one but for numbers or turning words."""
    shown = [group for group in found
             if group.number and len(words(group.members[0].text)) >= LONG]
    texts = [tuple(word for word in words(group.members[0].text) if not _decides(word))
             for group in shown]
    close = _closeness(texts)
    pairs = [Pair(shown[i].number, shown[j].number, float(close[i, j]))
             for j in range(len(shown)) for i in range(j) if close[i, j] >= ALIKE]
    return sorted(pairs, key=lambda pair: (-pair.closeness, pair.first, pair.second))


def differences(shown: str, other: str) -> list[str]:
    """How `other` differs from `shown`, word by word, as short texts; the first few of them."""
    before, after = shown.split(), other.split()
    said = []
    for same, parts in itertools.groupby(Levenshtein.opcodes(before, after),
                                         lambda part: part.tag == "equal"):
        if same:
            continue
        ops = list(parts)
        old = " ".join(before[ops[0].src_start:ops[-1].src_end])
        new = " ".join(after[ops[0].dest_start:ops[-1].dest_end])
        said.append(f'"{old}" → "{new}"' if old and new else
                    f'without "{old}"' if old else f'with "{new}"')
    return said[:MOST] + ([f"and {len(said) - MOST} more"] if len(said) > MOST else [])


def _stars(texts: list[tuple[str, ...]], members: list[list[A]]) -> list[Group[A]]:
    """Repeatedly the text with the most answers close to it, together with those."""
    close = _closeness(texts)
    decisive = [Counter(word for word in text if _decides(word)) for text in texts]
    near = [[int(j) for j in np.flatnonzero(close[i] >= ALIKE) if decisive[i] == decisive[j]]
            for i in range(len(texts))]
    left = set(range(len(texts)))
    made: list[Group[A]] = []
    while left:
        middle = _middle(left, near, [len(each) for each in members])
        around = [middle, *(j for j in near[middle] if j in left and j != middle)]
        left -= set(around)
        inside = [answer for j in around for answer in members[j]]
        share = [1.0 if j == middle else round(float(close[middle, j]), 3)
                 for j in around for _ in members[j]]
        kind = "alike" if len(around) > 1 else "identical" if len(inside) > 1 else "single"
        made.append(Group(0, kind, inside, share))
    return made


def _middle(left: set[int], near: list[list[int]], sizes: list[int]) -> int:
    """The text that stands for most of what is left; of equals, the first."""
    reach = {i: sum(sizes[j] for j in near[i] if j in left) for i in sorted(left)}
    return max(reach, key=lambda i: (reach[i], sizes[i]))


def _closeness(texts: Sequence[tuple[str, ...]]) -> np.ndarray:
    """Shares of common words between all texts; each word stands as one character."""
    if not texts:
        return np.zeros((0, 0), np.float32)
    letters: dict[str, str] = {}
    coded = ["".join(letters.setdefault(word, chr(0x10000 + len(letters))) for word in text)
             for text in texts]
    close = cdist(coded, coded, scorer=Indel.normalized_similarity, score_cutoff=ALIKE,
                  dtype=np.float32)
    np.fill_diagonal(close, 1.0)
    return close


def _decides(word: str) -> bool:
    return word in _TURNS or word[0].isdigit() or word.endswith("n't")
