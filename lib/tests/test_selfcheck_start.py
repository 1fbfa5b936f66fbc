"""The first page: what it says of the learner's work, and work that survives a lost disk."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lab_browser
import nbformat
import pytest
from ironlaw import course, start, workspace
from ironlaw.errors import InputError
from ironlaw.selfcheck import checks, loader, record
from ironlaw.start import answers, keep, overview
from ironlaw.start.page import StartPage
from nbgrader.utils import compute_checksum

ROOT = Path(__file__).resolve().parents[2]
LAB = "labs/lab_01_iron_law/lab_01_iron_law.ipynb"


def notebook(*cells: tuple[str, str]) -> str:
    """A notebook of (text, grade_id) cells; a cell with an id is an answer cell."""
    made = nbformat.v4.new_notebook()
    for text, name in cells:
        if not name:
            made.cells.append(nbformat.v4.new_markdown_cell(text))
            continue
        label = {"grade_id": name, "solution": True, "grade": False, "locked": False}
        cell = nbformat.v4.new_code_cell(text, metadata={"nbgrader": label})
        label["checksum"] = compute_checksum(cell)
        made.cells.append(nbformat.v4.new_code_cell(text, metadata={"nbgrader": label}))
    return nbformat.writes(made)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small course: chapters 1 and 3, lab 1, and a notebook to hand in."""
    root = tmp_path / "shipped"
    for name, text in {
        "chapters/00_start_here.ipynb": notebook(("# Start here", "")),
        "chapters/01_iron_law.ipynb": notebook(("# Chapter 1 · Law & order", "")),
        "chapters/03_pipeline.ipynb": notebook(("no heading", "")),
        LAB: notebook(("# Lab 1 · Own device", ""), ("a = None", "a"), ("b = None", "b")),
        "labs/selfcheck_01/selfcheck_01.ipynb": notebook(("x = ''", "x")),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(course, "source", lambda: root)
    return root


@pytest.fixture
def copy(shipped: Path, tmp_path: Path) -> Path:
    """The learner's copy of that course; the folder of its chapters."""
    shutil.copytree(shipped, tmp_path / "copy")
    return tmp_path / "copy" / "chapters"


def test_a_row_for_every_chapter_that_exists_and_no_other(copy: Path) -> None:
    found = overview.overview(copy)
    assert [row.chapter.title for row in found.rows] == ["Chapter 1 · Law & order", "03_pipeline"]
    assert found.unwritten == (2, 4, 5, 6, 7, 8)
    assert [entry.title for entry in found.rows[0].labs] == ["Lab 1 · Own device"]
    assert found.rows[1].labs == ()
    shown = found._repr_html_()
    assert shown.count("<tr>") == 3
    assert "Law &amp; order" in shown
    assert "href='../labs/lab_01_iron_law/lab_01_iron_law.ipynb'" in shown
    assert "2, 4, 5, 6, 7 and 8 are not written yet" in shown


def test_chapters_not_written_are_named_plainly() -> None:
    assert overview.unwritten(()) == ""
    assert overview.unwritten((8,)).startswith("Chapter 8 is not written yet. Its")
    assert overview.unwritten((3, 4, 5)).startswith("Chapters 3 to 5 are not written yet. Their")
    assert overview.unwritten((4, 3)).startswith("Chapters 3 and 4 are not written yet. Their")
    assert overview.written(()) == ""
    assert overview.written((1,)) == "Chapter 1 is here to read."
    assert overview.written((1, 2, 5)) == "Chapters 1, 2 and 5 are here to read."


def test_the_page_says_which_chapters_exist_and_what_its_lab_column_is(copy: Path) -> None:
    found = overview.overview(copy)
    for shown in (str(found), found._repr_html_()):
        assert "Chapters 1 and 3 are here to read." in shown
        assert "counts the answer cells that you have changed" in shown
        assert "shows no points" in shown
    rows = tuple(dataclasses.replace(row, labs=()) for row in found.rows)
    assert "shows no points" not in str(overview.Overview(rows, ()))
    assert str(overview.Overview((), ())) == ""


def test_a_chapter_marks_itself_and_the_page_shows_it(copy: Path) -> None:
    page = StartPage(folder=copy)
    for number in (1, 3):
        start.mark_read(number)
    assert [row.read for row in page.refresh().rows] == [True, True]
    assert page.marks[3].description == "● Chapter 3 read"
    start.mark_read(3, False)
    assert [row.read for row in page.refresh().rows] == [True, False]


CHAPTERS = sorted((ROOT / "chapters").glob("*.md"))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda p: p.stem)
def test_each_chapter_marks_itself_and_no_other(chapter: Path) -> None:
    text, number = chapter.read_text(encoding="utf-8"), int(chapter.name[:2])
    assert re.findall(r"start\.mark_read\((\d+)\)", text) == ([str(number)] if number else [])
    assert 'put("read"' not in text, "start.mark_read knows the form of a mark"


