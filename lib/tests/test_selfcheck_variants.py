"""Figures of one's own: the same everywhere for one student, different for the next."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import lab_browser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw.selfcheck import variants

PROBLEMS = list(variants.load().values())
IDS = [f"s{number:03d}" for number in range(120)]
ROOT = Path(__file__).resolve().parents[2]


def test_every_chapter_up_to_six_has_at_least_five_problems() -> None:
    count = Counter(problem.section for problem in PROBLEMS)
    assert set(count) == {1, 2, 3, 4, 5, 6}
    assert min(count.values()) >= 5


def test_draws_do_not_change_from_one_release_to_the_next() -> None:
    """A changed draw would give a student other figures in the middle of a course."""
    ada = variants.variant("V1.1", "ada").given
    assert vars(ada) == {"P": 70, "D": 2000, "N": 2048, "R": 383, "eta": 32}
    assert variants.variant("V1.1", "Ａda ").given == ada
    assert variants.variant("V1.1", "ada", salt="another year").given != ada


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.id)
def test_neighbours_differ_and_every_value_is_drawn(problem: variants.Problem) -> None:
    drawn = [variants.variant(problem.id, who).given for who in IDS]
    same = sum(a == b for a, b in itertools.pairwise(drawn))
    assert same <= 4, "too often the next student has the same figures"
    shown = {variants.variant(problem.id, who).prompt for who in IDS}
    assert len(shown) > 50
    for draw, values in problem.given.items():
        if not isinstance(values[0], dict) and len(values) <= 12:
            assert {getattr(g, draw) for g in drawn} == set(values), "a value nobody gets"


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.id)
def test_a_prompt_says_unit_and_tolerance_and_uses_every_figure(problem: variants.Problem) -> None:
    prompt = variants.variant(problem.id, "ada").prompt
    assert problem.unit in prompt
    assert ("to within 1 %" if problem.tolerance else "exact") in prompt
    assert not re.search(r"[{}]|\$|\\", prompt)
    base = next(problem.combinations())
    for draw, values in problem.given.items():
        other = problem.values({d: v[0] for d, v in problem.given.items()} | {draw: values[1]})
        assert problem.stem.format(**other) != problem.stem.format(**vars(base)), draw
    assert len({problem.stem.format(**problem.values({d: v[0] for d, v in problem.given.items()}
                                                     | {draw: value})) for value in values}) \
        == len(values), "two values look alike in print"


@pytest.mark.parametrize(("typed", "read"), [
    ("ada", "ada"), ("Ada ", "ada"), ("ＡＤＡ", "ada"), ("Ada Lovelace", "adalovelace"),
    ("ada@uni.edu", "ada@uni.edu"), ("a+x@uni.edu", "a_x@uni.edu"), ("a/b", "a_b"),
    ("../../etc", "etc"), ("Nguyễn", "nguyễn"), ("", ""), ("  ", ""), ("...", ""), (None, ""),
    (7, ""), (["ada"], ""), (b"ada", "")])
def test_an_id_has_one_spelling(typed: Any, read: str) -> None:
    assert variants.canonical(typed) == read
    assert variants.canonical(read) == read


@settings(deadline=None, derandomize=True, max_examples=200)
@given(student=st.text(max_size=60), place=st.integers(0, len(PROBLEMS) - 1))
def test_any_text_is_an_id_or_refused_in_words(student: str, place: int) -> None:
    problem = PROBLEMS[place]
    if not variants.canonical(student):
        with pytest.raises(InputError, match="user name"):
            variants.variant(problem.id, student)
        assert "Sign in first" in repr(variants.show(problem.id, student))
        return
    drawn = variants.variant(problem.id, student)
    assert variants.canonical(drawn.student) == drawn.student
    assert repr(variants.show(problem.id, student)).endswith(("exact.", "%."))


@pytest.mark.parametrize(("found", "named"), [
    (-5.0, "this is a negative number"), (0.0, "this is zero"), (-0.0, "this is zero"),
    (5.0, ""), (1e-12, "")])
def test_an_amount_that_cannot_be_is_read_and_named(found: float, named: str) -> None:
    said = variants.read_back("V1.3", found)
    assert said.startswith(f"Read as {found:.6g} GB.")
    assert ("impossible" in said) == bool(named)
    assert named in said


class Odd(str):
    """A string whose own methods must have no say."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("never called")


@settings(deadline=None, derandomize=True, max_examples=100)
@given(anything=st.none() | st.integers() | st.floats() | st.binary() | st.lists(st.text())
       | st.dictionaries(st.text(), st.text()) | st.just(object()) | st.just(Odd("ada")))
