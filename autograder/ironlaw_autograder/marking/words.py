"""What `mark` prints: groups of answers, their differences, and what still waits."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from .book import Answer, Given, Question
from .groups import Group, Pair, differences

WIDTH = 104
_KINDS = {"identical": "word for word the same", "alike": "very alike", "single": "alone",
          "untouched": "untouched: scored 0"}
_FULL = 10  # groups shown with their text; the rest in a line each


def as_json(question: Question, lab: str, found: Sequence[Group[Answer]],
            pairs: Sequence[Pair]) -> dict[str, Any]:
    """Everything about the answers to one question, as plain values."""
    answers = [answer for group in found for answer in group.members]
    return {
        "lab": lab, "question": question.name, "title": question.title, "points": question.points,
        "prompt": question.prompt, "rubric": question.rubric, "answers": len(answers),
        "waiting": sum(answer.waiting for answer in answers),
        "groups": [_group_json(group) for group in found],
        "very_alike": [{"groups": [pair.first, pair.second],
                        "common_words": round(pair.closeness, 3)} for pair in pairs],
    }


def _group_json(group: Group[Answer]) -> dict[str, Any]:
    shown = group.members[0]
    return {
        "group": group.number, "kind": group.kind, "size": len(group.members),
        "waiting": sum(answer.waiting for answer in group.members),
        "shown": {"student": shown.student, "text": shown.text},
        "members": [{"student": answer.student, "common_words": share, "points": answer.points,
                     "by": answer.by, "comment": answer.comment,
                     "differences": differences(shown.text, answer.text)
                     if group.kind == "alike" else []}
                    for answer, share in zip(group.members, group.closeness, strict=True)],
    }


def overview(question: Question, lab: str, found: Sequence[Group[Answer]],
             pairs: Sequence[Pair], whole: bool) -> str:
    """The question, its rubric, and its groups: those that wait first."""
    answers = [answer for group in found for answer in group.members]
    waiting = sum(answer.waiting for answer in answers)
    lines = [f"{lab}, {question.name}: {question.title}, {question.points:g} points",
             f"{len(answers)} answers in {len(found)} groups, {waiting} wait for a person", ""]
    lines += [_block(question.prompt), "", _block(question.rubric), ""]
    ordered = sorted(found, key=lambda group: not any(a.waiting for a in group.members))
    full = ordered if whole else ordered[:_FULL]
    for group in full:
        lines += [one(group), ""]
    rest = ordered[len(full):]
    lines += [_head(group) for group in rest]
    if rest:
        lines += ["", "--group N shows one of these, --all shows all.", ""]
    if pairs:
        lines += ["Long texts that are very alike but for numbers or words such as \"not\" and "
                  "\"less\":"]
        lines += [f"  groups {pair.first} and {pair.second} ({_share(pair.closeness)} of their "
                  "words)" for pair in pairs]
        lines += ["Why two texts are alike, the texts do not say.", ""]
    return "\n".join(lines)


def one(group: Group[Answer]) -> str:
    """One group: the text that stands for it, and how its other members differ from that."""
    shown = group.members[0]
    lines = [_head(group)]
    if group.kind == "untouched":
        return "\n".join([*lines, _block(", ".join(a.student for a in group.members))])
    lines += [f"  {printable(shown.student)}{_mark(shown)}", _block(shown.text, "    │ ")]
    for answer, share in list(zip(group.members, group.closeness, strict=True))[1:]:
        said = f"{answer.student}{_mark(answer)}"
        if share < 1:
            said += f", {_share(share)}: " + "; ".join(differences(shown.text, answer.text))
        lines += textwrap.wrap(printable(said), WIDTH, initial_indent="  ",
                               subsequent_indent="    ")
    return "\n".join(lines)


def done(question: Question, given: Given, points: float | None, waiting: dict[str, int]) -> str:
    """What marking did, and what is left."""
    what = "waiting again" if points is None else f"marked {points:g} of {question.points:g}"
    lines = [f"{question.name}, {what}: {', '.join(map(printable, given.marked)) or 'nobody'}"]
    if given.kept:
        lines.append(f"kept as a person gave them: {', '.join(map(printable, given.kept))} "
                     "(--overwrite changes these too)")
    left = {name: count for name, count in waiting.items() if count}
    lines.append("still waiting: " + (", ".join(f"{n} {name}" for name, n in left.items())
                                      or "nothing"))
    return "\n".join(lines)


def printable(text: str) -> str:
    """Text that a terminal shows and never obeys."""
    return "".join(c if c.isprintable() or c == "\n" else " " if c == "\t" else "\ufffd"
                   for c in text)


def _head(group: Group[Answer]) -> str:
    waiting = sum(answer.waiting for answer in group.members)
    size = len(group.members)
    state = f"{waiting} wait" if waiting else "marked" if group.number else "nothing to do"
    return f"group {group.number} · {size} {'answer' if size == 1 else 'answers'}, " \
           f"{_KINDS[group.kind]} · {state}"


def _mark(answer: Answer) -> str:
    if answer.points is None:
        return ""
    return f" [{answer.points:g}" + (", given by a person]" if answer.by == "person" else "]")


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _block(text: str, margin: str = "  ") -> str:
    lines = []
    for paragraph in printable(text).splitlines():
        lines += textwrap.wrap(paragraph, WIDTH - len(margin)) or [""]
    return "\n".join(f"{margin}{line}".rstrip() for line in lines)