def test_marks_from_before_still_count_and_can_be_taken_away(copy: Path) -> None:
    workspace.put("read", "1", True)
    page = StartPage(folder=copy)
    assert page.now.rows[0].read
    start.mark_read(1)
    assert "1 chapter marked as read" in keep.contents(workspace.read())
    press(page, "● Chapter 1 read")
    assert not page.now.rows[0].read
    assert "0 chapters marked as read" in keep.contents(workspace.read())


@pytest.mark.parametrize("chapter", [0, -1, 100, 1.5, "1", None, True])
def test_a_chapter_that_cannot_be_is_refused_by_name(chapter: Any) -> None:
    with pytest.raises(InputError, match="chapter"):
        start.mark_read(chapter)
    assert workspace.get("read") == {}


def test_a_mark_costs_a_chapter_next_to_nothing(tmp_path: Path) -> None:
    code = ("import sys\nfrom ironlaw import start\nstart.mark_read(1)\n"
            "print([m for m in ('ipywidgets', 'IPython', 'numpy', 'torch', 'matplotlib', "
            "'ironlaw.selfcheck', 'ironlaw.start.overview') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "IRONLAW_HOME": str(tmp_path)})
    assert done.stdout.strip() == "[]"


def test_the_states_follow_the_learner(copy: Path) -> None:
    item = loader.load()["1.1"]
    record.keep(item, item.key, checks.check(item, item.key))
    start.mark_read(1)
    lab = copy.parent / LAB
    lab.write_text(lab.read_text(encoding="utf-8").replace("a = None", "a = 6"), encoding="utf-8")
    row = overview.overview(copy).rows[0]
    assert row.read
    assert row.selfcheck.startswith("1 of 5 answered, 1 right")
    assert row.labs[0].state == "1 of 2 answers begun"
    assert row.hand_in is not None
    assert row.hand_in.state == "not started"
    start.mark_read(1, False)
    assert not overview.overview(copy).rows[0].read


@pytest.mark.parametrize(("text", "state"), [
    (None, "not beside this page"), ("", "cannot be read"), ("[1]", "cannot be read"),
    ('{"cells": [3]}', "cannot be read"),
    ('{"cells": [{"metadata": {"nbgrader": {"solution": true, "grade_id": "a"}}}]}',
     "cannot be read"), (notebook(("# x", "")), "cannot be read")])
def test_a_lab_that_is_missing_or_broken_is_named(copy: Path, text: str | None,
                                                  state: str) -> None:
    lab = copy.parent / LAB
    lab.unlink()
    if text is not None:
        lab.write_text(text, encoding="utf-8")
    assert overview.overview(copy).rows[0].labs[0].state == state


def test_work_in_the_course_itself_counts(shipped: Path) -> None:
    """A checkout that is worked in place, as on Binder, has no second file to compare with."""
    lab = shipped / LAB
    assert overview.overview(shipped / "chapters").rows[0].labs[0].state == "not started"
    lab.write_text(lab.read_text(encoding="utf-8").replace("b = None", "b = 6"), encoding="utf-8")
    found = overview.overview(shipped / "chapters").rows[0].labs[0]
    assert found.state == "1 of 2 answers begun"


LABS = sorted((ROOT / "labs").rglob("*.ipynb"))


@pytest.mark.parametrize("lab", LABS, ids=lambda p: p.stem)
def test_every_answer_in_every_lab_is_seen_once_it_is_begun(lab: Path, tmp_path: Path) -> None:
    made = nbformat.read(lab, as_version=4)
    mine = [cell for cell in made.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    assert mine
    assert answers.state(lab) == "not started"
    file = tmp_path / lab.name
    for begun, cell in enumerate(mine, start=1):
        cell.source += "\n\n"  # blank lines are no answer
        nbformat.write(made, file)
        assert answers.state(file) == ("not started" if begun == 1 else
                                       f"{begun - 1} of {len(mine)} answers begun")
        cell.source = cell.source.strip() + "\nx = 1"
        assert compute_checksum(cell) == answers.checksum(dict(cell), cell.source)
        nbformat.write(made, file)
        assert answers.state(file) == f"{begun} of {len(mine)} answers begun"


@pytest.mark.parametrize("value", [
    {"progress.json": {"metadata": {"name": "progress.json"}, "content": b"{}"}},  # ipywidgets 7
    ({"name": "progress.json", "type": "", "size": 2, "content": memoryview(b"{}")},),
])
def test_an_upload_is_read_in_both_ipywidgets(value: Any) -> None:
    assert keep.uploaded(value) == ("progress.json", b"{}")


@pytest.mark.parametrize("value", [{}, ()])
def test_no_upload_is_none(value: Any) -> None:
    assert keep.uploaded(value) is None


def press(page: StartPage, label: str) -> None:
    """Press the button called `label`, wherever it is on the page."""
    found: list[Any] = []

    def walk(widget: Any) -> None:
        if getattr(widget, "description", None) == label:
            found.append(widget)
        for child in getattr(widget, "children", ()):
            walk(child)

    walk(page.root)
    assert len(found) == 1, label
    found[0].click()


def test_save_empty_restore_and_undo(copy: Path, tmp_path: Path) -> None:
    page = StartPage(folder=copy)
    press(page, "○ Chapter 1 read")
    item = loader.load()["1.1"]
    record.keep(item, "B", checks.check(item, "B"))
    saved = tmp_path / "deep" / "mine.json"
    page.keep.path.value = str(saved)
    press(page, "Save to this file")
    assert "1 answer," in page.keep.message.value
    assert "download=" in page.keep.message.value
    before = workspace.read()
    press(page, "Start afresh ...")
    assert workspace.read() == before, "asking empties nothing"
    press(page, "No, keep everything")
    assert workspace.read() == before
    press(page, "Yes, empty these")
    assert workspace.get("answers") == {}
    assert not page.now.rows[0].read
    press(page, "Undo")
    assert workspace.read() == before
    press(page, "Yes, empty these")
    press(page, "Restore from this file")
    assert workspace.read() == before
    assert page.now.rows[0].read
    press(page, "● Chapter 1 read")
    assert not page.now.rows[0].read


def test_only_what_is_ticked_is_emptied(copy: Path) -> None:
    page = StartPage(folder=copy)
    workspace.guess("days", 3.0)
    start.mark_read(1)
    for name, tick in page.keep.ticks.items():
        tick.value = name == "read"
    press(page, "Yes, empty these")
    assert workspace.get("read") == {}
    assert set(workspace.get("guesses")) == {"days"}
    page.keep.ticks["read"].value = False
    press(page, "Yes, empty these")
    assert "nothing was emptied" in page.keep.message.value


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "answers": 3}', "\ud800",
                                  "[" * 9999])
