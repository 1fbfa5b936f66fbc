"""Marking by hand in a real JupyterLab: points and comments arrive, student markup does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile_markup
import lab_browser
import nbformat
import pytest
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.adapter import Classroom
from ironlaw_autograder.simulate.submissions import Desk
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode, v4

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.browser, pytest.mark.sandbox]

LAB = "lab_01_iron_law"
WHY = "The launch of each operation costs more than its arithmetic on a model this small."


@dataclass
class Room:
    """A graded class, a server in its folder, and a browser."""

    out: Path
    classroom: Classroom
    server: lab_browser.LabServer
    browser: lab_browser.Browser

    def page(self, address: str = "", content: str = "") -> Any:
        """A page of the form grader, or with `content`, at rest; `asked` and `errors` say what
        it fetched and what failed on it."""
        page = self.browser.context.new_page()
        page.asked, page.errors = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        if content:
            page.set_content(content)
        else:
            page.goto(f"{self.server.url}/formgrader/{address}")
        page.wait_for_load_state("networkidle")
        return page

    def submission(self, student: str) -> str:
        """The form grader's address of one student's notebook."""
        with self.classroom.gradebook() as book:
            return f"submissions/{book.find_submission_notebook(LAB, LAB, student).id}/"


@pytest.fixture(scope="module")
def room(desk: Desk, course: Course, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    if lab_browser.find_chromium() is None:
        pytest.skip(lab_browser.HOW_TO_GET_CHROMIUM)
    where = tmp_path_factory.mktemp("marking")
    folder = where / "class"
    folder.mkdir()
    hostile = desk.reference({"explain": "Because.\n\n" + hostile_markup.MARKDOWN[1].source(1)})
    hostile.cells[3:3] = [*hostile_markup.cells(), v4.new_code_cell(
        "from IPython.display import Markdown, display\n"
        "display(Markdown('<img src=x onerror=\"(top.fired=top.fired||[]).push(90)\">'))\n"
        "print('\\x1b[31m<script>(top.fired=top.fired||[]).push(91)</script>')")]
    members = {"ada": desk.reference({"explain": WHY}), "boris": desk.reference({"explain": WHY}),
               "mallory &lt;b&gt; O'x": hostile, "untouched": desk.untouched()}
    for name, submitted in members.items():
        (folder / f"{name}.ipynb").write_text(json.dumps(submitted), encoding="utf-8")
    out = where / "out"
    assert main(["grade", str(folder), "--out", str(out), "--root", str(ROOT)]) == 0
    with lab_browser.lab_server(out) as server, lab_browser.chromium() as browser:
        browser.context.request.get(server.page())  # signs the browser in
        yield Room(out, Classroom(out, course, desk.lab), server, browser)


def fired(page: Any) -> set[int]:
    """Numbers of the payloads that ran on `page`, clicks included, or asked another machine."""
    page.evaluate(
        "() => document.querySelectorAll('.click, #notebook-container a[href], body > * .click')"
        ".forEach(e => { e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));"
        " if (!e.href || e.href.startsWith('javascript:')) e.click(); })")
    page.wait_for_timeout(200)
    away = re.compile(rf"http://{hostile_markup.ELSEWHERE}/(\d+)")
    asked = {int(found[1]) for url in page.asked if (found := away.match(url))}
    return asked | set(page.evaluate("() => window.fired || []"))


def plain(room: Room, cells: list[NotebookNode]) -> Any:
    """The cells on a page by nbconvert, which sanitises nothing."""
    exporter = HTMLExporter(template_name="classic")
    return room.page(content=exporter.from_notebook_node(v4.new_notebook(cells=cells))[0])


def test_a_written_answer_is_marked_by_keyboard_and_the_total_follows(room: Room) -> None:
    page = room.browser.context.new_page()
    page.goto(room.server.page())
    page.get_by_role("menuitem", name="Nbgrader").click(timeout=60_000)
    page.get_by_role("menuitem", name="Formgrader", exact=True).click()
    lab = page.frame_locator("iframe")
    lab.get_by_role("link", name="Manual Grading").first.click()
    lab.get_by_role("link", name=LAB, exact=True).click()
    lab.get_by_role("link", name=LAB, exact=True).last.click()
    lab.get_by_role("link", name="Submission #1").click()
    frame = next(f for f in page.frames if "/formgrader/" in f.url)
    ready = ("() => window.formgrader && formgrader.loaded && MathJax.loaded"
             " && formgrader.grades.loaded")
    marked: list[str] = []
    shown: list[float] = []
    for points in ("1.5", "1"):
        frame.wait_for_function(ready)
        for _ in range(60):
            if frame.evaluate("document.activeElement.id") == "explain":
                break
            page.keyboard.press("Tab")
        assert "How 4 is marked" in frame.inner_text("body")
        marked.append(frame.evaluate("submission_id"))
        shown.append(float(frame.get_attribute("#check-mfu", "placeholder") or "nan"))
        page.keyboard.type(points)
        with page.expect_response(re.compile(r"/api/grade/")):
            page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.type("Name the number.")
        with page.expect_response(re.compile(r"/api/comment/")):
            page.keyboard.press("Escape")
        page.keyboard.press("Control+.")
        frame.wait_for_function(
            "before => window.submission_id && submission_id !== before", arg=marked[-1])
    with room.classroom.gradebook() as book:
        found = [book.find_submission_notebook_by_id(key) for key in marked]
        grades = [next(g for g in part.grades if g.name == "explain") for part in found]
        assert [g.manual_score for g in grades] == [1.5, 1]
        assert not any(g.needs_manual_grade for g in grades)
        assert shown == [next(g.auto_score for g in part.grades if g.name == "check-mfu")
                         for part in found]
        said = [c.manual_comment for part in found for c in part.comments if c.name == "explain"]
        assert said == ["Name the number."] * 2
        totals = {part.student.id: part.score for part in found}
    table = room.page(f"manage_submissions/{LAB}")
    table.wait_for_selector("#main-table .status span")
    rows = {r.locator(".student-id").inner_text(): r.inner_text()
            for r in table.locator("#main-table tr").all()}
    for student, total in totals.items():
        assert f"{total:g} / 20" in rows[student]
        assert "needs manual grading" not in rows[student]
    assert "mallory &lt;b&gt; O'x" in rows
    page.close()


def test_the_form_grader_shows_a_mark_that_was_given_meanwhile(room: Room) -> None:
    shown = "() => formgrader.grades.loaded && document.querySelector('#explain').value === '{}'"
    for points in ("0.25", "0.75"):
        assert main(["mark", str(room.out), "--student", "ada", "--points", points]) == 0
        page = room.page(room.submission("ada"))
        page.wait_for_function(shown.format(points))
        assert "When it was judged: Graded: 18 of 20 points" in page.inner_text("body")
        page.close()


def test_every_canary_is_alive_where_nothing_is_sanitised(room: Room) -> None:
    page = plain(room, hostile_markup.cells(alone=False))
    alive = fired(page)
    assert len(alive) >= 20, sorted(alive)


def test_no_canary_fires_in_the_form_grader_or_in_feedback(room: Room) -> None:
    student = "mallory &lt;b&gt; O'x"
    shown = [room.page(room.submission(student)),
             room.page(content=room.classroom.page(student).read_text(encoding="utf-8"))]
    for page in shown:
        assert fired(page) == set()
        assert "Because." in page.inner_text("body")
        held_in_its_cell(page)
    assert shown[0].errors == []
    assert all(url.startswith((room.server.url, "data:")) for url in shown[0].asked)


def test_the_stored_copy_is_harmless_in_a_front_end_that_sanitises_nothing(room: Room) -> None:
    stored = nbformat.read(room.classroom.graded("mallory &lt;b&gt; O'x"), as_version=4)
    page = plain(room, stored.cells)
    assert fired(page) == set()
    assert "onerror" in page.inner_text("body")  # there, to be read


def test_a_forged_copy_is_harmless_in_the_form_grader(room: Room) -> None:
    path = room.classroom.graded("boris")
    forged = nbformat.read(path, as_version=4)
    answer = next(c for c in forged.cells if c.get("id") == "explain")
    answer.source = "\n\n".join(cell.source for cell in hostile_markup.cells())
    forged.cells[2:2] = [*hostile_markup.cells(), *hostile_markup.outputs()]
    forged.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {
        "state": {"x": "</script><script>top.fired=[200]</script>"}}}
    path.chmod(0o644)
    nbformat.write(forged, path)
    with room.classroom.gradebook() as book:
        book.update_or_create_student("boris", first_name="<img src=x onerror='top.fired=[201]'>",
                                      last_name="</script><script>top.fired=[202]</script>")
    page = room.page(room.submission("boris"))
    assert fired(page) == set()
    held_in_its_cell(page)
    assert page.evaluate("formgrader.grades.loaded && formgrader.comments.loaded")
    assert page.errors == []
    for address in ("manage_students", f"manage_submissions/{LAB}", f"gradebook/{LAB}/{LAB}"):
        table = room.page(address)
        table.wait_for_selector("#main-table a")
        assert fired(table) == set()


def held_in_its_cell(page: Any) -> None:
    """Nothing of the student's has become a part of the page around it."""
    assert page.locator("iframe, object, embed, form, base, link[href*=elsewhere]").count() == 0
    assert page.locator("#explain, #statusmessage, #escaped").count() <= 2
    assert page.locator("h1[id], h2[id], [style*=fixed]").count() == 0
    assert page.locator("#notebook-container [onerror], #notebook-container [onload]").count() == 0
    assert page.locator("#notebook-container a[href^=javascript]").count() == 0
    assert page.locator(".navbar-fixed-top").count() <= 1
    assert page.locator("#notebook-container").get_by_text("press Validate").is_visible()
