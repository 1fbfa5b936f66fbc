"""Student markup as text in the stored copy, and as a few harmless elements on a page."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import hostile_markup
import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw_autograder.grading import front, markup
from ironlaw_autograder.grading.pages import FeedbackPage
from ironlaw_autograder.grading.safe_copy import SafeCopy, SafePage
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode, v4
from traitlets.config import Config

# What a stored text may still hold of HTML: nothing with an attribute, nothing that nests.
LEFT = re.compile(r"<(?:br|hr) ?/?>|</?(?:b|i|em|strong|sub|sup|code|kbd|u|s)>")
# nbconvert's own elements and attributes for Markdown.
TAGS = {"p", "pre", "code", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "del", "ul", "ol",
        "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "hr", "br", "dl", "dt",
        "dd", "span", "div", "b", "i", "sub", "sup", "kbd", "u", "s"}
ATTRIBUTES = {"class", "id", "start"}


class Elements(HTMLParser):
    """What a browser would make of a page, but for the harmless: tags and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.odd: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("class") == "anchor-link" and set(given) <= {"class", "href"}:
            return  # nbconvert's, beside a heading
        if tag in ("th", "td") and re.fullmatch("text-align:(left|right|center)",
                                                given.get("style") or ""):
            return
        if tag == "input" and set(given) <= {"class", "type", "disabled", "checked"}:
            return  # a box in a list of tasks
        if tag not in TAGS or not set(given) <= ATTRIBUTES:
            self.odd.append(str((tag, given)))

    def handle_comment(self, data: str) -> None:
        self.odd.append(f"<!--{data}")

    def handle_decl(self, decl: str) -> None:
        self.odd.append(f"<!{decl}")


def unsanitised(source: str) -> str:
    return str(MarkdownWithMath(renderer=IPythonRenderer(escape=False)).render(source))


@pytest.mark.parametrize("number", range(len(hostile_markup.MARKDOWN)))
def test_each_payload_is_text_in_the_stored_copy_and_can_be_read(number: int) -> None:
    source = hostile_markup.MARKDOWN[number].source(number)
    stored = markup.as_text(source)
    assert re.findall(r"<(?=[A-Za-z/!?])", LEFT.sub("", stored)) == []
    assert markup.as_written(stored) == source
    assert Elements(unsanitised(stored)).odd == []


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(
    ["<", ">", "/", "a", "b", "script", " ", "\n", "[", "]", "(", ")", "!", ":", "//", "`", "```",
     "&", "#", "106", ";", "lt", "<b>", "</b>", "<br>", "$", "\\", "javascript:", "x", "=", "'",
     '"', "-->", "<!--", "|", "-", "*", "\t", "mermaid", "http:", "www.x"]), max_size=40))
def test_no_mixture_of_signs_becomes_a_link_a_picture_or_an_unknown_element(
    parts: list[str]) -> None:
    assert Elements(unsanitised(markup.as_text("".join(parts)))).odd == []


@pytest.mark.parametrize("source", [
    "Plain *words*, `a < b`, x<5 and a & b.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two",
    "```python\nif a < b and c[0] > 1:\n    print('x')\n```", "H<sub>2</sub>O<br>and $a_1 = 3$",
])
def test_honest_text_is_stored_as_it_was_written(source: str) -> None:
    assert markup.as_text(source) == source


def test_a_page_keeps_structure_and_code_and_drops_what_acts_or_poses() -> None:
    page = markup.rendered("# Title\n\n**b** [x](https://example.org) ~~d~~\n\n"
                           "![p](data:image/png;base64,AAAA)\n\n```python\ndef f(): pass\n```\n\n"
                           "<div class='navbar highlight' id=x style='a:b'>c</div>")
    assert "<h1>Title</h1>" in page
    assert 'href="https://example.org"' in page
    assert '<span class="k">def</span>' in page
    assert '<div class="highlight">c</div>' in page
    assert 'src="data:image/png;base64,AAAA"' in page
    assert not re.search(r"\bid=|style=|navbar", page)
    assert "href" not in markup.rendered("[x](https://example.org)", links=False)
    assert "example.org" not in markup.cleaned("<a href='https://example.org'>x</a>", links=False)
    for away in ("<img src=http://e.org/x.png>", "![x](http://e.org/x.png)", "![x](attachment:x)"):
        assert "a picture from elsewhere was left out" in markup.rendered(away)
    assert "svg" not in markup.rendered("![x](data:image/svg+xml;base64,AAAA)")


