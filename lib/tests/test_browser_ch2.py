"""Chapter 2 in a real JupyterLab: its five widgets by keyboard, read-outs equal to predict.

One server, one page; each test leaves its own widget where it likes and touches no other.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lab_browser
import pytest
from ironlaw.widgets import (
    activation_functions,
    adam_memory,
    layer_flops,
    optimizer_paths,
    roofline,
)
from ironlaw.widgets.devices import machine_names

pytestmark = pytest.mark.browser

CHAPTER = Path(__file__).resolve().parents[2] / "chapters" / "02_mathematics.ipynb"
# A control that only this widget has.
WIDGETS = {"layer_flops": "ironlaw-lf-seq", "activation_functions": "ironlaw-af-x",
           "optimizer_paths": "ironlaw-op-rate", "adam_memory": "ironlaw-am-batch",
           "roofline": "ironlaw-rl-device"}


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab_browser.Notebook]:
    """The chapter with every cell run."""
    folder = tmp_path_factory.mktemp("chapter")
    shutil.copy(CHAPTER, folder / "chapter.ipynb")
    with lab_browser.lab_server(folder) as server, lab_browser.chromium(
        width=1280, height=1300
    ) as browser:
        notebook = browser.open(server, "chapter.ipynb")
        notebook.run_all()
        for key in WIDGETS.values():
            notebook.page.wait_for_selector(f".{key} [aria-label]", state="attached")
        yield notebook


def panel(chapter: lab_browser.Notebook, widget: str) -> Any:
    """The widget's box, scrolled into view."""
    page = chapter.page
    found = page.locator(".ironlaw-panel").filter(has=page.locator(f".{WIDGETS[widget]}"))
    found.scroll_into_view_if_needed()
    return found


def words(box: Any) -> str:
    """The read-out's text."""
    return str(box.locator(".ironlaw-words").text_content())


def until(box: Any, text: str) -> None:
    """Wait until the read-out contains `text`."""
    box.locator(".ironlaw-words", has_text=text).wait_for(state="attached", timeout=10_000)


def until_alt(box: Any, text: str) -> None:
    """Wait until the picture's alternative text contains `text`."""
    box.locator(f'img.ironlaw-figure[alt*="{text}"]').wait_for(state="attached", timeout=10_000)


def press(chapter: lab_browser.Notebook, target: Any, *keys: str) -> None:
    """Focus a control, press keys on it, and wait until the kernel has answered."""
    target.focus()
    for key in keys:
        chapter.page.keyboard.press(key)
    chapter.page.wait_for_timeout(150)
    chapter.wait_idle()


def said(box: Any, expected: str) -> None:
    """Wait until the read-out is `expected`, word for word."""
    box.locator(".ironlaw-words").get_by_text(expected, exact=True).wait_for(
        state="attached", timeout=10_000)
    assert words(box) == expected


def test_it_runs_without_an_error_and_asks_nobody_outside(chapter: lab_browser.Notebook) -> None:
    assert chapter.cell_errors() == []
    assert chapter.errors == []
    assert chapter.foreign == []
    alts = chapter.page.evaluate(
        "() => Array.from(document.querySelectorAll('.jp-Notebook img'))"
        ".filter(image => getComputedStyle(image).display !== 'none').map(image => image.alt)")
    assert len(alts) >= 8
    assert all(len(alt) > 40 for alt in alts), alts


def test_adam_memory_says_what_predict_says(chapter: lab_browser.Notebook) -> None:
    box = panel(chapter, "adam_memory")
    press(chapter, box.get_by_role("slider", name="Micro-batch", exact=True), "ArrowRight")
    now = adam_memory.state_on("T4", batch=9)
    said(box, adam_memory.describe(now, adam_memory.compute(now)))
    press(chapter, box.get_by_role("button", name="GPT-2 XL, batch 4"), "Enter")
    now = adam_memory.preset("GPT-2 XL, batch 4")
    said(box, adam_memory.describe(now, adam_memory.compute(now)))
    assert "59.9 GB" in words(box)
    press(chapter, box.get_by_role("button", name="Tile attention (flash)"), "Space")
    until(box, "34.7 GB")
    box.locator("button[disabled]", has_text="Tile attention").wait_for(state="attached")
    press(chapter, box.get_by_role("button", name="own shape"), "Space")
    field = box.get_by_label("Layers", exact=True)
    field.fill("none")
    field.press("Enter")
    box.locator(".ironlaw-problem", has_text="Layers = 'none'").wait_for(state="attached")


