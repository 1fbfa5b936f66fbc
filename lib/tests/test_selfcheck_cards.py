"""The cards answer back: driven button by button, and once with the keyboard in a real Lab."""

from __future__ import annotations

import builtins
import html
from pathlib import Path
from typing import Any

import lab_browser
import pytest
from ironlaw import selfcheck, workspace
from ironlaw.selfcheck import cards, loader, page, record, text
from ironlaw.selfcheck.kinds import Choice, FillIn, Item, Order, TrueFalse, Written

BANK = loader.load()
ITEMS = list(BANK.values())


def answer_rightly(card: cards.Card) -> None:
    answer(card, right=True)


def answer(card: Any, right: bool) -> None:
    """Set the controls the way a learner does: by pressing what is there."""
    item = card.item
    match item:
        case Choice():
            wanted = item.key if right else next(
                o.letter for o in item.options if o.letter != item.key)
            press(card, f"○ {wanted}")
        case TrueFalse():
            press(card, f"○ {item.key if right else not item.key}")
        case Order():
            goal = list(item.key) if right else list(reversed(item.key))
            for place, number in enumerate(goal):
                if f"○ ({number})" in labels(card):
                    press(card, f"○ ({number})")
                while card.answer().index(number) > place:
                    press(card, "▲ Move up")
        case FillIn():
            card.field.value = item.key if right else item.wordings[0].answers[0]
        case Written():
            card.field.value = "Because it is so."


def buttons(card: cards.Card) -> list[Any]:
    found: list[Any] = []

    def walk(widget: Any) -> None:
        if type(widget).__name__ == "Button":
            found.append(widget)
        for child in getattr(widget, "children", ()):
            walk(child)

    walk(card.root)
    return found


def labels(card: cards.Card) -> list[str]:
    return [b.description for b in buttons(card)]


def press(card: cards.Card, label: str) -> None:
    button = next(b for b in buttons(card) if b.description == label)
    assert not button.disabled, label
    button.click()


def said(widget: Any) -> str:
    return html.unescape(widget.value)


@pytest.mark.parametrize("item", [i for i in ITEMS if not isinstance(i, Written)],
                         ids=lambda i: i.id)
def test_wrong_then_right_then_reopened(item: Item) -> None:
    card = cards.card(item)
    press(card, "Check")
    if isinstance(item, Order):  # an order always stands somehow: the given one is an answer
        workspace.reset("answers")
        card = cards.card(item)
    else:
        assert "No answer yet" in said(card.feedback)
        assert record.state(item) == "not answered"
    assert card.reveal_button.disabled
    answer(card, right=False)
    press(card, "Check")
    assert record.state(item) == "wrong"
    assert "ironlaw-wrong" in card.feedback.value
    assert "role='alert'" in card.feedback.value
    assert not card.more.value, "the explanation came before it was asked for"
    again = cards.card(item)
    assert again.answer() == card.answer()
    assert "Your earlier answer" in said(again.feedback)
    assert "role='alert'" not in again.feedback.value
    press(again, "Show the answer")
    assert text.to_html(item.explanation) in again.more.value
    press(again, "Try again")
    assert not again.more.value
    assert not again.feedback.value
    answer_rightly(again)
    press(again, "Check")
    assert record.state(item) == "right"
    assert "ironlaw-right" in again.feedback.value
    assert text.to_html(item.explanation) in again.more.value
    entry = record.entry(item)
    assert (entry["tries"], entry["first_right"], entry["revealed"]) == (2, False, True)
    assert entry["points_share"] == 1.0


@pytest.mark.parametrize("item", [i for i in ITEMS if isinstance(i, Written)],
                         ids=lambda i: i.id)
def test_a_written_answer_is_kept_and_marked_by_its_writer(item: Written) -> None:
    card = cards.card(item)
    assert isinstance(card, cards.WrittenCard)
    assert card.rubric.layout.display == "none"
    press(card, "Compare with a model")
    assert "No answer yet" in said(card.feedback)
    assert text.to_html(item.model_answer) not in card.more.value
    card.field.value = "Half a thought"
    assert record.entry(item)["draft"] == "Half a thought"
    assert record.state(item) == "not answered"
    press(card, "Compare with a model")
    assert record.state(item) == "to be marked"
    assert text.to_html(item.model_answer) in card.more.value
    assert card.rubric.layout.display == ""
    card.boxes[0].value = True
    assert record.entry(item)["points_share"] == item.rubric[0].points / item.points
    assert f"{item.rubric[0].points} of {item.points} points" in said(card.total)
    again = cards.card(item)
    assert isinstance(again, cards.WrittenCard)
    assert [b.value for b in again.boxes] == [True] + [False] * (len(item.rubric) - 1)
    assert again.field.value == "Half a thought"
    for box in again.boxes:
        box.value = True
    assert record.entry(item)["points_share"] == 1.0
    assert "ironlaw-right" in again.total.value
    press(again, "Back to writing")
    assert again.field.value == "Half a thought", "going back to writing lost the text"
    assert again.rubric.layout.display == "none"
    again.field.value = "A whole thought"
    press(again, "Compare with a model")
    entry = record.entry(item)
    assert (entry["answer"], entry["points_share"], entry["tries"]) == ("A whole thought", 1.0, 2)