def test_a_foreign_file_changes_nothing(copy: Path, tmp_path: Path, text: str) -> None:
    start.mark_read(1)
    before = workspace.read()
    page = StartPage(folder=copy)
    data = text.encode("utf-8", "surrogatepass")
    page.keep.on_upload({"new": ({"name": "holiday.json", "content": data},)})
    assert "holiday.json" in page.keep.message.value
    assert "Nothing was changed" in page.keep.message.value
    assert workspace.read() == before


def test_a_file_with_odd_entries_leaves_the_page_working(copy: Path, tmp_path: Path) -> None:
    odd = {"1.1": {"state": "right", "points_share": "all", "tries": "x"}, "1.2": 7, "9.9": {},
           "1.4": {"state": "wrong", "points_share": float("nan")}, "1.5": {"state": "right",
                                                                         "points_share": 1}}
    file = tmp_path / "odd.json"
    file.write_text(json.dumps({"version": 1, "answers": odd, "read": {"01": "yes"}}))
    page = StartPage(folder=copy)
    page.keep.path.value = str(file)
    press(page, "Restore from this file")
    assert "Restored" in page.keep.message.value
    assert page.now.rows[0].selfcheck.startswith("3 of 5 answered, 1 right")
    item = loader.load()["1.1"]
    record.keep(item, item.key, checks.check(item, item.key))
    assert StartPage(folder=copy).now.rows[0].selfcheck.startswith("3 of 5 answered, 2 right")


def test_saving_never_writes_over_another_file(copy: Path) -> None:
    page = StartPage(folder=copy)
    victim = copy / "01_iron_law.ipynb"
    held = victim.read_bytes()
    page.keep.path.value = str(victim)
    press(page, "Save to this file")
    assert "Nothing was written" in page.keep.message.value
    assert victim.read_bytes() == held


