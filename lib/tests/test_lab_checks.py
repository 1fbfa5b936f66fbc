"""Checks see plain values only, say what is wrong in words, and never award points by accident."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.lab import check, wire
from ironlaw.lab.checking import CheckError, share_of
from ironlaw.lab.student import LocalStudent, StudentFault, WrongAnswerError, serve

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])) | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner)
    | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4),
    max_leaves=12)


@given(PLAIN)
@settings(deadline=None)
def test_plain_values_cross_unchanged(value: Any) -> None:
    assert wire.roundtrip(value) == value
    assert type(wire.roundtrip(value)) is type(value)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=4)
                    | st.dictionaries(st.sampled_from(["t", "v", "name", "dtype", "shape", "blob",
                                                       "kind", "x"]), inner, max_size=6)
                    | st.fixed_dictionaries({
                        "t": st.sampled_from(["int", "float", "array", "dict", "list", "set",
                                              "record", "opaque", "complex", "tuple", "value"]),
                        "v": inner}), max_leaves=12)


@given(JSON)
@settings(deadline=None)
def test_no_forged_message_does_more_than_raise_the_agreed_error(tree: Any) -> None:
    with contextlib.suppress(wire.WireError):
        wire.decode(tree, [b"12345678"])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "complex128"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_arrays_cross_with_type_and_shape(dtype: str, order: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(np.dtype(dtype).newbyteorder(order))[:, ::-1]
    back = wire.roundtrip(array)
    assert back.dtype == dtype
    assert np.array_equal(back, array)
    scalar = wire.roundtrip(array[1, 1])
    assert isinstance(scalar, np.generic)
    assert scalar == array[1, 1]


@pytest.mark.parametrize("tree", [
    {"t": "array", "kind": "numpy", "dtype": "object", "shape": [1], "blob": 0},
    {"t": "array", "kind": "numpy", "dtype": "float64", "shape": [2], "blob": 0},
    {"t": "array", "kind": "numpy", "dtype": "float64", "shape": [-1, -1], "blob": 0},
    {"t": "array", "kind": "numpy", "dtype": "float64", "shape": [1], "blob": 7},
    {"t": "_int", "v": "0x1"}, {"t": "value", "v": 1}, {"t": "int", "v": "9" * 5_000},
])
def test_impossible_messages_are_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(tree, [b"12345678"])


def test_what_is_not_plain_arrives_as_a_name_alone() -> None:
    class Sly(float):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    assert wire.roundtrip(object()) == wire.Opaque("object")
    crossed = wire.roundtrip(Sly(3.0))
    assert type(crossed) is float
    assert crossed != 4.0


@dataclass
class Measured:
    rate: float
    peak: dict[str, float]


def test_records_cross_as_fields() -> None:
    back = wire.roundtrip(Measured(2.0, {"fp32": 1.0}))
    assert (back.type_name, back.rate, back.peak) == ("Measured", 2.0, {"fp32": 1.0})
    assert not hasattr(back, "absent")


def student(**names: Any) -> LocalStudent:
    return LocalStudent(names)


@pytest.mark.parametrize(("got", "said"), [
    (True, "should be a number"), ("7", "should be a number"), (None, "should be a number"),
    (math.nan, "finite"), (math.inf, "finite"), ([1.0], "one number"),
    (np.array([1.0, 2.0]), "array of shape"), (np.bool_(True), "real number"),
    (1j, "real number"), (object(), "an object of type object"), (10**400, "should be a number"),
])
def test_what_is_no_number_is_refused_in_words(got: Any, said: str) -> None:
    with pytest.raises(WrongAnswerError, match=said):
        student().number("x", wire.roundtrip(got))


@pytest.mark.parametrize("got", [3, 3.0, np.float32(3), np.int64(3), np.array(3.0)])
def test_anything_that_is_one_number_counts(got: Any) -> None:
    assert student(x=got).number("x", student(x=got).value("x")) == 3.0


@pytest.mark.parametrize(("ratio", "hint"), [
    (1e3, "unit prefix"), (100, "percentage"), (1 / 3600, "hours"), (-1, "sign"), (1.37, "")])
def test_a_known_slip_is_named_and_the_right_value_told_only_in_the_open(
    ratio: float, hint: str
) -> None:
    with pytest.raises(WrongAnswerError) as told:
        student().close("x", 7.25 * ratio, 7.25)
    assert "it should be 7.2500" in str(told.value)
    with pytest.raises(WrongAnswerError) as hidden:
        student().close("x", 7.25 * ratio, 7.25, tell=False)
    assert "should be" not in str(hidden.value)
    assert hint in str(hidden.value)


def half(x: float) -> float:
    print("loud")
    if x < 0:
        raise ValueError(f"{x} is negative")
    return x / 2


def test_questions_and_faults(capsys: pytest.CaptureFixture[str]) -> None:
    asked = student(half=half, data=[1, 2], number=3)
    assert asked.call("half", 5) == 2.5
    assert asked.run("total = sum(data) + 1", "total") == 4
    asked.raises("half", -1)
    with pytest.raises(WrongAnswerError, match="should raise KeyError; it raised ValueError"):
        asked.raises("half", -1, error="KeyError")
    with pytest.raises(WrongAnswerError, match=r"it returned 1\.0"):
        asked.raises("half", 2)
    with pytest.raises(StudentFault, match="nowhere is not defined"):
        asked.value("nowhere")
    with pytest.raises(StudentFault, match="not a function"):
        asked.call("number")
    with pytest.raises(StudentFault, match="raised ValueError: -2 is negative"):
        asked.call("half", -2)
    assert capsys.readouterr().out == ""


def test_only_what_was_left_as_handed_out_is_called_unwritten() -> None:
    def unwritten() -> None:
        raise NotImplementedError("Not written yet.")

    def no_data() -> None:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    asked = student(unwritten=unwritten, no_data=no_data)
    with pytest.raises(StudentFault, match=r"unwritten is not written yet\."):
        asked.call("unwritten")
    with pytest.raises(StudentFault, match="no_data raised NotImplementedError: Cannot copy"):
        asked.call("no_data")


def test_more_arrays_than_a_message_holds_are_refused_where_they_come_from() -> None:
    with pytest.raises(StudentFault, match="give one array"):
        student(x=list(np.arange(wire.MAX_ARRAYS + 1))).value("x")


def test_a_student_cannot_change_what_a_check_holds() -> None:
    mine = [1, 2, 3]
    asked = student(spoil=lambda values: values.clear() or values)
    assert asked.call("spoil", mine) == []
    assert mine == [1, 2, 3]


def test_every_question_gets_a_reply() -> None:
    def sour(*ignored: Any) -> None:
        raise type("Sour", (Exception,), {"__str__": lambda self: 1 / 0})

    for question in ({}, {"op": "value"}, {"op": "call", "name": "sour", "arguments": 3},
                     {"op": "call", "name": "sour", "arguments": {"t": "list", "v": [
                         {"t": "list", "v": []}, {"t": "dict", "v": []}]}}):
        reply, _ = serve({"sour": sour}, question, [])
        assert reply["status"] != "ok"


x = 21.0


def test_check_speaks_in_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    check(lambda student: student.close("x", student.value("x"), 21.0))
    assert capsys.readouterr().out == "All checks passed.\n"
    with pytest.raises(CheckError, match="x is 21"):
        check(lambda student: student.close("x", student.value("x"), 22.0))
    with pytest.raises(CheckError, match="y is not defined"):
        check(lambda student: student.value("y"))
    assert check(lambda student: 0.25, points=8) == 2.0
    assert check(lambda student: 1.0, points=8) is None


@pytest.mark.parametrize("outcome", [True, False, -0.1, 1.1, math.nan, "1"])
def test_a_test_that_returns_nonsense_is_a_broken_test(outcome: Any) -> None:
    with pytest.raises(ValueError, match="None or a share"):
        share_of(outcome)
