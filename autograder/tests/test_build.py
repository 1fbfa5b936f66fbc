"""Sources to notebooks: the same bytes every time, and nothing that a student must not get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ironlaw.errors import InputError
from ironlaw_autograder import check, giveaway
from ironlaw_autograder.build import chapters, lab_source, labs, notebook, selfcheck_lab
from ironlaw_autograder.cli import main
from ironlaw_autograder.course import Course

CHAPTER = """---
jupytext:
  formats: md
---

# One idea

Words.

```python tags=["figure"]
x = 1
```

```bash .noeval
make lab
```

## Naïve case

More words.


A new cell.
"""

LAB = '''# ---
# jupyter:
#   ironlaw:
#     title: Doubling
#     minutes: 5
#     blocked: [ironlaw.predict.iron_law]
# ---

# %% [markdown]
# # Doubling

# %% nbgrader={"grade_id": "double", "solution": true}
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return x + x + 0
    ### END SOLUTION

# %% nbgrader={"grade_id": "check-double", "grade": true, "points": 2}
from ironlaw.lab import check

def visible(student):
    student.close("double(1)", student.call("double", 1), 2)

check(visible)
### BEGIN HIDDEN TESTS
def hidden(student):
    student.close("double(x)", student.call("double", 21.5), 43, tell=False)

check(hidden)
### END HIDDEN TESTS

# %% [markdown] nbgrader={"grade_id": "why", "grade": true, "solution": true, "points": 3}
# Adding a number to itself doubles it, says the model answer.

# %% [markdown]
# ### BEGIN MARK SCHEME
# One point for naming the secret criterion.
# ### END MARK SCHEME
'''


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> lab_source.Lab:
    path = tmp_path_factory.mktemp("solutions") / "lab_double.py"
    path.write_text(LAB, encoding="utf-8")
    return lab_source.read(path)


@pytest.fixture(scope="module")
def shipped(lab: lab_source.Lab) -> str:
    return notebook.text(labs.release(lab))


@pytest.fixture
def course(tmp_path: Path, shipped: str) -> Course:
    made = Course(tmp_path)
    for folder in (made.chapters, made.solutions):
        folder.mkdir()
    (made.chapters / "01_idea.md").write_text(CHAPTER, encoding="utf-8")
    (made.solutions / "lab_double.py").write_text(LAB, encoding="utf-8")
    for path, content in derived(made, shipped).items():
        notebook.write_if_changed(path, content)
    return made


def derived(course: Course, shipped: str) -> dict[Path, str]:
    lab = course.labs / "lab_double" / "lab_double.ipynb"
    return {**chapters.outputs(course), lab: shipped}


def findings(course: Course, shipped: str, lab: lab_source.Lab) -> list[check.Finding]:
    return check.course(course, derived(course, shipped), [lab])


def test_a_chapter_becomes_the_same_bytes_each_time_with_ids_from_headings() -> None:
    first, second = (chapters.convert(CHAPTER, "01_idea.md") for _ in range(2))
    assert first == second
    made = json.loads(first)
    assert [cell["id"] for cell in made["cells"]] == [
        "one-idea", "one-idea-2", "one-idea-3", "naive-case", "naive-case-2"]
    assert made["metadata"] == notebook.metadata()
    assert made["cells"][1]["metadata"] == {"tags": ["figure"]}
    assert made["cells"][2]["cell_type"] == "markdown"


def test_jupytexts_own_header_never_changes_a_notebook() -> None:
    other = CHAPTER.replace("formats: md", "formats: md\n  text_representation: {x: 1.19}")
    assert chapters.convert(other, "a.md") == chapters.convert(CHAPTER, "a.md")


def test_a_shell_block_that_would_run_is_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match=r"bash \.noeval"):
        chapters.convert(CHAPTER.replace(" .noeval", ""), "01_idea.md")


def test_a_released_lab_is_stripped_labelled_and_stable(lab: lab_source.Lab, shipped: str) -> None:
    assert notebook.text(labs.release(lab)) == shipped
    assert check.leaks("lab", json.loads(shipped), lab) == []
    for secret in ("x + x", "21.5", "model answer", "secret criterion", "BEGIN"):
        assert secret not in shipped
    made = json.loads(shipped)
    assert [cell["id"] for cell in made["cells"]] == ["doubling-1", "double", "check-double", "why"]
    assert all("nbgrader" in cell["metadata"] for cell in made["cells"])
    assert lab.points == 5


def test_grading_restores_hidden_tests_and_rubric_but_no_solution(lab: lab_source.Lab) -> None:
    text = notebook.text(labs.template(lab))
    assert "21.5" in text
    assert "secret criterion" in text
    assert "x + x" not in text
    assert "says the model answer" not in text


@pytest.mark.parametrize(("change", "message"), [
    (("minutes: 5", ""), "title and minutes"),
    (('"grade": true, "points": 2', '"grade": true'), "check-double: points"),
    (('"grade_id": "double"', '"grade_id": "Double it"'), "grade_id"),
    (('"grade_id": "why"', '"grade_id": "double"'), "no other cell"),
])
def test_a_faulty_lab_source_is_refused_by_name(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    path = tmp_path / "lab_double.py"
    path.write_text(LAB.replace(*change), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        lab_source.read(path)


def test_check_is_content_with_what_build_made(
    course: Course, shipped: str, lab: lab_source.Lab
) -> None:
    assert findings(course, shipped, lab) == []


def plant(course: Course, edit: Any) -> None:
    path = course.labs / "lab_double" / "lab_double.ipynb"
    data = json.loads(path.read_text(encoding="utf-8"))
    edit(data)
    path.write_text(json.dumps(data), encoding="utf-8")


PLANTED = {
    "an answer": (lambda nb: nb["cells"][1]["source"].append("\n    return x + x + 0"),
                  "double", "contains solution text"),
    "a hidden test": (lambda nb: nb["cells"][0]["source"].append("\ncheck(hidden)"),
                      "doubling-1", "contains a hidden test"),
    "a rubric": (lambda nb: nb["cells"][3]["source"].append(
        "\nOne point for naming the secret criterion."), "why", "a rubric for graders"),
    "an answer in metadata": (
        lambda nb: nb["cells"][1]["metadata"]["nbgrader"].update(hint="return x + x + 0"),
        "double", "contains solution text"),
    "an attachment": (lambda nb: nb["cells"][0].update(attachments={"key.png": {}}),
                      "doubling-1", "attachments: key.png"),
    "a cell metadata key": (lambda nb: nb["cells"][2]["metadata"].update(author="x"),
                            "check-double", "foreign metadata 'author'"),
    "a notebook metadata key": (lambda nb: nb["metadata"].update(answers=[1]),
                                "", "foreign notebook metadata: answers"),
    "an output": (lambda nb: nb["cells"][1].update(execution_count=3),
                  "double", "outputs of a run"),
    "an answer in a comment": (
        lambda nb: nb["cells"][2]["source"].append("\n    # return x + x + 0"),
        "check-double", "contains solution text"),
    "an answer in a picture's place": (
        lambda nb: nb["cells"][0].update(attachments={"a.png": {"text": "return x + x + 0"}}),
        "doubling-1", "contains solution text"),
    "an answer in a tag": (
        lambda nb: nb["cells"][1]["metadata"].update(tags=["return x + x + 0"]),
        "double", "contains solution text"),
    "an answer in an output": (
        lambda nb: nb["cells"][1].update(outputs=[{"text": "return x + x + 0"}]),
        "double", "contains solution text"),
    "a model answer": (lambda nb: nb["cells"][3]["source"].append(
        "\nAdding a number to itself doubles it, says the model answer."), "why",
        "contains solution text"),
    "a hidden test within a line": (lambda nb: nb["cells"][2]["source"].append(
        '\nx = """student.close("double(x)", student.call("double", 21.5), 43, tell=False)"""'),
        "check-double", "contains a hidden test"),
    "a rubric in metadata": (lambda nb: nb["cells"][3]["metadata"].update(
        jupyter={"note": "One point for naming the secret criterion."}), "why",
        "a rubric for graders"),
    "a whole cell": (lambda nb: nb["cells"].insert(1, {
        "id": "extra", "cell_type": "raw", "metadata": {}, "source": ["    return x + x + 0"]}),
        "extra", "contains solution text"),
    "a mark": (lambda nb: nb["cells"][1]["source"].append("\n### BEGIN SOLUTION"),
               "double", "still has the mark"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_each_planted_leak_is_named_with_its_cell(
    course: Course, shipped: str, lab: lab_source.Lab, what: str
) -> None:
    edit, cell, words = PLANTED[what]
    plant(course, edit)
    found = findings(course, shipped, lab)
    named = [f for f in found if f.cell == cell and words in f.what]
    assert named, [str(f) for f in found]
    assert named[0].file == "labs/lab_double/lab_double.ipynb"
    assert any("differs from its source" in f.what for f in found)


@pytest.mark.parametrize("name", [
    "labs/lab_double/answers.json", "labs/lab_double/lab_double-solution.ipynb",
    "labs/lab_double/.hidden", "labs/key.csv", "labs/lab_double/img/key.png", "chapters/key.csv",
    "chapters/img/solution.py",
])
def test_a_side_file_is_named(
    course: Course, shipped: str, lab: lab_source.Lab, name: str
) -> None:
    place = course.root / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("{}", encoding="utf-8")
    assert name in {f.file for f in findings(course, shipped, lab)}


def test_a_link_to_the_solutions_is_named(
    course: Course, shipped: str, lab: lab_source.Lab
) -> None:
    (course.labs / "all").symlink_to(course.solutions)
    assert "labs/all" in {f.file for f in findings(course, shipped, lab)}


KEYS = {
    "the letter of a choice": ("answer-1-1", "answer_1_1 = 'A'"),
    "the order of a list": ("answer-1-5", "answer_1_5 = [2, 4, 1, 3, 5]"),
    "the verdict on a claim": ("answer-1-4", "answer_1_4 = False"),
    "the check of a figure of one's own": (
        "check-v1-1", 'check(lambda student: judge(student, "V1.1"), points=2)'),
}


@pytest.mark.parametrize("what", KEYS)
def test_a_planted_key_of_a_question_is_named_with_its_cell(what: str) -> None:
    name, key = KEYS[what]
    lab = selfcheck_lab.lab(1)
    made = json.loads(notebook.text(labs.release(lab)))
    cell = next(cell for cell in made["cells"] if cell["id"] == name)
    cell["source"] = [*cell["source"], f"\n# {key}"]
    found = check.leaks("selfcheck", made, lab)
    assert [f.what[:9] for f in found if f.cell == name] == ["contains "], found
    assert {f.cell for f in found} <= {name, ""}


def test_a_stale_missing_or_orphaned_chapter_is_named(
    course: Course, shipped: str, lab: lab_source.Lab
) -> None:
    source = course.chapters / "01_idea.md"
    source.write_text(CHAPTER.replace("More words", "Better words"), encoding="utf-8")
    (course.chapters / "09_gone.ipynb").write_text("{}", encoding="utf-8")
    found = {(f.file, f.cell) for f in findings(course, shipped, lab)}
    assert found == {("chapters/01_idea.ipynb", "naive-case"), ("chapters/09_gone.ipynb", "")}


def test_a_solution_line_in_the_open_of_a_careless_source_is_caught(tmp_path: Path) -> None:
    path = tmp_path / "lab_double.py"
    path.write_text(LAB.replace("# # Doubling", "# # Doubling\n# return x + x + 0"), "utf-8")
    lab = lab_source.read(path)
    found = check.leaks("lab", json.loads(notebook.text(labs.release(lab))), lab)
    assert [(f.cell, f.what[:22]) for f in found] == [("doubling-1", "contains solution text")]


GIVEN_AWAY = {
    "as it stands": ("want = 1e9 / speed / 86_400", "1000000000.0 / speed / 86400"),
    "in another order": ("want = 1 / 86_400 * 1e9 / speed", "1 / 86400 * 1000000000.0 / speed"),
    "in two lines": ("a_day = 86_400 * speed\n    want = 1e9 / a_day", "1000000000.0 / a_day"),
    "of a checked number": ("r = student.number('r', run.speed)\n    want = 1e9 / (r * 86_400)",
                            "1000000000.0 / (r * 86400)"),
}


@pytest.mark.parametrize("how", GIVEN_AWAY)
def test_a_visible_check_that_computes_the_answer_is_found_however_it_is_written(how: str) -> None:
    code, text = GIVEN_AWAY[how]
    check_cell = f"def visible(student):\n    {code}\n    student.close('days', days, want)"
    assert giveaway.shared(check_cell, "days = 1e9 / measured.speed / 86_400") == [text]


def test_a_formula_of_one_operation_or_of_other_numbers_gives_nothing_away() -> None:
    assert giveaway.shared("x = tokens / seconds", "return peak / bandwidth") == []
    assert giveaway.shared("x = 1e9 / speed / 3_600", "days = 1e9 / speed / 86_400") == []
    assert giveaway.shared("x = 20 * 124_439_808 * 2", "return 20 * 124_439_808 * 2") == []
    assert giveaway.shared("%matplotlib inline", "x = a * b * c") == []
    assert giveaway.shared("b = min(p, i * w)", "return min(peak, intensity * bandwidth)") != []


def test_a_single_quotient_gives_an_answer_away_in_a_check_but_not_in_a_given_cell() -> None:
    ridge, bound = "return peak / bandwidth", 'return "memory" if i < ridge(p, w) else "compute"'
    check_cell = "def visible(student):\n    want = roof.rate / roof.bytes\n    close(got, want)"
    assert giveaway.shared(check_cell, ridge, 1) == ["roof.rate / roof.bytes"]
    assert giveaway.shared(check_cell, ridge) == []
    assert giveaway.shared("close(got, 153.0162, rtol=1e-5)", ridge, 1) == []
    assert giveaway.shared('want = "memory" if x < y else "compute"', bound) != []
    assert giveaway.shared('want = "left" if x < y else "right"', bound) == []


CALLED = {
    "by other names": ("step(*shape, config['batch'], seq)", True),
    "inside a table": ("table.add('peak', predicted=step(*sizes, config['batch'], 1 + 1))", False),
    "with a named argument": ("step(*sizes, config['batch'], context, form='tiled')", False),
    "on stated numbers": ("step(4, 128, 8, 256)", False),
    "of a function of the library": ("measured.step(*sizes, config['batch'], context)", False),
}


@pytest.mark.parametrize("how", CALLED)
def test_a_call_that_is_the_answer_is_found_in_a_cell_that_students_read(how: str) -> None:
    code, gives_away = CALLED[how]
    answer = "predicted = step(*sizes, config['batch'], context)"
    assert giveaway.functions("def step(a):\n    return a\nx = 1") == {"step"}
    assert bool(giveaway.shared_calls(code, answer, {"step"})) == gives_away
    assert giveaway.shared_calls(code, answer, set()) == []


def test_a_check_that_stands_in_the_library_is_read_too() -> None:
    source = giveaway.checks_of_the_library("from ironlaw.lab.roofline_run import consistent")
    assert source.startswith("def consistent(")
    assert "def names_bounds(" not in source
    assert giveaway.checks_of_the_library("from ironlaw.lab import check") == ""


def test_check_names_the_cell_that_gives_an_answer_away_unless_the_test_is_hidden(
    tmp_path: Path,
) -> None:
    careless = LAB.replace("return x + x + 0", "return 3 * x / 7 + 1")
    hidden = careless.replace("### BEGIN HIDDEN TESTS",
                              "### BEGIN HIDDEN TESTS\nwant = 3 * given / 7 + 1")
    visible = careless.replace("### BEGIN HIDDEN TESTS",
                               "want = 3 * given / 7 + 1\n### BEGIN HIDDEN TESTS")
    found = []
    for text in (hidden, visible):
        path = tmp_path / "lab_double.py"
        path.write_text(text, encoding="utf-8")
        lab = lab_source.read(path)
        found.append(check.leaks("lab", json.loads(notebook.text(labs.release(lab))), lab))
    assert found[0] == []
    assert [(f.cell, "'double'" in f.what) for f in found[1]] == [("check-double", True)]


def test_check_names_a_given_cell_that_calls_a_function_as_the_answer_does(tmp_path: Path) -> None:
    path = tmp_path / "lab_double.py"
    path.write_text(f"""{LAB}
