"""Answers to figures of one's own: right ones pass for their owner, plausible wrong ones never."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.lab.student import LocalStudent, StudentFault, WrongAnswerError
from ironlaw.selfcheck import variants
from ironlaw_autograder import cli
from ironlaw_autograder.variants import ANSWERS, judge, right
from ironlaw_autograder.variants.verdict import mismatches

PROBLEMS = list(variants.load().values())
IDS = [f"s{number:03d}" for number in range(60)]

# The same answers by plain arithmetic, away from the library: units and factors must agree.
BY_HAND: dict[str, Callable[[Any], float]] = {
    "V1.1": lambda g: 6 * g.P * g.D * 1e18 / (g.N * g.R * 1e12 * g.eta / 100) / 86_400,
    "V1.2": lambda g: 600 * g.P * 1e9 * g.b * 2048 / (g.R * 1e12 * g.T),
    "V1.3": lambda g: 16 * g.P + g.A,
    "V1.4": lambda g: 6e18 * g.P * g.D / (g.R * 1e12 * g.eta / 100) / 3600 * g.price / 1000,
    "V1.5": lambda g: g.T - g.T * g.a / g.b,
    "V1.6": lambda g: g.N * g.R * 1e12 * g.eta / 100 * g.T * 86_400 / (6 * g.P * 1e9) / 1e9,
    "V2.1": lambda g: g.B * (24 * g.S * g.d**2 + 4 * g.S**2 * g.d) / 1e12,
    "V2.2": lambda g: g.P * 1e6 * (g.weights + g.gradients + g.master + g.each * g.moments)
    / 2**30,
    "V2.3": lambda g: g.layers * g.S * g.B * g.d * (34 + 5 * g.heads * g.S / g.d) / 1e9,
    "V2.4": lambda g: g.m * g.n * g.k / (g.m * g.k + g.k * g.n + g.m * g.n),
    "V2.5": lambda g: 2 * (g.m * g.k + g.k * g.n + g.m * g.n) / (g.BW * 1e9) * 1e6,
    "V3.1": lambda g: g.n * (g.a + g.b) / 1000 / 60,
    "V3.2": lambda g: 100 * g.W * g.c / g.p,
    "V3.3": lambda g: g.B * g.side**2 * 12 / (g.bw * 1e9) * 1e3,
    "V3.4": lambda g: (g.w * g.f + g.w + g.t) * g.M / 1000,
    "V3.5": lambda g: g.n * 1e6 * g.kB * 1e3 * 8 / (g.net * 1e9),
    "V4.1": lambda g: 600 * g.P * 1e9 * g.k * 1e3 / (g.N * g.R * 1e12),
    "V4.2": lambda g: 75 * g.X / g.R,
    "V4.3": lambda g: g.s * g.c / (g.c + g.w),
    "V4.4": lambda g: 100 * g.n * g.g / (g.n * g.g + 1000 * g.T),
    "V4.5": lambda g: g.d / g.c,
    "V5.1": lambda g: g.B // g.N // g.b,
    "V5.2": lambda g: g.k * g.t + g.s + g.o,
    "V5.3": lambda g: g.A * g.k + g.A * g.L / g.k,
    "V5.4": lambda g: g.T + g.T / 3 * (g.L - g.k) / g.L,
    "V5.5": lambda g: g.B * g.H * g.S * g.S * 2 / 1e9,
    "V5.6": lambda g: g.T * (1 - g.m / 100 * (1 - 1 / g.s)),
    "V6.1": lambda g: 2 * (g.N - 1) / g.N * g.P * 2 * 8 / g.link * 1e3,
    "V6.2": lambda g: 100 / (1 + 4 * g.P / g.bw * (g.N - 1) / g.N * 1000 / g.c),
    "V6.3": lambda g: g.T / g.m * (g.m + g.K - 1),
    "V6.4": lambda g: g.P * (4 + 12 / g.N if g.stage == 1 else 2 + 14 / g.N),
    "V6.5": lambda g: g.N * g.W * g.T * 24 / 1000 * g.pue * g.g / 1e6,
    "V6.6": lambda g: g.T * g.n * g.a / g.b * g.price / 1000,
}


def student(owner: str = "", **names: Any) -> LocalStudent:
    """A handle on a notebook with these names, handed in by `owner`."""
    made = LocalStudent(names)
    made.owner = owner
    return made


def passes(id: str, answer: Any, owner: str = "ada", claimed: Any = "") -> bool:
    handle = student(owner, **{variants.variable(id): answer, "STUDENT_ID": claimed})
    try:
        judge(handle, id)
    except (WrongAnswerError, StudentFault):
        return False
    return True


def refusal(id: str, answer: Any, owner: str = "ada", claimed: Any = "") -> str:
    handle = student(owner, **{variants.variable(id): answer, "STUDENT_ID": claimed})
    with pytest.raises(WrongAnswerError) as caught:
        judge(handle, id)
    return " ".join([*handle.notes, str(caught.value)])


def test_every_problem_has_an_answer_and_three_ways_to_miss_it() -> None:
    assert set(ANSWERS) == set(variants.load()) == set(BY_HAND)
    for id, answer in ANSWERS.items():
        assert len({slip.words for slip in answer.slips}) == len(answer.slips) >= 3, id


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.id)
def test_in_every_variant_the_answer_stands_alone(problem: variants.Problem) -> None:
    """For all figures that anybody can get: agrees with plain arithmetic; no slip comes near."""
    answer, edge = ANSWERS[problem.id], 3 * problem.tolerance
    for g in problem.combinations():
        value = answer.solve(g)
        assert math.isfinite(value)
        assert value > 0
        assert math.isclose(value, BY_HAND[problem.id](g), rel_tol=1e-9), vars(g)
        # Rounded as people round, it is still right.
        assert abs(float(f"{value:.3g}") / value - 1) <= problem.tolerance / 2
        for slip in answer.slips:
            wrong = slip.value(g, value)
            assert wrong != value, (slip.words, vars(g))
            assert abs(wrong / value - 1) > edge, (slip.words, vars(g))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.id)
def test_right_passes_and_wrong_is_refused_for_many_students(problem: variants.Problem) -> None:
    for who in IDS:
        drawn = variants.variant(problem.id, who)
        value = right(drawn)
        forms: list[Any] = [value, np.float64(value), np.array(value)]
        if problem.tolerance:
            forms += [float(f"{value:.3g}"), value * (1 + 0.9 * problem.tolerance),
                      value * (1 - 0.9 * problem.tolerance)]
        else:
            forms += [int(value), np.int64(value)]
        assert all(passes(problem.id, form, who) for form in forms), drawn.given
        for slip in ANSWERS[problem.id].slips:
            said = refusal(problem.id, slip.value(drawn.given, value), who)
            assert "That is what comes out" in said
        for factor in (0, -1, 1 + 1.1 * (problem.tolerance or 0.01), 8, 1 / 8, 100, 1e9):
            assert not passes(problem.id, value * factor, who), factor


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.id)
def test_a_neighbours_answer_rarely_fits(problem: variants.Problem) -> None:
    values = np.array([right(variants.variant(problem.id, f"n{i}")) for i in range(200)])
    alike = np.abs(values[:, None] / values[None] - 1) <= (problem.tolerance or 1e-9)
    assert (alike.sum() - 200) / (200 * 199) < 0.05


STRANGE: list[Any] = [
    None, "", "12.5", True, False, math.nan, math.inf, -math.inf, 1j, [], [1.0], (1.0,), {}, {1.0},
    np.ones(1), np.ones((1, 1)), np.float64("nan"), np.bool_(True), object(), lambda: 1.0, b"1",
    10**400, float, "\ud800", range(3), Ellipsis,
]


class Agreeable(float):
    """A number that claims to equal and to lie near everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __sub__(self, other: object) -> float:
        return 0.0

    __rsub__ = __sub__
    __hash__ = float.__hash__


