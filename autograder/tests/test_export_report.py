"""The instructor's page: all in one file, nobody named, no text of a student's alive in it."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import lms_readers
import numpy as np
import pytest
from ironlaw_autograder.exports import items, pictures, report
from ironlaw_autograder.exports.marks import Book, Mark, Question, Student
from ironlaw_autograder.simulate.classroom import NAMES

EVIL = "<script>alert(1)</script>"
QUESTIONS = (Question("a", "1a · mfu & <b>more</b>", 12.0, False),
             Question("b", "1b · days, $x$", 6.0, False),
             Question("w", "2 · explain (in writing)", 2.0, True))
TOTALS = (18.0, 0.0, 12.5, 6.0)


def a_class() -> Book:
    wrong = Mark(0.0, got=EVIL, message=f"mfu is {EVIL}")
    students = (
        Student(NAMES[0], {"a": Mark(12.0), "b": Mark(6.0), "w": Mark(None)}),
        Student(NAMES[1], {"a": wrong, "b": Mark(0.0, blank=True), "w": Mark(0.0, blank=True)}),
        Student(NAMES[2], {"a": Mark(12.0), "b": Mark(0.5), "w": Mark(0.0)}),
        Student(NAMES[3], {"a": wrong, "b": Mark(6.0), "w": Mark(2.0)}, penalty=2.0),
        Student(NAMES[4], {}, problem=f"cut off {EVIL}"),
        Student(NAMES[5], {}, handed_in=False))
    return Book("lab_01", f"Lab 1 {EVIL}", QUESTIONS, students)


class Page(HTMLParser):
    """What a browser would find: tags with their attributes, and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(scope="module")
def page() -> str:
    book = a_class()
    return report.page(book, items.analyse(book))


def test_it_names_nobody_unless_asked(page: str) -> None:
    assert not any(name in page for name in NAMES)
    book = a_class()
    named = Page(report.page(book, items.analyse(book), names=True)).text
    assert f"{NAMES[0]}: 2 · explain (in writing)" in named
    assert f"{NAMES[4]}: cut off {EVIL}" in named
    assert f"{NAMES[3]}: 6 (late: 2 taken off)" in named
    assert f"{NAMES[0]}: 18 so far" in named


def test_it_runs_nothing_and_fetches_nothing(page: str) -> None:
    found = Page(page)
    assert not {"script", "iframe", "link", "img", "object", "b"} & {tag for tag, _ in found.tags}
    for tag, attributes in found.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("href", "src", "xlink:href") or str(value).startswith("#")
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert f"mfu is {EVIL}" in found.text


def test_the_pictures_say_their_numbers_in_words(page: str) -> None:
    labels = [a["aria-label"] or "" for tag, a in Page(page).tags if tag == "figure"]
    assert len(labels) == 2
    low, middle, high = np.percentile(TOTALS, (25, 50, 75))
    assert (low, middle, high) == (4.5, 9.25, 13.875)
    assert ("4 students, from 0 to 18 of 20 points; median 9.25, quartiles 4.5 and 13.88."
            in labels[0])
    assert "1 of them still waits for a person" in labels[0]
    assert "1a · mfu & <b>more</b>: 50 % earned, 50 % lost by wrong answers" in labels[1]
    assert "2 · explain (in writing): 25 % earned, 25 % lost by wrong answers, 25 % left empty, " \
           "25 % waiting for a person" in labels[1]


def test_it_says_what_is_not_final_and_that_few_students_tell_little(page: str) -> None:
    text = Page(page).text
    assert "1 of these totals is not final" in text
    assert "With 4 judged notebooks the figures below are hints at best" in text
    assert "4 of 6 students handed in a notebook that could be judged." in text
    assert "1 handed in nothing. 1 handed in something that could not be judged" in text
    many = Book("lab", "Lab", QUESTIONS[:2], tuple(
        Student(str(k), {"a": Mark(12.0 * (k % 2)), "b": Mark(k % 7)}) for k in range(30)))
    assert "hints at best" not in report.page(many, items.analyse(many))


def test_terms_are_explained_where_they_are_used(page: str) -> None:
    text = Page(page).text
    for term in ("corrected item-rest correlation", "point-biserial", "best 27 %",
                 "a high value is an easy question", "nineteen times in twenty"):
        assert term in text


def test_ids_are_unique_and_the_page_is_the_same_every_time(page: str) -> None:
    ids = [a["id"] for _, a in Page(page).tags if "id" in a]
    assert len(ids) == len(set(ids))
    book = a_class()
    assert report.page(book, items.analyse(book)) == page


def test_bars_count_everybody_once_and_stand_where_they_belong() -> None:
    found = pictures.distribution(a_class())
    assert (found.settled, found.so_far) == ((0.0, 12.5, 6.0), (18.0,))
    width, middles, settled, so_far = found.bars()
    assert (width, middles[-1]) == (1.0, 20.0)
    assert {middles[k] for k, count in enumerate(settled) if count} == {0.0, 6.0, 13.0}
    assert [middles[k] for k, count in enumerate(so_far) if count] == [18.0]
    above = pictures.Distribution(20.0, (23.0, 20.0), ())
    assert sum(above.bars()[2]) == 2
    assert pictures.Distribution(100.0, (), ()).bars()[0] == 5.0
    assert pictures.Distribution(5000.0, (4999.0,), ()).bars()[0] >= 200


@pytest.mark.parametrize("rows", [[], [0.0], [20.0] * 3])
def test_pictures_stand_empty_and_small_classes(rows: list[float]) -> None:
    small = Book("lab", "Lab", QUESTIONS[:1], tuple(
        Student(str(k), {"a": Mark(points)}) for k, points in enumerate(rows)))
    found = items.analyse(small)
    for picture in (pictures.histogram(pictures.distribution(small)), pictures.shares(found)):
        root = ET.fromstring(picture.replace("xlink:", ""))
        assert root.attrib["aria-hidden"] == "true"
    assert ("No notebook was judged" in pictures.distribution(small).words()) is (not rows)


def test_each_part_of_the_picture_of_questions_adds_up_to_the_whole() -> None:
    book = a_class()
    for item in items.analyse(book):
        parts = pictures.parts(item)
        assert sum(parts.values()) == pytest.approx(1)
        assert min(parts.values()) >= 0


def test_colours_differ_in_lightness_so_that_grey_print_shows_them() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[k:k + 2], 16) / 255 for k in (1, 3, 5))
        return 0.2126 * red ** 2.2 + 0.7152 * green ** 2.2 + 0.0722 * blue ** 2.2
    values = sorted(map(lightness, (pictures.BLUE, pictures.ORANGE, pictures.GREY)))
    assert all(b - a > 0.15 for a, b in itertools.pairwise(values))


def test_items_csv_is_read_back_and_guards_the_students_values() -> None:
    column = [Mark(0.0, got="=1+1", message="-1 is not right")] * 3 + [Mark(12.0)] * 2
    book = Book("lab", "Lab", QUESTIONS[:2], tuple(
        Student(str(k), {"a": mark, "b": Mark(float(k))}) for k, mark in enumerate(column)))
    found = items.analyse(book)
    header, rows = lms_readers.table(report.items_csv(found).encode())
    assert rows[0]["commonest wrong value"] == "'=1+1"
    assert rows[0]["message"] == "'-1 is not right"
    assert float(rows[0]["discrimination"]) == pytest.approx(found[0].discrimination, abs=1e-4)
    assert float(rows[0]["difficulty"]) == pytest.approx(0.4)
    assert rows[1]["title"] == "1b · days, $x$"
    assert len(header) == len(set(header))
