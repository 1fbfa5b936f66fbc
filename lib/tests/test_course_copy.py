"""The working copy: updates arrive, and nothing that a learner wrote is ever lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ironlaw import course
from ironlaw.errors import InputError, UnavailableError

CHAPTER = "chapters/01_iron_law.ipynb"
LAB = "labs/lab_01/lab_01.ipynb"


def notebook(*sources: str, outputs: bool = False, count: int | None = None) -> str:
    """The text of a small notebook with one code cell per source."""
    shown = [{"output_type": "stream", "name": "stdout", "text": "42\n"}] if outputs else []
    cells = [{"cell_type": "code", "id": f"c{i}", "metadata": {}, "execution_count": count,
              "source": source, "outputs": shown} for i, source in enumerate(sources)]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A small course with one chapter, its source, a picture and a lab."""
    root = tmp_path / "course"
    for name, text in {CHAPTER: notebook("1 + 1"), "chapters/01_iron_law.md": "source",
                       "chapters/images/x.svg": "<svg/>", LAB: notebook("answer = None"),
                       "labs/__pycache__/x.pyc": "", "labs/.hidden": ""}.items():
        write(root, name, text)
    return root


def write(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def text(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def test_first_run_lays_what_learners_need_and_no_source(upstream: Path, tmp_path: Path) -> None:
    laid = course.lay(tmp_path / "mine", upstream)
    assert laid.added == [CHAPTER, "chapters/images/x.svg", LAB]
    assert text(laid.folder, LAB) == text(upstream, LAB)
    assert not (laid.folder / "chapters/01_iron_law.md").exists()
    again = course.lay(tmp_path / "mine", upstream)
    assert not again.lines()


def test_untouched_file_is_updated(upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    write(upstream, LAB, notebook("answer = None", "# new"))
    assert course.lay(mine, upstream).updated == [LAB]
    assert text(mine, LAB) == text(upstream, LAB)


def test_changed_file_stays_and_new_version_lands_beside_once(
        upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    write(mine, LAB, notebook("answer = 7"))
    write(upstream, LAB, notebook("answer = None", "# fixed"))
    laid = course.lay(mine, upstream)
    beside = "labs/lab_01/lab_01.new.ipynb"
    assert laid.beside == [(LAB, beside)]
    assert laid.lines() == [f"You changed {LAB}; its new version is beside it as {beside}."]
    assert text(mine, LAB) == notebook("answer = 7")
    assert text(mine, beside) == text(upstream, LAB)
    (mine / beside).unlink()
    assert not course.lay(mine, upstream).beside, "offered once, thrown away, not offered again"


def test_work_in_the_new_version_is_kept_too(upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    write(mine, LAB, notebook("answer = 7"))
    beside = "labs/lab_01/lab_01.new.ipynb"
    for version in ("two", "three"):
        write(upstream, LAB, notebook(version))
        course.lay(mine, upstream)
    assert text(mine, beside) == notebook("three"), "an untouched offer is replaced"
    write(mine, beside, notebook("my second try"))
    write(upstream, LAB, notebook("four"))
    assert course.lay(mine, upstream).beside == [(LAB, "labs/lab_01/lab_01.new-2.ipynb")]
    assert text(mine, beside) == notebook("my second try")


def test_change_without_a_new_version_is_left_in_peace(upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    write(mine, LAB, notebook("answer = 7"))
    laid = course.lay(mine, upstream)
    assert laid.kept == [LAB]
    assert not laid.lines()
    assert text(mine, LAB) == notebook("answer = 7")


def test_running_a_chapter_is_no_change_but_running_a_lab_is(
        upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    write(mine, CHAPTER, notebook("1 + 1", outputs=True, count=3))
    write(mine, LAB, notebook("answer = None", outputs=True, count=3))
    write(upstream, CHAPTER, notebook("1 + 2"))
    write(upstream, LAB, notebook("answer = None", "# fixed"))
    laid = course.lay(mine, upstream)
    assert laid.updated == [CHAPTER]
    assert [name for name, _ in laid.beside] == [LAB], "a lab's outputs hold measurements"


def test_own_cell_in_a_chapter_is_a_change(upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    write(mine, CHAPTER, notebook("1 + 1", "my_note = 'x'"))
    write(upstream, CHAPTER, notebook("1 + 2"))
    assert [name for name, _ in course.lay(mine, upstream).beside] == [CHAPTER]


def test_deleted_file_comes_back(upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    (mine / LAB).unlink()
    assert course.lay(mine, upstream).added == [LAB]


def test_lost_record_counts_every_difference_as_the_learners(
        upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    write(mine, ".ironlaw/laid.json", "{ torn")
    write(upstream, LAB, notebook("new"))
    old = text(mine, LAB)
    assert [name for name, _ in course.lay(mine, upstream).beside] == [LAB]
    assert text(mine, LAB) == old


def test_broken_notebook_is_compared_byte_for_byte(upstream: Path, tmp_path: Path) -> None:
    mine = course.lay(tmp_path / "mine", upstream).folder
    write(mine, CHAPTER, "{ not a notebook")
    write(upstream, CHAPTER, notebook("1 + 2"))
    assert course.lay(mine, upstream).beside
    assert text(mine, CHAPTER) == "{ not a notebook"


@pytest.mark.parametrize("place", ["course", "course/chapters", "course/labs/deeper"])
def test_the_original_is_refused_as_working_copy(
        upstream: Path, tmp_path: Path, place: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="outside the course's own files"):
        course.lay(tmp_path / place, upstream)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_is_refused_as_working_copy(upstream: Path, tmp_path: Path) -> None:
    write(tmp_path, "taken", "my letter")
    with pytest.raises(InputError, match="dir = "):
        course.lay(tmp_path / "taken", upstream)
    assert text(tmp_path, "taken") == "my letter"


def test_unwritable_place_is_one_clear_error(upstream: Path) -> None:
    with pytest.raises(InputError, match="can be written"):
        course.lay(Path("/proc/ironlaw"), upstream)


def test_installation_without_course_says_so(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "__file__", str(tmp_path / "a" / "b" / "c" / "course.py"))
    assert course.checkout() is None
    with pytest.raises(UnavailableError, match="the course's notebooks"):
        course.source()
    assert course.default_folder() == Path.cwd() / "ironlaw-workbook"
    write(tmp_path, "a/b/c/content/" + CHAPTER, notebook("1"))
    assert course.source() == tmp_path / "a" / "b" / "c" / "content"


def test_running_from_the_checkout_uses_its_files() -> None:
    root = course.checkout()
    assert root is not None
    assert course.source() == root
    assert course.default_folder() == root / "workbook"


actions = st.lists(st.tuples(st.sampled_from(["upstream", "edit", "edit_new", "delete", "lay"]),
                             st.integers(0, 5)), min_size=1, max_size=14)


@settings(deadline=None, max_examples=60, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=actions)
def test_whatever_happens_no_learner_text_disappears(
        tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    """Any order of edits, updates and deletions: text the learner wrote stays on disk."""
    root, mine = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("mine")
    (root / "chapters").mkdir()
    write(root, LAB, notebook("v0"))
    course.lay(mine, root)
    written: dict[Path, str] = {}
    for step, (action, value) in enumerate(steps):
        news = sorted(mine.glob("labs/lab_01/*.new*.ipynb"))
        if action == "upstream":
            write(root, LAB, notebook(f"v{value}"))
        elif action == "edit":
            written[mine / LAB] = notebook(f"learner {step}")
            write(mine, LAB, written[mine / LAB])
        elif action == "edit_new" and news:
            written[news[0]] = notebook(f"learner {step}")
            news[0].write_text(written[news[0]], encoding="utf-8")
        elif action == "delete":
            (mine / LAB).unlink(missing_ok=True)
            written.pop(mine / LAB, None)
        course.lay(mine, root)
        assert {file: file.read_text(encoding="utf-8") for file in written} == written
        assert (mine / LAB).exists()
