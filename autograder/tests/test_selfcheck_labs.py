"""The eight notebooks to hand in: every question of the bank, fairly judged, cell by cell."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ironlaw.lab.checking import CheckError
from ironlaw.lab.student import LocalStudent
from ironlaw.selfcheck import forms, loader, variants
from ironlaw.selfcheck.kinds import Choice, FillIn, Item, Order, TrueFalse, Written
from ironlaw_autograder.build import labs, selfcheck_lab
from ironlaw_autograder.build.lab_source import Lab, is_answer, label
from ironlaw_autograder.grading.preprocessors import Marking
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.referee import judge
from ironlaw_autograder.judge.restore import restore
from ironlaw_autograder.variants import right

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = range(1, 9)
BANK = loader.load()
JUDGED = [item for item in BANK.values() if not isinstance(item, Written)]


@functools.cache
def lab(section: int) -> Lab:
    return selfcheck_lab.lab(section)


def cells(section: int) -> dict[str, Any]:
    return {label(cell)["grade_id"]: cell for cell in lab(section).source.cells}


def share(item: Item, answer: Any) -> float:
    """The share of its points that the hidden test of `item` gives to `answer`."""
    cell = cells(item.section)[f"check-{item.id.replace('.', '-')}"]
    outcome = judge(cell.source, item.id, LocalStudent({forms.variable(item): answer}))
    assert not outcome["broken"], outcome["broken"]
    assert outcome["message"]
    return float(outcome["share"])


def right_forms(item: Item) -> list[Any]:
    match item:
        case Choice(key=k):
            return [k, k.lower(), f" {k}. ", f"({k})", chr(ord(k) + 0xFEE0), np.str_(k)]
        case TrueFalse(key=k):
            return [k, str(k), str(k).upper(), str(k)[0], np.bool_(k)]
        case Order(key=k):
            return [list(k), tuple(k), np.array(k), [str(n) for n in k], "-".join(map(str, k)),
                    [float(n) for n in k]]
        case FillIn(accepted=words):
            return [form for w in words for form in (w, w.upper(), f" {w}. ", f"the {w}")]
    raise AssertionError(item.kind)


def wrong_forms(item: Item) -> list[Any]:
    match item:
        case Choice():
            return [o.letter for o in item.options if o.letter != item.key]
        case TrueFalse(key=k):
            return [not k, str(not k), "yes" if not k else "no"]
        case Order(key=k):
            return [sorted(k), list(reversed(k)), [k[1], k[0], k[3], k[2], *k[4:]]]
        case FillIn():
            return [*(a for w in item.wordings for a in w.answers), "gradient", "memory wall"]
    raise AssertionError(item.kind)


NOTHING: list[Any] = [None, "", "  ", [], "E?", 7.5, float("nan"), object(), {"A"}, [None] * 4,
                      [1, 1, 2, 3], lambda: "A", b"A", "maybe", [[1], [2], [3], [4]]]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_question_of_the_bank_is_in_its_notebook(section: int) -> None:
    found = cells(section)
    items = [item for item in BANK.values() if item.section == section]
    own = variants.in_section(section)
    assert lab(section).points == sum(i.points for i in items) + sum(p.points for p in own)
    for item in items:
        name = item.id.replace(".", "-")
        assert f"question-{name}" in found
        graded = [f"answer-{name}"] if isinstance(item, Written) else [f"check-{name}"]
        graded += [f"why-{name}"] if isinstance(item, TrueFalse) else []
        assert sum(label(found[g])["points"] for g in graded) == item.points
        if isinstance(item, Written | TrueFalse):
            rubric = found[f"rubric-{graded[-1]}"].source
            assert "MARK SCHEME" in rubric
            assert re.search(r"\d points?:", rubric)
    assert ("your-id" in found) == bool(own) == (section <= 6)


@pytest.mark.parametrize("section", SECTIONS)
def test_nothing_of_a_key_is_handed_out(section: int) -> None:
    shipped = (ROOT / "labs" / lab(section).name / f"{lab(section).name}.ipynb").read_text("utf-8")
    for item in (i for i in BANK.values() if i.section == section):
        if isinstance(item, Written):
            assert item.model_answer[:60] not in shipped
            assert not any(line.text in shipped for line in item.rubric)
    assert "ironlaw_autograder" not in shipped
    assert "reference" not in shipped
    for problem in variants.in_section(section):
        assert f'variants.show(\\"{problem.id}\\", STUDENT_ID)' in shipped
        assert problem.stem[:40] not in shipped


@pytest.mark.parametrize("item", JUDGED, ids=lambda i: i.id)
def test_every_accepted_form_passes_and_plausible_wrong_answers_do_not(item: Item) -> None:
    assert [share(item, form) for form in right_forms(item)] == [1.0] * len(right_forms(item))
    wrong = wrong_forms(item)
    assert len(wrong) >= 3
    assert [share(item, form) for form in wrong] == [0.0] * len(wrong)


@pytest.mark.parametrize("item", JUDGED, ids=lambda i: i.id)
def test_blank_and_strange_answers_earn_nothing(item: Item) -> None:
    assert [share(item, answer) for answer in NOTHING] == [0.0] * len(NOTHING)


def handed_in(section: int, who: str, says: str, extra: str = "", scale: float = 1.0) -> Any:
    """The student's notebook with `who`'s own figures answered, and STUDENT_ID = `says`."""
    notebook = labs.release(lab(section))
    answers = {f"answer-{p.id.replace('.', '-').lower()}": p for p in variants.in_section(section)}
    for cell in notebook.cells:
        name = label(cell).get("grade_id", "")
        if name == "your-id":
            cell.source = cell.source.replace('STUDENT_ID = ""', f'STUDENT_ID = "{says}"') + extra
        elif name in answers:
            problem = answers[name]
            value = right(variants.variant(problem.id, who)) * scale
            cell.source = f"{variants.variable(problem.id)} = {value!r}"
    return notebook


THIEF = """