# %% nbgrader={{"grade_id": "twice", "solution": true}}
### BEGIN SOLUTION
twice = double(run.size)
### END SOLUTION

# %%
print(double(run.size))
""", encoding="utf-8")
    lab = lab_source.read(path)
    found = check.leaks("lab", json.loads(notebook.text(labs.release(lab))), lab)
    assert [f.what[:24] for f in found] == ["calls 'double(run.size)'"]


def test_selfcheck_labs_hold_every_question_and_no_key() -> None:
    lab = selfcheck_lab.lab(1)
    made = json.loads(notebook.text(labs.release(lab)))
    assert check.leaks("selfcheck", made, lab) == []
    names = [cell["id"] for cell in made["cells"]]
    questions = [name for name in names if name.startswith("question")]
    assert questions == [f"question-1-{i}" for i in range(1, 6)]
    assert not [n for n in names if n.startswith("rubric")]


def test_build_twice_writes_once_and_release_leaves_the_instructor_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "course"
    for folder in ("chapters", "solutions", "autograder"):
        (root / folder).mkdir(parents=True)
    (root / "chapters" / "01_idea.md").write_text(CHAPTER, encoding="utf-8")
    (root / "solutions" / "lab_double.py").write_text(LAB, encoding="utf-8")
    (root / "autograder" / "secret.py").write_text("pass", encoding="utf-8")
    assert main(["build", "--root", str(root)]) == 0
    assert main(["build", "--root", str(root)]) == 0
    assert "0 changed" in capsys.readouterr().out.splitlines()[-1]
    given = tmp_path / "given"
    assert main(["release", str(given), "--root", str(root)]) == 0
    top = {path.name for path in given.iterdir()}
    assert top == {"chapters", "labs"}
    assert main(["release", str(given), "--root", str(root)]) == 2
    (root / "labs" / "lab_double" / "key.txt").write_text("B", encoding="utf-8")
    assert main(["release", str(tmp_path / "more"), "--root", str(root)]) == 1
    assert not (tmp_path / "more").exists()
    assert "key.txt" in capsys.readouterr().out
