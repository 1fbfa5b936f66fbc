"""Chapter 1 as a learner meets it: `ironlaw lab`, a browser, the keyboard.

One server and one page for the whole file; the tests follow each other like the first
minutes of a learner, and each leaves the page where the next one expects it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lab_browser
import pytest
from ironlaw import course, hardware, selfcheck, transformer
from ironlaw.predict import iron_law
from ironlaw.selfcheck.kinds import Choice
from ironlaw.selfcheck.text import to_plain
from ironlaw.units import duration

pytestmark = pytest.mark.browser

COMMAND = (sys.executable, "-m", "ironlaw.cli", "lab", "--no-browser", "--port={port}",
           "--dir={root}")
QUESTION = "1.1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab_browser.LabServer]:
    """The course as `ironlaw lab` serves it, in a fresh working copy."""
    with lab_browser.lab_server(tmp_path_factory.mktemp("copy"), command=COMMAND) as running:
        yield running


@pytest.fixture(scope="module")
def chapter(server: lab_browser.LabServer) -> Iterator[lab_browser.Notebook]:
    """Chapter 1 in Chromium, every cell run."""
    with lab_browser.chromium(height=1000) as browser:
        notebook = browser.open(server, course.FIRST_CHAPTER)
        notebook.run_all()
        yield notebook


# Lab does not lay out what is scrolled away, so the tests read text content, which is there
# all the same, and not inner text, which is what is painted.
def squeezed(text: str) -> str:
    """Text as it compares: white space as one space, and subscripts without their mark."""
    return " ".join(text.replace("_", "").split())


def test_the_bare_address_leads_to_chapter_1(server: lab_browser.LabServer) -> None:
    with lab_browser.chromium() as browser:
        page = browser.context.new_page()
        page.goto(f"{server.url}/?token={server.token}")
        page.wait_for_function(
            "window.jupyterapp?.shell?.currentWidget?.context?.path", timeout=60_000)
        path = page.evaluate("window.jupyterapp.shell.currentWidget.context.path")
        assert path == course.FIRST_CHAPTER
        page.locator(".jp-NotebookPanel-toolbar").get_by_text("Validate").wait_for()


def test_it_runs_without_an_error_and_asks_nobody_outside(chapter: lab_browser.Notebook) -> None:
    assert chapter.cell_errors() == []
    assert chapter.errors == []
    assert chapter.foreign == []


def test_every_picture_says_what_it_shows(chapter: lab_browser.Notebook) -> None:
    alts = chapter.page.evaluate(
        "() => Array.from(document.querySelectorAll('.jp-Notebook img'))"
        ".filter(image => getComputedStyle(image).display !== 'none').map(image => image.alt)")
    assert alts
    assert all(len(alt) > 40 for alt in alts), alts


def test_one_key_moves_the_iron_law_to_what_predict_says(chapter: lab_browser.Notebook) -> None:
    panel = iron_law_panel(chapter.page)
    handle = panel.locator(".ironlaw-eta .noUi-handle")
    before = tile(panel, "time")
    assert before == expected_time(0.40)
    handle.press("ArrowRight")
    chapter.page.wait_for_function(
        "old => document.querySelector('.ironlaw-tiles b').textContent !== old", arg=before)
    assert panel.locator(".ironlaw-eta .widget-readout").text_content() == "0.41"
    assert tile(panel, "time") == expected_time(0.41)
    assert "0.41" in words(panel) or "41 %" in words(panel), "the read-out says it too"


def iron_law_panel(page: Any) -> Any:
    """The iron-law widget: the one panel with a slider for eta."""
    return page.locator(".ironlaw-panel").filter(has=page.locator(".ironlaw-eta")).first


def tile(panel: Any, label: str) -> str:
    """One of the figures shown big."""
    box = panel.locator(".ironlaw-tiles div").filter(has_text=label).first
    return squeezed(box.locator("b").text_content())


def words(panel: Any) -> str:
    """The read-out in words."""
    return squeezed(panel.locator(".ironlaw-words").first.text_content())


def expected_time(utilisation: float) -> str:
    """Training time of the widget's first setting, GPT-2 XL on 8 H100, straight from predict."""
    run, chip = transformer.workload("GPT-2 XL"), hardware.accelerator("H100 SXM")
    return squeezed(duration(iron_law.training_seconds(
        operations=iron_law.training_flops(run.parameters, run.tokens),
        peak_flops_per_second=chip.peak("bf16"), utilisation=utilisation, accelerators=8)))


def test_a_card_says_why_wrong_is_wrong_and_right_is_right(
        chapter: lab_browser.Notebook, server: lab_browser.LabServer) -> None:
    item = selfcheck.item(QUESTION)
    assert isinstance(item, Choice)
    right = item.key
    wrong = next(option.letter for option in item.options if option.letter != right)
    card = chapter.page.locator(".ironlaw-card").filter(has_text=f"{QUESTION} ·").filter(
        has=chapter.page.locator("button")).first
    for letter, tries in ((wrong, 1), (right, 2)):
        verdict = selfcheck.check(QUESTION, letter)
        assert verdict.correct == (letter == right)
        pick = card.locator("button").filter(has_text=letter).first
        pick.press("Enter")
        card.get_by_role("button", name="Check").press("Enter")
        note = card.locator(".ironlaw-right" if verdict.correct else ".ironlaw-wrong").first
        note.wait_for()
        said = squeezed(note.text_content())
        assert squeezed(to_plain(verdict.message)) in said
        assert squeezed(to_plain(verdict.feedback)) in said
        kept = json.loads((server.state / "workspace.json").read_text())["answers"][QUESTION]
        assert (kept["answer"], kept["tries"]) == (letter, tries)
    assert kept["first_right"] is False


def test_what_was_done_survives_in_the_copy(
        chapter: lab_browser.Notebook, server: lab_browser.LabServer) -> None:
    chapter.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    chapter.page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    mine = Path(server.root) / course.FIRST_CHAPTER
    assert any(cell.get("outputs") for cell in json.loads(mine.read_text())["cells"])
    course.lay(Path(server.root))
    assert any(cell.get("outputs") for cell in json.loads(mine.read_text())["cells"])
