"""The iron-law widget and a guess in a real JupyterLab, by keyboard alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lab_browser
import pytest
from ironlaw.widgets.iron_law import state

pytestmark = pytest.mark.browser

CELLS = (
    "from ironlaw.widgets import figures, guess, iron_law\n"
    "guess.show('days', 'How many days?', unit='days', answer=3.0)\n"
    "iron_law.show(accelerator='H100 SXM', utilisation=0.40, accelerators=8)",
    "figures.pipeline_bubbles()",
)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab_browser.Notebook]:
    folder = tmp_path_factory.mktemp("notebook")
    lab_browser.write_notebook(folder / "widgets.ipynb", *CELLS)
    with lab_browser.lab_server(folder) as server, lab_browser.chromium(
        width=1280, height=1500
    ) as browser:
        opened = browser.open(server, "widgets.ipynb")
        opened.run_all()
        opened.page.wait_for_selector(".ironlaw-eta [aria-label='Utilisation, eta']")
        yield opened


def words(notebook: lab_browser.Notebook) -> str:
    return str(notebook.page.locator(".ironlaw-words").inner_text())


def until(notebook: lab_browser.Notebook, text: str) -> None:
    notebook.page.locator(".ironlaw-words", has_text=text).wait_for(timeout=10_000)
    notebook.wait_idle()  # the words come first, the picture right behind them


def handle(notebook: lab_browser.Notebook, name: str) -> Any:
    return notebook.page.get_by_role("slider", name=name, exact=True)


def test_arrow_keys_move_the_slider_and_the_words_say_what_predict_says(
    notebook: lab_browser.Notebook,
) -> None:
    slider = handle(notebook, "Utilisation, eta")
    slider.focus()
    image = notebook.page.locator("img.ironlaw-figure").first
    before = image.get_attribute("src")
    for _ in range(5):
        notebook.page.keyboard.press("ArrowRight")
    until(notebook, "η = 0.45")
    now = state.preset(accelerator="H100 SXM", utilisation=0.45, accelerators=8)
    assert words(notebook) == state.describe(now, state.compute(now))
    assert image.get_attribute("src") != before
    assert "5.49 days" not in str(image.get_attribute("alt"))
    assert "4.88 days" in str(image.get_attribute("alt"))
    assert slider.get_attribute("aria-valuetext") == "0.45"


def test_the_accelerator_slider_speaks_names(notebook: lab_browser.Notebook) -> None:
    slider = handle(notebook, "Accelerator")
    name = slider.get_attribute("aria-valuetext")
    slider.focus()
    notebook.page.keyboard.press("ArrowLeft")
    names = state.device_names()
    left = names[names.index(str(name)) - 1]
    until(notebook, f"× {left} in")
    assert slider.get_attribute("aria-valuetext") == left
    notebook.page.keyboard.press("ArrowRight")
    until(notebook, f"× {name} in")


def test_typing_nonsense_is_answered_and_the_picture_stays(
    notebook: lab_browser.Notebook,
) -> None:
    image = notebook.page.locator("img.ironlaw-figure").first
    before = image.get_attribute("src")
    field = notebook.page.get_by_label("PUE", exact=True)
    field.fill("0.5")
    field.press("Enter")
    until(notebook, "PUE = 0.5, but it must be")
    assert image.get_attribute("src") == before
    field.fill("1.12")
    field.press("Enter")
    until(notebook, "takes")


def test_a_workload_is_chosen_with_the_keyboard(notebook: lab_browser.Notebook) -> None:
    button = notebook.page.get_by_role("button", name="GPT-3", exact=True)
    button.focus()
    notebook.page.keyboard.press("Space")
    until(notebook, "GPT-3 on")
    assert button.get_attribute("aria-pressed") == "true"


def test_a_guess_is_kept_and_compared_by_enter_alone(notebook: lab_browser.Notebook) -> None:
    page = notebook.page
    field = page.get_by_label("Your guess")
    field.fill("0")
    page.keyboard.press("Enter")
    page.get_by_text("guess = 0.0, but it must be").wait_for(timeout=10_000)
    field.fill("6")
    notebook.wait_idle()
    page.keyboard.press("Enter")
    page.get_by_text("Your guess is 6 days").wait_for(timeout=10_000)
    button = page.get_by_role("button", name="Show the answer")
    field.fill("60")
    button.wait_for(state="detached", timeout=10_000)
    notebook.wait_idle()
    page.keyboard.press("Enter")
    page.get_by_text("Your guess is 60 days").wait_for(timeout=10_000)
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_text("Too high by a factor of 20.0").wait_for(timeout=10_000)


def test_a_typed_number_is_taken_as_typed_and_the_slider_goes_on_from_there(
    notebook: lab_browser.Notebook,
) -> None:
    page = notebook.page
    slider = handle(notebook, "Number of accelerators")
    field = page.get_by_label("Number of accelerators, typed", exact=True)
    for typed in ("307", "12", "1", "65536", "307"):
        field.fill(typed)
        field.press("Enter")
        until(notebook, f"on {int(typed):,} ×")
        page.wait_for_timeout(300)  # time for a slider to answer with a number of its own
        notebook.wait_idle()
        assert field.input_value() == typed
        assert f"on {int(typed):,} ×" in words(notebook)
        assert slider.get_attribute("aria-valuetext") == typed
    for wrong in ("0", "1e400", "2.5"):
        field.fill(wrong)
        field.press("Enter")
        until(notebook, f"accelerators = '{wrong}', but it must be a whole number")
        assert field.input_value() == wrong
    slider.focus()
    page.keyboard.press("ArrowRight")
    until(notebook, "on 362 ×")
    assert field.input_value() == slider.get_attribute("aria-valuetext") == "362"
    page.keyboard.press("ArrowLeft")
    until(notebook, "on 307 ×")


def test_tab_reaches_every_control_in_reading_order(notebook: lab_browser.Notebook) -> None:
    notebook.page.get_by_role("button", name="GPT-2 XL", exact=True).focus()
    seen = []
    for _ in range(24):
        notebook.page.keyboard.press("Tab")
        seen.append(notebook.page.evaluate(
            "() => { const a = document.activeElement;"
            " return a.getAttribute('aria-label') || a.labels?.[0]?.innerText || a.innerText; }"))
    wanted = ["GPT-3", "own O", "Accelerator", "Number of accelerators", "Utilisation, eta",
              "Share of the tokens you could leave out", "Deadline, days", "Price, $ per hour",
              "Power, watts", "PUE", "Grid, kg CO2/kWh"]
    places = [seen.index(name) for name in wanted]
    assert places == sorted(places)


def test_nothing_unnamed_nothing_broken_nothing_fetched(notebook: lab_browser.Notebook) -> None:
    page = notebook.page
    unnamed = page.evaluate(
        "() => Array.from(document.querySelectorAll('.ironlaw-panel [role=slider],"
        " .ironlaw-panel input, .ironlaw-panel button'))"
        ".filter(e => !(e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText))"
        ".map(e => e.outerHTML)")
    assert unnamed == []
    assert page.locator("img.ironlaw-figure:not([alt]), img.ironlaw-figure[alt='']").count() == 0
    live = page.locator(".ironlaw-live .widget-html-content")
    assert {live.nth(i).get_attribute("aria-live") for i in range(live.count())} == {"polite"}
    assert notebook.cell_errors() == []
    assert notebook.errors == []
    assert notebook.foreign == []


def test_the_figure_is_inverted_on_a_dark_page_only(notebook: lab_browser.Notebook) -> None:
    page = notebook.page
    for theme, light in (("JupyterLab Light", "true"), ("JupyterLab Dark", "false")):
        page.evaluate("(theme) => window.jupyterapp.commands.execute("
                      "'apputils:change-theme', {theme})", theme)
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{light}'")
        shown = page.evaluate("getComputedStyle(document.querySelector('.ironlaw-figure')).filter")
        assert ("invert" in shown) == (light == "false")


def test_the_redraw_benchmark_times_the_widget_beside_an_empty_image() -> None:
    file = Path(__file__).parents[1] / "benchmarks" / "widget_redraw.py"
    done = subprocess.run([sys.executable, str(file), "--presses", "3", "--json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    for name in ("eta_slider", "accelerator_slider", "empty_image"):
        assert len(found[name]["samples_ms"]) == found[name]["presses"] == 3
        assert 0 < found[name]["median_ms"] <= found[name]["p95_ms"]
    assert found["target_met"] == (found["eta_slider"]["median_ms"] <= found["target_ms"])