def test_no_object_breaks_sign_in(anything: Any) -> None:
    assert variants.sign_in(anything) in ("", "ada")


@pytest.mark.parametrize(("typed", "hub", "grading", "found", "said"), [
    ("Ada", "", "", "ada", "Signed in as ada"),
    ("ada", "bob", "", "ada", "Signed in as ada"),
    ("", "bob", "", "bob", "your JupyterHub name"),
    ("", "", "", "", "Write your id between the quotes"),
    ("", "the-grader", "autograde", "", "Write your id"),
    ("", "bob", "validate", "", "Write your id"),
    ("ada", "the-grader", "autograde", "ada", "Signed in as ada")])
def test_the_notebook_counts_before_jupyterhub_and_graders_are_nobody(
    typed: str, hub: str, grading: str, found: str, said: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {"JUPYTERHUB_USER": hub, "NBGRADER_EXECUTION": grading}.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    assert variants.sign_in(typed) == found
    assert said in capsys.readouterr().out


GOOD = """section = 1
[[problem]]
id = "V1.1"
topic = "t"
stem = "{a} and {b}"
unit = "s"
tolerance = 0.01
points = 2
minutes = 3
[problem.given]
a = [1, 2]
pair = [{ b = 1 }, { b = 2 }]
"""


def test_the_form_is_accepted_as_documented() -> None:
    (problem,) = variants.parse(GOOD, "01.toml")
    assert vars(next(problem.combinations())) == {"a": 1, "b": 1}


@pytest.mark.parametrize(("old", "new", "named"), [
    ("section = 1", "section = 2", "section"),
    ('id = "V1.1"', 'id = "1.1"', "id"),
    ('topic = "t"', 'topic = " "', "topic"),
    ('unit = "s"', 'unit = 3', "unit"),
    ("tolerance = 0.01", "tolerance = 0.5", "tolerance"),
    ("points = 2", "points = 0", "points"),
    ("minutes = 3", "", "minutes"),
    ("minutes = 3", "minutes = 3\nanswer = 7", "answer"),
    ("{a} and {b}", "{a} and {c}", "stem"),
    ("a = [1, 2]", "a = [1, 1]", "given.a"),
    ("a = [1, 2]", "a = []", "given.a"),
    ("a = [1, 2]", "b = [1, 2]", "given.pair"),
    ("{ b = 2 }", "{ c = 2 }", "given.pair"),
    ("a = [1, 2]", "a = [1, 2", "TOML"),
])
def test_a_template_that_departs_from_the_form_is_refused_by_name(old: str, new: str,
                                                                  named: str) -> None:
    with pytest.raises(InputError, match=re.escape(named)):
        variants.parse(GOOD.replace(old, new), "01.toml")


@pytest.mark.browser
def test_jupyterhub_fills_the_name_into_the_notebook(tmp_path: Path) -> None:
    source = (ROOT / "labs/selfcheck_01/selfcheck_01.ipynb").read_text(encoding="utf-8")
    (tmp_path / "check.ipynb").write_text(source, encoding="utf-8")
    wanted = repr(variants.show("V1.1", "Grace Hopper"))[:60]
    with lab_browser.lab_server(tmp_path, env={"JUPYTERHUB_USER": "Grace Hopper"}) as server, \
            lab_browser.chromium() as browser:
        opened = browser.open(server, "check.ipynb")
        opened.page.evaluate(
            "() => { const panel = window.jupyterapp.shell.currentWidget.content;"
            " window.idCell = panel.widgets.findIndex(w => w.model.sharedModel.getSource()"
            ".includes('sign_in')); panel.activeCellIndex = window.idCell; }")
        for _ in range(3):
            opened.page.evaluate("window.jupyterapp.commands.execute('notebook:run-cell-and-"
                                 "select-next')")
            opened.wait_idle()
        opened.page.get_by_text("your JupyterHub name").wait_for()
        opened.page.get_by_text(wanted).wait_for()
        cell = opened.page.evaluate(
            "() => { const cell = window.jupyterapp.shell.currentWidget.content.widgets"
            "[window.idCell].model; return [cell.sharedModel.getSource(),"
            " cell.getMetadata('nbgrader').grade_id]; }")
        assert 'STUDENT_ID = "gracehopper"' in cell[0]
        assert cell[0].count("sign_in(STUDENT_ID)") == 1
        assert cell[1] == "your-id"
        assert opened.foreign == []