def test_roofline_says_what_predict_says(chapter: lab_browser.Notebook) -> None:
    box = panel(chapter, "roofline")
    rows = box.get_by_role("slider", name="Rows (tokens)", exact=True)
    press(chapter, rows, "Home")
    now = roofline.preset(sizes={**roofline.preset().sizes, "GEMM": (1, 4096, 4096)})
    said(box, roofline.describe(now, roofline.compute(now)))
    press(chapter, box.get_by_role("button", name="layer norm", exact=True), "Space")
    width = box.get_by_role("slider", name="Width", exact=True)
    width.wait_for(state="attached")
    assert width.get_attribute("aria-valuetext") == "768", "GPT-2's width stays what it is"
    press(chapter, box.get_by_role("button", name="fp32", exact=True), "Space")
    until(box, "in FP32 the ridge is at 9.56")
    names = machine_names()
    press(chapter, box.get_by_role("slider", name="Accelerator", exact=True), "ArrowRight")
    until(box, f"On {names[names.index('A100 80GB SXM') + 1]} in")


def test_the_three_others_say_what_predict_says(chapter: lab_browser.Notebook) -> None:
    box = panel(chapter, "layer_flops")
    press(chapter, box.get_by_role("button", name="whole model"), "Space")
    now = layer_flops.State(scope=layer_flops.MODEL)
    said(box, layer_flops.describe(now, layer_flops.compute(now)))

    box = panel(chapter, "activation_functions")
    press(chapter, box.get_by_role("slider", name="Pointer, x"), *["ArrowLeft"] * 3)
    curve = activation_functions.State("GELU", 0.85)
    said(box, activation_functions.describe(curve, activation_functions.compute(curve)))

    box = panel(chapter, "optimizer_paths")
    press(chapter, box.get_by_role("slider", name="Learning rate"), *["ArrowRight"] * 20)
    until(box, "SGD diverges and Adam does not")
    press(chapter, box.get_by_role("button", name="bent valley"), "Space")
    start = optimizer_paths.preset("bent valley").start
    until_alt(box, f"({start[0]:.2f}, {start[1]:.2f})")


@pytest.mark.parametrize("widget", WIDGETS)
def test_every_slider_moves_by_arrow_keys(chapter: lab_browser.Notebook, widget: str) -> None:
    box = panel(chapter, widget)
    handles = box.locator("[role=slider]:visible")
    assert handles.count() >= 1
    for index in range(handles.count()):
        handle = handles.nth(index)
        name, before = (handle.get_attribute(a) for a in ("aria-label", "aria-valuetext"))
        # At the end of its range a slider answers to the other arrow only.
        moved = "(handle, before) => handle.getAttribute('aria-valuetext') !== before"
        press(chapter, handle, "ArrowRight")
        if not handle.evaluate(moved, before):
            press(chapter, handle, "ArrowLeft")
        assert handle.evaluate(moved, before), name


@pytest.mark.parametrize("widget", WIDGETS)
def test_tab_reaches_everything_and_everything_has_a_name(
    chapter: lab_browser.Notebook, widget: str
) -> None:
    box = panel(chapter, widget)
    wanted = box.evaluate(
        "box => { const all = Array.from(box.querySelectorAll("
        "'button:not([disabled]), [role=slider], input:not([disabled])'))"
        ".filter(e => e.offsetParent); all.forEach((e, i) => { e.dataset.place = i; });"
        " window.places = []; box.addEventListener('focusin', e => {"
        " if (e.target.dataset.place) window.places.push(Number(e.target.dataset.place)); });"
        " all[0].focus(); return all.length; }")
    for _ in range(2 * wanted):
        chapter.page.keyboard.press("Tab")
    places = chapter.page.evaluate("Array.from(new Set(window.places))")
    assert places == list(range(wanted)), "in reading order, none left out"
    unnamed = box.evaluate(
        "box => Array.from(box.querySelectorAll('[role=slider], input, button'))"
        ".filter(e => e.offsetParent && !(e.getAttribute('aria-label')"
        " || e.labels?.[0]?.textContent || e.textContent)).map(e => e.outerHTML)")
    assert unnamed == []


def test_nothing_broke_on_the_way(chapter: lab_browser.Notebook) -> None:
    assert chapter.errors == []
    assert chapter.foreign == []