@pytest.mark.parametrize("place", range(len(STRANGE)))
def test_what_is_no_number_earns_nothing_and_is_told_so(place: int) -> None:
    for problem in PROBLEMS:
        said = refusal(problem.id, STRANGE[place])
        assert 5 < len(said) < 400
    assert not passes("V1.1", Agreeable(3.0))


@settings(deadline=None, derandomize=True, max_examples=150)
@given(answer=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text()
    | st.binary(max_size=5) | st.fractions() | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=5), claimed=st.none() | st.integers() | st.text(max_size=8))
def test_no_object_breaks_the_judge_or_earns_by_accident(answer: Any, claimed: Any) -> None:
    for id in ("V1.1", "V5.1", "V6.5"):
        if passes(id, answer, "ada", claimed):
            names = ["ada", variants.canonical(claimed)]
            near = [right(variants.variant(id, n)) for n in names if n]
            assert any(math.isclose(float(answer), value, rel_tol=0.01) for value in near)


def test_an_impossible_number_is_refused_as_such() -> None:
    for answer in (0, -0.0, -value_of("ada")):
        assert "greater than zero" in refusal("V1.3", answer)


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(StudentFault, match="answer_V1_1 is not defined"):
        judge(student("ada"), "V1.1")


def value_of(who: str, id: str = "V1.3") -> float:
    return right(variants.variant(id, who))