def test_rows_move_one_place_and_stop_at_the_ends() -> None:
    card = cards.card(BANK["1.5"])
    assert isinstance(card, cards.OrderCard)
    press(card, "▲ Move up")
    assert "Choose a row first" in said(card.where)
    press(card, "○ (2)")
    assert "Row 2 is chosen, in place 2 of 5" in said(card.where)
    press(card, "▼ Move down")
    assert card.answer() == [1, 3, 2, 4, 5]
    assert labels(card)[:5] == ["○ (1)", "○ (3)", "● (2)", "○ (4)", "○ (5)"]
    for _ in range(4):
        press(card, "▲ Move up")
    assert card.answer() == [2, 1, 3, 4, 5]
    assert "already first" in said(card.where)


def test_a_reason_is_kept_as_it_is_typed() -> None:
    card = cards.card(BANK["1.4"])
    assert isinstance(card, cards.TrueFalseCard)
    card.reason.value = "Tables are read, not multiplied."
    assert record.state(BANK["1.4"]) == "not answered"
    again = cards.card(BANK["1.4"])
    assert isinstance(again, cards.TrueFalseCard)
    assert again.reason.value == "Tables are read, not multiplied."


@pytest.mark.parametrize("junk", [None, 7, {"answer": []}, {"state": "wrong", "answer": {"x": 1}},
                                  {"state": "marked", "answer": 3, "marks": [1, 2]}, "x"], ids=str)
def test_a_damaged_entry_opens_as_a_card_all_the_same(junk: Any) -> None:
    for id in ("1.1", "1.3", "1.4", "1.5", "2.3"):
        workspace.put("answers", id, junk)
        assert cards.card(BANK[id]).root.children
    assert selfcheck.progress().rows


def test_a_folder_that_cannot_be_written_costs_a_sentence(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(workspace, "put", refuse)
    card = cards.card(BANK["1.1"])
    answer(card, right=False)
    press(card, "Check")
    assert "is not the answer" in said(card.feedback)
    assert "IRONLAW_HOME" in said(card.more)


@pytest.mark.parametrize("item", ITEMS, ids=lambda i: i.id)
def test_the_bundle_carries_html_and_text_for_pages_without_a_kernel(item: Item) -> None:
    bundle = cards.bundle(item)
    assert bundle["text/html"] == page.static(item)
    assert bundle["text/plain"] == page.plain(item)
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"]


def test_without_ipywidgets_the_question_is_still_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "ipywidgets":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert set(cards.bundle(BANK["1.1"])) == {"text/plain", "text/html"}
    selfcheck.show("1")
    shown = capsys.readouterr().out
    assert all(f"{n} · " in shown for n in ("1.1", "1.2", "1.3", "1.4", "1.5"))
    assert 'selfcheck.check("1.4", your_answer)' in shown


def test_nothing_in_a_card_fixes_its_colours() -> None:
    """Dark themes: text inherits, backgrounds are half-transparent."""
    for item in ITEMS:
        shown = page.static(item) + page.note(page.explanation(item))
        assert "color:" not in shown.replace("-color:", ""), item.id
        assert "#fff" not in shown
        assert "white" not in page.STYLE.replace("white-space", "")


@pytest.mark.browser
def test_a_card_is_answered_with_the_keyboard_alone(tmp_path: Path) -> None:
    lab_browser.write_notebook(tmp_path / "cards.ipynb", "from ironlaw import selfcheck",
                               "selfcheck.show('1.1')", "selfcheck.show('1.5')")
    with lab_browser.lab_server(tmp_path) as server, lab_browser.chromium() as browser:
        notebook = browser.open(server, "cards.ipynb")
        notebook.run_all()
        keys = notebook.page.keyboard
        choice, order = (notebook.page.locator(".ironlaw-card.jupyter-widgets").nth(n)
                         for n in (0, 1))
        choice.get_by_role("button", name="○ B", exact=True).focus()
        keys.press("Space")
        choice.get_by_role("button", name="● B", exact=True).wait_for()
        for _ in range(3):
            keys.press("Tab")
        keys.press("Enter")
        choice.get_by_role("alert").get_by_text("B is not the answer.").wait_for()
        for _ in range(4):
            keys.press("Shift+Tab")
        keys.press("Space")
        choice.get_by_role("button", name="● A", exact=True).wait_for()
        for _ in range(4):
            keys.press("Tab")
        keys.press("Space")
        choice.get_by_text("Right: A.").wait_for()

        order.get_by_role("button", name="○ (2)", exact=True).focus()
        keys.press("Space")
        order.get_by_text("Row 2 is chosen, in place 2 of 5.").wait_for()
        for _ in range(4):
            keys.press("Tab")
        keys.press("Space")
        order.get_by_text("Row 2 is now in place 1 of 5.").wait_for()
        rows = order.get_by_role("button").all_inner_texts()
        assert rows[:2] == ["● (2)", "○ (1)"]
        assert not notebook.cell_errors()
        assert not notebook.errors
        assert not notebook.foreign
        kept = (server.state / "workspace.json").read_text()
        assert '"first_right": false' in kept
        assert '"tries": 2' in kept