def test_a_backup_makes_its_folders_and_says_where_it_lies(
        copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start.mark_read(1)
    assert workspace.save("not/yet/there.json") == Path("not/yet/there.json")
    workspace.reset()
    workspace.restore("not/yet/there.json")
    assert workspace.get("read") == {"01": True}
    page = StartPage(folder=copy)
    page.keep.path.value = "new/mine.json"
    press(page, "Save to this file")
    assert str(tmp_path / "new" / "mine.json") in page.keep.message.value
    with pytest.raises(InputError, match="file that can be written"):
        workspace.save(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file that can be written"):
        workspace.save(tmp_path / "file" / "mine.json")


@pytest.mark.parametrize(("text", "why"), [
    (None, "No such file"), ("", "no JSON file"), ('{"version": 1, "ans', "only a part of one"),
    ('{"version": 2}', "something else, or another version's"), ("[]", "something else"),
    ('{"version": 1, "answers": 3}', "part 'answers' has been changed"),
])
def test_a_file_that_cannot_be_restored_is_refused_in_words(tmp_path: Path, text: str | None,
                                                            why: str) -> None:
    file = tmp_path / "mine.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        workspace.restore(file)
    said = str(caught.value)
    assert "a progress file that this course saved" in said
    assert why in said
    for jargon in ("workspace", "mapping", "Expecting", "Errno"):
        assert jargon not in said


def test_no_backup_replaces_another() -> None:
    start.mark_read(1)
    first = workspace.reset()
    second = workspace.reset()
    assert first is not None
    assert second is not None
    assert first != second
    workspace.restore(first)
    assert workspace.get("read") == {"01": True}
    with pytest.raises(InputError):
        workspace.reset("nonsense")
    assert workspace.get("read") == {"01": True}


OLD_INSTALL = Path(sys.prefix) / "ipywidgets-7"

if OLD_INSTALL.is_dir():  # the developers' environment brings a second, older ipywidgets

    def test_page_and_cards_work_under_ipywidgets_7(tmp_path: Path) -> None:
        code = (
            "import ipywidgets\n"
            "from ironlaw import workspace\n"
            "from ironlaw.selfcheck import cards, loader\n"
            "from ironlaw.start.page import StartPage\n"
            "assert all(cards.card(item).root for item in loader.load().values())\n"
            "page = StartPage(); page.marks[1].click(); page.keep.on_save()\n"
            "data = open('ironlaw-progress.json', 'rb').read(); workspace.reset()\n"
            "page.keep.upload.set_trait('value', {'a.json': {'metadata': {}, 'content': data}})\n"
            "print(ipywidgets.__version__, page.keep.message.value, workspace.get('read'))")
        environment = {**os.environ, "PYTHONPATH": str(OLD_INSTALL), "IRONLAW_HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env=environment, check=True, cwd=tmp_path)
        assert done.stdout.startswith("7.7.1")
        assert "1 chapter marked as read" in done.stdout
        assert done.stdout.endswith("{'01': True}\n")


@pytest.mark.browser
def test_the_page_in_a_browser_by_keyboard(tmp_path: Path) -> None:
    root = tmp_path / "course"
    for part in ("chapters", "labs"):
        shutil.copytree(ROOT / part, root / part)
    with lab_browser.lab_server(root) as server, lab_browser.chromium() as browser:
        opened = browser.open(server, "chapters/00_start_here.ipynb")
        opened.run_all()
        page = opened.page
        page.get_by_role("button", name="○ Chapter 1 read").press("Enter")
        page.get_by_role("button", name="● Chapter 1 read").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "● Chapter 1 read"
        page.locator("table", has_text="● read").wait_for()
        page.get_by_role("button", name="Save to this file").press("Enter")
        with page.expect_download() as download:
            page.get_by_text("download the file").click()
        given = tmp_path / "given back.json"
        download.value.save_as(given)
        page.get_by_role("button", name="Start afresh ...").press("Enter")
        page.get_by_role("button", name="Yes, empty these").press("Space")
        page.get_by_role("button", name="○ Chapter 1 read").wait_for()
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Restore from your computer").press("Enter")
        chooser.value.set_files(given)
        page.get_by_role("button", name="● Chapter 1 read").wait_for()
        page.locator("table a", has_text="Chapter 1").click()
        page.wait_for_url("**/01_iron_law.ipynb")
        assert opened.errors == []
        assert opened.cell_errors() == []
        assert opened.foreign == []