try:
    from ironlaw_autograder.variants import right
    stolen = "key"
except ImportError:
    stolen = "nothing"
print("stole", stolen)
"""


@pytest.mark.sandbox
def test_in_the_sandbox_the_owner_decides_and_the_key_is_out_of_reach(engine: Engine) -> None:
    marking = Marking(lab(4))

    def graded(notebook: Any, owner: str) -> tuple[float, str]:
        restored = restore(marking.template, notebook).notebook
        done = engine.grade(restored, marking.stubs, marking.lab.blocked, owner)
        own = [s for s in done.scores if s.grade_id.startswith("check-v4")]
        said = " ".join(" ".join([s.message, *s.notes]) for s in own)
        printed = " ".join(str(c.get("outputs", "")) for c in done.notebook.cells)
        assert "stole key" not in printed
        if "stolen" in "".join(c.source for c in notebook.cells):
            assert "stole nothing" in printed
        return sum(float(s.points or 0) for s in own), said

    assert graded(handed_in(4, "ada", "", THIEF), "ada")[0] == 10
    points, said = graded(handed_in(4, "bob", "bob"), "ada")
    assert points == 10
    assert "handed in by “ada”" in said
    points, said = graded(handed_in(4, "ada", "ada", scale=1 / 100), "ada")
    assert points == 0
    assert "as a fraction of one" in said
    assert graded(labs.release(lab(4)), "ada") == (0.0, " ".join(
        ["No answer yet: the cell above is as it was handed out."] * 5))


def visible(section: int, name: str) -> str:
    """The check cell `name` as a student has it."""
    return next(c.source for c in labs.release(lab(section)).cells
                if label(c)["grade_id"] == f"check-{name}")


def test_a_gap_is_mentioned_and_only_validate_fails_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, gap in {"1-1": {"answer_1_1": ""}, "v1-1": {"answer_V1_1": None}}.items():
        source = visible(1, name)
        assert "HIDDEN" not in source
        exec(compile(source, name, "exec"), {**gap, "__name__": "__main__"})
        assert "No answer yet" in capsys.readouterr().out
        with monkeypatch.context() as validating:
            validating.setenv("NBGRADER_EXECUTION", "validate")
            with pytest.raises(CheckError, match="No answer yet"):
                exec(compile(source, name, "exec"), {**gap, "__name__": "__main__"})


@pytest.mark.parametrize(("name", "names", "said"), [
    ("1-1", {"answer_1_1": "F"}, "There is no option F"),
    ("1-1", {}, "answer_1_1 is not defined"),
    ("v1-1", {"answer_V1_1": "12"}, "should be a number"),
    ("v1-1", {"answer_V1_1": [1.0]}, "should be one number")])
def test_what_cannot_be_read_is_said_before_it_is_handed_in(
    name: str, names: dict[str, Any], said: str
) -> None:
    with pytest.raises(CheckError, match=said):
        exec(compile(visible(1, name), name, "exec"), {**names, "__name__": "__main__"})


def test_an_impossible_number_is_read_named_and_found_by_validate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = compile(visible(1, "v1-3"), "c", "exec")
    exec(code, {"answer_V1_3": -5, "__name__": "__main__"})
    assert "Read as -5 GB. That is impossible" in capsys.readouterr().out
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(CheckError, match="impossible"):
        exec(code, {"answer_V1_3": -5, "__name__": "__main__"})
    exec(code, {"answer_V1_3": 5, "__name__": "__main__"})


FORMS = {'""': "between the quotes", "None": "in place of None", "[]": "between the brackets"}


@pytest.mark.parametrize("section", SECTIONS)
def test_a_form_says_where_its_answer_goes(section: int) -> None:
    """Each answer cell tells about the empty value that it holds, and about no other."""
    asked = 0
    for cell in labs.release(lab(section)).cells:
        name = label(cell)["grade_id"]
        if cell.cell_type != "code" or not name.startswith("answer-"):
            continue
        form, stub = cell.source.splitlines()
        empty, how = form.partition(" = ")[2].split("  # ")
        assert how.startswith(FORMS[empty]), form
        assert not any(word in stub for word in ("quotes", "brackets", "None"))
        asked += 1
    items = [i for i in JUDGED if i.section == section]
    assert asked == len(items) + len(variants.in_section(section))
    for item in items:
        question = cells(section)[f"question-{item.id.replace('.', '-')}"].source
        assert ("True or false?" in question) == isinstance(item, TrueFalse)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_first_cell_says_which_keys_are_public(section: int) -> None:
    head = " ".join(lab(section).source.cells[0].source.split())
    last = max(int(i.id.split(".")[1]) for i in BANK.values() if i.section == section)
    assert f"The key to questions {section}.1 to {section}.{last} comes with the course" in head
    assert ("are secret" in head) == bool(variants.in_section(section))
    assert "{" not in head


def test_a_reading_does_not_say_whether_it_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    for answer in (BANK["1.1"].key, "B"):
        exec(compile(visible(1, "1-1"), "c", "exec"), {"answer_1_1": answer, "__name__": "x"})
        assert capsys.readouterr().out == f"1.1: Read as option {answer}.\n"


def test_answer_cells_know_whether_they_were_touched() -> None:
    assert [label(c)["grade_id"] for c in lab(7).source.cells if is_answer(c)]
    assert all(is_answer(cells(1)[name]) for name in ("your-id", "answer-v1-1", "answer-1-1"))
