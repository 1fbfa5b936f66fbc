"""Lab 1 as a student meets it: answer, check, measure, Validate - in a real JupyterLab."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lab_browser
import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
NAME = "lab_01_iron_law"
CELLS = "window.jupyterapp.shell.currentWidget.content.widgets"

# Stands in for three minutes of measuring: a cell that the test adds on top.
QUICK = """
from ironlaw import lab, config
from ironlaw.lab import training_run
_plan = training_run.Plan(config.RunConfig(model="nano", batch=1, seq=16), timed_steps=5,
                          steps=3, seconds=0.5, corpus="text.txt")
_measure = training_run.measure
training_run.measure = lambda model=None: _measure(model, _plan)
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab_browser.Notebook]:
    """The handed-out notebook, open in Lab."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copy(ROOT / "labs" / NAME / f"{NAME}.ipynb", folder)
    (folder / "text.txt").write_text("The iron law has three terms. " * 400, encoding="utf-8")
    with lab_browser.lab_server(folder) as server, lab_browser.chromium() as browser:
        yield browser.open(server, f"{NAME}.ipynb")


def place(notebook: lab_browser.Notebook, name: str) -> int:
    """The position of the cell with that id."""
    return int(notebook.page.evaluate(
        f"name => {CELLS}.findIndex(cell => cell.model.id === name)", name))


def answer(notebook: lab_browser.Notebook, name: str, text: str) -> None:
    """Put `text` into a cell's editor by keyboard, as a student would."""
    at = place(notebook, name)
    notebook.page.evaluate(
        "at => { const content = window.jupyterapp.shell.currentWidget.content;"
        " content.activeCellIndex = at; content.scrollToItem(at, 'center'); }", at)
    notebook.page.wait_for_timeout(300)
    notebook.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.mode = 'edit';"
                           f" {CELLS}[{at}].editor.focus(); }}")
    notebook.page.keyboard.press("Control+A")
    notebook.page.keyboard.insert_text(text)


def run(notebook: lab_browser.Notebook, *names: str) -> str:
    """Run cells by id with Lab's own command; the text of the last one's outputs."""
    for name in names:
        notebook.page.evaluate(
            "async at => { const lab = window.jupyterapp;"
            " const content = lab.shell.currentWidget.content; content.deselectAll();"
            " content.activeCellIndex = at; await lab.commands.execute('notebook:run-cell'); }",
            place(notebook, name))
        notebook.wait_idle()
    outputs: Any = notebook.page.evaluate(
        f"name => JSON.stringify({CELLS}.find(cell => cell.model.id === name)"
        ".model.outputs.toJSON())", names[-1])
    return str(json.loads(outputs))


def source(notebook: lab_browser.Notebook, name: str) -> str:
    return str(notebook.page.evaluate(
        f"name => {CELLS}.find(cell => cell.model.id === name).model.sharedModel.getSource()",
        name))


WRONG = """def mfu(flops_of_a_token, tokens_per_second, peak):
    return 100 * flops_of_a_token * tokens_per_second / peak"""

RIGHT = """def mfu(flops_of_a_token, tokens_per_second, peak):
    share = flops_of_a_token * tokens_per_second / peak
    if share > 1:
        raise ValueError(f"an MFU of {share}")
    return share"""


def test_a_wrong_answer_is_told_why_and_a_right_one_passes(
    opened: lab_browser.Notebook
) -> None:
    run(opened, "lab-1-the-iron-law-on-your-own-device-2")
    answer(opened, "mfu", WRONG)
    assert source(opened, "mfu") == WRONG
    said = run(opened, "mfu", "check-mfu")
    assert "Not yet: mfu(9_437_184, 7_000, 200e9) is 33.030; it should be 0.33030" in said
    assert "percentage instead of a fraction" in said
    answer(opened, "mfu", RIGHT)
    assert "All checks passed." in run(opened, "mfu", "check-mfu")


def test_the_measuring_cell_fills_itself_and_reads_itself_back(
    opened: lab_browser.Notebook
) -> None:
    opened.page.evaluate(
        "async code => { await window.jupyterapp.shell.currentWidget.sessionContext.session"
        ".kernel.requestExecute({code}).done; }", QUICK)
    assert '"""\n"""' in source(opened, "measure")
    assert "save the notebook" in run(opened, "measure")
    filled = source(opened, "measure")
    assert 'measure_training(r"""\n{"profile":' in filled
    assert "tokens/s" in run(opened, "measure")
    assert source(opened, "measure") == filled


def test_validate_names_the_checks_that_still_fail(opened: lab_browser.Notebook) -> None:
    page = opened.page
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.get_by_text("Validate", exact=True).first.click()
    dialog = page.locator(".jp-Dialog, [role=dialog]").last
    dialog.wait_for(timeout=90_000)
    page.wait_for_function(
        "() => /fail|pass/i.test(document.querySelector('.jp-Dialog, [role=dialog]')"
        "?.textContent || '')", timeout=90_000)
    said = dialog.text_content()
    assert "training_seconds" in said
    assert "mfu(9_437_184" not in said