def test_the_owners_figures_count_whatever_the_notebook_says() -> None:
    assert passes("V1.3", value_of("ada"), "ada", "")
    assert passes("V1.3", value_of("ada"), "Ada ", "somebody else")
    assert passes("V1.3", value_of("ada"), "ada", 7)
    assert passes("V1.3", value_of("ada"), "", "ADA")


def test_a_mismatch_is_named_and_costs_nothing() -> None:
    assert value_of("ada") != value_of("ada99")
    handle = student("ada", answer_V1_3=value_of("ada99"), STUDENT_ID="ada99")
    judge(handle, "V1.3")
    named = "This notebook was worked on as “ada99” and handed in by “ada”."
    assert mismatches([*handle.notes, *handle.notes, "another"]) == [named]
    said = refusal("V1.3", 1.0, "ada", "ada99")
    assert "worked on as “ada99” and handed in by “ada”" in said
    assert "figures of neither" in said


def test_a_mismatch_is_not_named_when_the_owners_answer_is_right() -> None:
    handle = student("ada", answer_V1_3=value_of("ada"), STUDENT_ID="Ada")
    judge(handle, "V1.3")
    assert handle.notes == []


def test_without_any_id_the_reason_is_said() -> None:
    assert "STUDENT_ID is empty" in refusal("V1.3", 1.0, "", "")


def test_plain_nbgrader_tells_the_owner_by_its_folder(tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "autograded" / "ada" / "selfcheck_01"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert not passes("V1.3", value_of("ada"), "", "")
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert passes("V1.3", value_of("ada"), "", "")
    assert not passes("V1.3", value_of("bob"), "", "")


def test_the_key_of_a_student(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["key", "--student", "Ada ", "--chapter", "1"]) == 0
    shown = capsys.readouterr().out
    assert "Key of ada" in shown
    assert shown.count("to within 1 %)") == 6
    assert cli.main(["key", "--student", "ada", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == list(variants.load())
    for row in rows:
        assert passes(row["id"], row["answer"], "ada")
        assert not any(passes(row["id"], wrong, "ada") for wrong in row["wrong"].values())
        assert BY_HAND[row["id"]](SimpleNamespace(**row["given"])) == pytest.approx(row["answer"])


@pytest.mark.parametrize(("words", "named"), [
    (["--student", "..."], "student"), (["--student", "ada", "--chapter", "9"], "chapter")])
def test_a_key_that_cannot_be_given_is_refused_in_words(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["key", *words]) == 2
    assert named in capsys.readouterr().err
