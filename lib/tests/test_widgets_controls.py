"""Typed numbers, guesses, and the part of ipywidgets that is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ironlaw import workspace
from ironlaw.errors import InputError
from ironlaw.widgets import (
    activation_functions,
    adam_memory,
    guess,
    iron_law,
    layer_flops,
    optimizer_paths,
    roofline,
)
from ironlaw.widgets.controls import parse, shown

HERE = Path(__file__).parent
OLD_API = HERE / "ipywidgets_7_7_1.json"


@pytest.mark.parametrize(("text", "value"), [
    ("1500", 1500.0), (" 1,500 ", 1500.0), ("1_500", 1500.0), ("1 500 000", 1.5e6),
    ("1.5e21", 1.5e21), ("-3", -3.0), ("1,500.5", 1500.5), ("", None), ("  ", None),
    ("\N{MINUS SIGN}3", -3.0)])
def test_parse_reads_what_people_type(text: str, value: float | None) -> None:
    assert parse("x", text) == value


@pytest.mark.parametrize("text", ["abc", "0,43", "1,50", "1..2", "nan", "inf", "3 days", "1e999"])
def test_parse_refuses_the_rest_and_names_the_argument(text: str) -> None:
    with pytest.raises(InputError, match="price") as caught:
        parse("price", text, "USD")
    assert caught.value.value == text


@given(st.floats(1e-12, 1e35))
def test_what_a_field_shows_reads_back(value: float) -> None:
    assert parse("x", shown(value)) == pytest.approx(value, rel=1e-5)


def test_an_unknown_value_is_an_empty_field() -> None:
    assert shown(None) == ""


# Guess first


def ask(answer: Any = 3.0, **settings: Any) -> guess.Guess:
    return guess.Guess("ch1.days", "How many days?", unit="days", answer=answer, **settings)


def commit(box: guess.Guess, text: str, presses: int = 2) -> None:
    box.field.value = text
    for _ in range(presses):
        box.commit.click()


def enter(box: guess.Guess) -> None:
    """What a browser sends on Enter, in ipywidgets 7 and 8 alike."""
    box.field._handle_custom_msg({"event": "submit"}, [])


def test_the_answer_waits_for_the_guess() -> None:
    asked = []
    box = ask(lambda: asked.append(1) or 3.0)
    assert not asked
    assert "3" not in box.words.value
    commit(box, "6", presses=1)
    assert not asked
    assert "Your guess is 6 days" in box.words.value
    box.commit.click()
    assert asked == [1]
    assert "You guessed 6.00 days; it is 3.00 days. Too high by a factor of 2.00" in box.words.value
    assert box.entry.layout.display == "none"


def test_a_slip_is_corrected_before_the_answer_is_shown_and_not_after() -> None:
    asked = []
    box = ask(lambda: asked.append(1) or 3.0)
    commit(box, "300", presses=1)
    assert box.commit.description == "Show the answer"
    assert workspace.get("guesses") == {}
    box.field.value = "30"
    assert box.commit.description == "Commit"
    box.commit.click()
    assert "Your guess is 30 days" in box.words.value
    assert not asked
    box.commit.click()
    assert asked == [1]
    commit(box, "3")
    enter(box)
    assert asked == [1], "once shown, nothing is asked again"
    assert workspace.get("guesses")["ch1.days"]["value"] == 30.0


def test_enter_does_what_the_button_does() -> None:
    box = ask()
    box.field.value = "6"
    enter(box)
    assert "Your guess is 6 days" in box.words.value
    enter(box)
    assert "You guessed 6.00 days; it is 3.00 days" in box.words.value


def test_an_enter_that_overtakes_the_last_keystrokes_keeps_no_half_number() -> None:
    """A browser sends Enter at once, the keystrokes before it only when the kernel is free."""
    box = ask()
    box.field.value = "3"
    enter(box)
    box.field.value = "30"
    enter(box)
    assert "Your guess is 30 days" in box.words.value
    assert workspace.get("guesses") == {}
    enter(box)
    assert workspace.get("guesses")["ch1.days"]["value"] == 30.0


def test_other_messages_than_enter_commit_nothing() -> None:
    box = ask()
    box.field.value = "6"
    box.field._handle_custom_msg({"event": "focus"}, [])
    assert box.words.value == ""


def test_the_first_guess_stays_over_a_restart() -> None:
    box = ask()
    commit(box, "30")
    commit(box, "3")
    assert workspace.get("guesses")["ch1.days"]["value"] == 30.0
    assert workspace.get("guesses")["ch1.days"]["unit"] == "days"
    again = ask()
    assert "You guessed 30.0 days" in again.words.value
    assert again.entry.layout.display == "none"


def test_two_windows_agree_on_the_first_guess() -> None:
    one, two = ask(), ask()
    commit(one, "5")
    commit(two, "9")
    assert "You guessed 5.00 days" in two.words.value


@pytest.mark.parametrize("text", ["", "many", "nan", "0", "-4", "\N{MINUS SIGN}4", "1e999"])
def test_no_number_no_answer_and_nothing_stored(text: str) -> None:
    box = ask()
    commit(box, text)
    assert "guess = " in box.words.value
    assert "it is 3" not in box.words.value
    assert workspace.get("guesses") == {}
    assert box.field.value == text


def test_zero_may_be_guessed_where_the_answer_may_be_zero() -> None:
    box = ask(0.0, positive=False)
    commit(box, "0")
    assert "You guessed 0 days; it is 0 days" in box.words.value
    assert workspace.get("guesses")["ch1.days"]["value"] == 0.0


def test_what_follows_appears_after_the_guess() -> None:
    made = []
    box = ask(then=lambda: made.append(1) or iron_law.panel())
    assert not made
    assert box.more.children == ()
    commit(box, "1")
    assert made == [1]
    assert len(box.more.children) == 1


@pytest.mark.parametrize(("said", "is_", "words"), [
    (3.0, 3.0, "That is it"), (3.2, 3.0, "Close: 6.7 % too high"),
    (2.0, 3.0, "Too low by a factor of 1.50: the right size"),
    (3e4, 3.0, "Too high by a factor of 10,000: 4.0 orders of magnitude"),
    (0.0, 3.0, "You were 3.00 off"), (-1.0, -2.0, "You were 1.00 off")])
def test_a_guess_is_compared_in_words(said: float, is_: float, words: str) -> None:
    assert words in guess.compare(said, is_)


@pytest.mark.parametrize("text", ["", "  "])
def test_a_guess_without_name_or_question_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="id"):
        guess.Guess(text, "How many?", answer=1.0)
    with pytest.raises(InputError, match="question"):
        guess.Guess("x", text, answer=1.0)


# ipywidgets 7.7 and 8


def tree(widget: Any) -> list[Any]:
    found = [widget, widget.layout]
    if hasattr(widget, "style"):
        found.append(widget.style)
    return found + [w for child in getattr(widget, "children", ()) for w in tree(child)]


def test_only_traits_that_ipywidgets_7_7_1_also_has() -> None:
    """Colab ships 7.7.1. The table was recorded from that release by `record_old_api`."""
    old = json.loads(OLD_API.read_text())
    box = guess.Guess("x", "How many?", answer=1.0)
    shells = [module.panel() for module in (
        iron_law, layer_flops, activation_functions, optimizer_paths, roofline, adam_memory)]
    for widget in [w for shell in (*shells, box) for w in tree(shell.root)]:
        name = type(widget).__name__
        if name.endswith("Style") and name not in old:
            name = "DescriptionStyle"  # release 8 split it into one class per widget
        assert name in old, f"{name} is not in ipywidgets 7.7.1"
        fresh = type(widget)(**({"options": ["one"]} if hasattr(widget, "options") else {}))
        set_here = {t for t in widget.trait_names()
                    if not t.startswith("_") and t not in ("comm", "keys", "log", "layout", "style")
                    and getattr(widget, t) != getattr(fresh, t)}
        assert set_here <= set(old[name]), f"{name} uses {set_here - set(old[name])}"


def record_old_api() -> dict[str, list[str]]:
    """The traits of every widget class in the ipywidgets at hand: how the table was made."""
    def below(cls: type) -> list[type]:
        return [cls, *(deep for sub in cls.__subclasses__() for deep in below(sub))]

    return {cls.__name__: sorted(t for t in cls.class_trait_names() if not t.startswith("_"))
            for cls in sorted(below(ipywidgets.Widget), key=lambda c: c.__name__)
            if cls.__module__.startswith("ipywidgets.")
            and getattr(ipywidgets, cls.__name__, cls) is cls}  # a gamepad has a Button too


OLD_INSTALL = Path(sys.prefix) / "ipywidgets-7"

if OLD_INSTALL.is_dir():  # the developers' environment brings a second, older ipywidgets

    def test_the_widgets_run_under_ipywidgets_7(tmp_path: Path) -> None:
        code = (
            "import ipywidgets; from ironlaw.widgets import guess, iron_law\n"
            "panel = iron_law.panel()\n"
            "panel.eta.value = 0.5; panel.accelerator.value = 'T4'; panel.pue.value = '1.3'\n"
            "panel.count.field.value = '307'\n"
            "box = guess.Guess('x', 'q', answer=3.0); box.field.value = '4'\n"
            "[box.field._handle_custom_msg({'event': 'submit'}, []) for _ in range(2)]\n"
            "print(ipywidgets.__version__, panel.words.value, box.words.value)")
        environment = {**os.environ, "PYTHONPATH": str(OLD_INSTALL), "IRONLAW_HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env=environment, check=True)
        assert done.stdout.startswith("7.7.1")
        assert "307 × T4 in FP16 at η = 0.50" in done.stdout
        assert "You guessed 4.00; it is 3.00" in done.stdout