def test_text_that_cannot_be_rendered_is_shown_and_text_without_end_is_cut() -> None:
    slow = "\\begin{a}" * 20_000  # a renderer's minutes, were it not cut
    for shown in (markup.rendered(slow), unsanitised(markup.as_text(slow))):
        assert "more characters" in shown
    assert "a picture from elsewhere" in markup.rendered("![x](attachment:nothing.png)")
    assert markup.shortened("abc", 3) == "abc"


def test_the_graded_copy_keeps_code_and_our_own_cells_as_they_are() -> None:
    ours = v4.new_markdown_cell("[link](https://example.org) <b id=x>")
    ours.metadata["nbgrader"] = nbformat.from_dict({"grade_id": "x", "locked": True})
    code = v4.new_code_cell("x = '<script>'", outputs=[
        v4.new_output("display_data", {"text/markdown": "<script>", "application/javascript": "x",
                                       "image/svg+xml": "<svg>", "text/plain": "<b>"},
                      metadata={"image/png": {"width": "1 onload=x"}})])
    book = v4.new_notebook(cells=[ours, code, v4.new_markdown_cell("<script>")],
                           metadata={"widgets": {}})
    made, _ = SafeCopy().preprocess(book, {})
    assert made.cells[0].source == "[link](https://example.org) <b id=x>"
    assert made.cells[1].source == "x = '<script>'"
    assert set(made.cells[1].outputs[0].data) == {"text/markdown", "text/plain"}
    assert markup.PARTER in made.cells[1].outputs[0].data["text/markdown"]
    assert made.cells[1].outputs[0].metadata == {}
    assert "widgets" not in made.metadata
    assert made.cells[2].source == f"<{markup.PARTER}script>"


def test_markdown_in_outputs_is_shown_up_to_a_length_and_its_absence_said() -> None:
    def shown() -> NotebookNode:
        return v4.new_output("display_data", {"text/markdown": "*a_" * 6_000, "text/plain": "x"})

    book = v4.new_notebook(cells=[v4.new_code_cell("", outputs=[shown() for _ in range(10)])
                                  for _ in range(4)])
    made, _ = SafeCopy().preprocess(book, {})
    kinds = [set(output.data) for cell in made.cells for output in cell.outputs]
    assert kinds == [{"text/markdown", "text/plain"}] * 27 + [{"text/plain"}] * 13
    assert "more than 500,000 characters of Markdown" in made.cells[3].outputs[9].data["text/plain"]


def test_a_page_shows_names_as_text() -> None:
    book = v4.new_notebook(cells=[])
    _, told = SafePage().preprocess(book, {"student": "<b>", "first_name": '"x', "total": 3})
    assert told == {"student": "&lt;b&gt;", "first_name": "&quot;x", "total": 3}


def test_the_form_graders_policy_names_its_own_scripts_and_no_others() -> None:
    page = front.guarded("<head><script>one()</script><script src='/x.js'></script></head>",
                         "<a onclick='two()'>x</a>")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    for own in ("one()", "two()"):
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert page.index("Content-Security-Policy") < page.index("<script>")


def test_a_feedback_page_shows_hints_open_and_without_what_was_hung_on_them() -> None:
    page = FeedbackPage().markdown2html(
        None, "<details ontoggle='x()'><summary>Hint</summary>Halve it.</details>\n\n`<details>`")
    assert "<details open><summary>Hint</summary>Halve it.</details>" in page
    assert "ontoggle" not in page
    assert "&lt;details&gt;" in page


@pytest.mark.parametrize("whose", ["FeedbackPage", "HTMLExporter"])
def test_a_page_runs_no_search_whose_time_explodes_over_what_students_wrote(
    whose: str, tmp_path: Path
) -> None:
    config = Config()
    front.configure(config, str(tmp_path / "nbgrader_config.py"), str(tmp_path))
    exporter = {"FeedbackPage": FeedbackPage, "HTMLExporter": HTMLExporter}[whose](config=config)
    written = "[a](files/b)"  # nbconvert's own filter looks for this, a minute in 10,000 of it
    assert exporter.environment.filters["strip_files_prefix"](written) == written
