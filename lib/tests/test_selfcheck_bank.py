"""The bank loads, says what is wrong with a bad file, and agrees with the library's numbers."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys

import pytest
from ironlaw import cli, selfcheck, units, workspace
from ironlaw.errors import InputError
from ironlaw.hardware import accelerator
from ironlaw.predict.iron_law import levers
from ironlaw.selfcheck import figures, forms, loader, page, record, text, variants
from ironlaw.selfcheck.checks import check
from ironlaw.selfcheck.kinds import Choice, FillIn, Item, Order, TrueFalse, Written

BANK = loader.load()
ITEMS = list(BANK.values())

GOOD = '''
section = 9
[[item]]
id = "9.1"
kind = "choice"
topic = "A topic"
stem = "What is 2 + 2?"
explanation = "Counting on from 2 gives 4."
objective = "Add."
difficulty = 1
minutes = 1
points = 1
key = "B"
[[item.options]]
text = "Three"
betrays = "Counts one too few."
mends = "Start after the 2."
[[item.options]]
text = "Four"
why = "Two and two."
'''


def test_section_one_has_the_five_items_and_their_keys() -> None:
    one = [i for i in ITEMS if i.section == 1]
    assert [(i.id, i.kind) for i in one] == [
        ("1.1", "choice"), ("1.2", "choice"), ("1.3", "written"), ("1.4", "true-false"),
        ("1.5", "order")]
    first, second, _, fourth, fifth = one
    assert isinstance(first, Choice)
    assert isinstance(second, Choice)
    assert isinstance(fourth, TrueFalse)
    assert isinstance(fifth, Order)
    assert (first.key, second.key, fourth.key, fifth.key) == ("A", "C", False, (2, 4, 1, 3, 5))


def test_numbers_in_the_bank_are_the_librarys() -> None:
    assert figures.audit(ITEMS) == []


def test_a_changed_number_or_comparison_is_found() -> None:
    """Every figure of the bank, with each claim bent, one at a time."""
    bent = 0
    for item in ITEMS:
        for figure in item.figures:
            changes: list[dict[str, float]] = [{"printed": figure.printed * 1.2 + 0.5}]
            if figure.greater_than is not None:
                changes.append({"greater_than": 10 * abs(figure.greater_than) + 10})
            if figure.less_than is not None:
                changes.append({"less_than": 0.0})
            for change in changes:
                wrong = dataclasses.replace(figure, **change)  # type: ignore[arg-type]
                assert figures.audit([dataclasses.replace(item, figures=(wrong,))]), figure.name
                bent += 1
    assert bent >= 5


def test_sums_written_out_in_the_bank_add_up() -> None:
    found = 0
    for item in ITEMS:
        for said in item.texts():
            for a, b, total in re.findall(r"([\d.]+) \+ ([\d.]+) = ([\d.]*\d)", said):
                assert float(a) + float(b) == pytest.approx(float(total)), (item.id, said)
                found += 1
    assert found >= 2


def test_the_key_of_1_1_is_what_the_levers_of_chapter_1_say() -> None:
    """With money the peak has more headroom, so the question has to say that there is none."""
    item = BANK["1.1"]
    assert isinstance(item, Choice)
    a100, h100 = (accelerator(name).peak("bf16") for name in ("A100 80GB SXM", "H100 SXM"))

    def strongest(best_peak: float) -> str:
        return levers(1.5e21, a100, 0.38, least_operations=0.9 * 1.5e21,
                      best_peak_flops_per_second=best_peak, best_utilisation=0.50)[0].term

    assert strongest(h100) == "R_peak"
    assert "hardware budget is spent" in item.stem
    assert "R_peak is a lever too" in item.explanation
    assert f"{units.significant(h100 / a100, 2)} times as fast" in item.explanation
    assert strongest(a100) == "eta_hw"
    assert item.option(item.key).text.startswith("η_hw")


def test_a_figure_may_only_call_the_library() -> None:
    figure = dataclasses.replace(ITEMS[0].figures[0], call="os.getpid", arguments={}, over={})
    with pytest.raises(InputError, match=r"ironlaw\.predict"):
        figures.compute(figure)


@pytest.mark.parametrize("item", ITEMS, ids=lambda i: i.id)
def test_no_sentence_is_said_twice(item: Item) -> None:
    said = item.texts()
    assert len(set(said)) == len(said)
    assert all(s[0].isupper() or not s[0].isalpha() or s[0] == "η" for s in said), said


@pytest.mark.parametrize("item", [i for i in ITEMS if isinstance(i, Choice)], ids=lambda i: i.id)
def test_the_right_option_does_not_stand_out_by_length(item: Choice) -> None:
    lengths = {o.letter: len(o.text) for o in item.options}
    others = [n for letter, n in lengths.items() if letter != item.key]
    assert 0.7 <= lengths[item.key] / (sum(others) / len(others)) <= 1.3, lengths


def test_no_rule_of_thumb_finds_the_right_options() -> None:
    """Neither "the longest" nor "always B" may get far without knowing anything."""
    asked = [i for i in ITEMS if isinstance(i, Choice)]
    longest = sum(max(i.options, key=lambda o: len(o.text)).letter == i.key for i in asked)
    assert longest <= len(asked) / 2
    for letter in "ABCD":
        assert sum(i.key == letter for i in asked) <= len(asked) / 2, letter


@pytest.mark.parametrize(("old", "new", "named"), [
    ('key = "B"', 'key = "E"', "key"),
    ('key = "B"', 'key = "BB"', "key"),
    ('key = "B"', 'key = ""', "key"),
    ('why = "Two and two."', "", "why"),
    ('mends = "Start after the 2."', "", "mends"),
    ('topic = "A topic"', 'topik = "A topic"', "topi"),
    ('stem = "What is 2 + 2?"', 'stem = "  "', "stem"),
    ('stem = "What is 2 + 2?"', "stem = 4", "stem"),
    ('stem = "What is 2 + 2?"', "stem = 'What is $2$?'", "LaTeX"),
    ("points = 1", "points = 0", "points"),
    ("points = 1", "points = true", "points"),
    ("difficulty = 1", "difficulty = 4", "difficulty"),
    ("minutes = 1", "minutes = 1.5", "minutes"),
    ('id = "9.1"', 'id = "9.2"', "9.1"),
    ("section = 9", "section = 8", "file's name"),
    ('kind = "choice"', 'kind = "quiz"', "true-false"),
    ('kind = "choice"', 'kind = "written"', "field"),
    ("section = 9", "section = 9\nsection = 9", "TOML"),
    ("points = 1", 'points = 1\nsource = "rumour"', "document, variant"),
    ("points = 1", 'points = 1\n[[item.figures]]\nname = "n"\n', "call"),
], ids=lambda v: str(v)[:24])
def test_a_bad_bank_names_file_item_and_field(old: str, new: str, named: str) -> None:
    assert loader.parse(GOOD, "09.toml")[0].id == "9.1"
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        loader.parse(GOOD.replace(old, new), "09.toml")
    assert "09.toml" in str(caught.value)
    assert named in str(caught.value)


ORDER = GOOD.split("key = ")[0].replace('"choice"', '"order"') + '''
key = [2, 1, 3]
[[item.rows]]
text = "One"
why = "1"
[[item.rows]]
text = "Two"
why = "2"
[[item.rows]]
text = "Three"
why = "3"
[[item.swaps]]
first = 1
then = 2
betrays = "B."
mends = "M."
'''


@pytest.mark.parametrize(("old", "new"), [
    ("key = [2, 1, 3]", "key = [2, 1, 1]"), ("key = [2, 1, 3]", "key = [1, 2, 3]"),
    ("key = [2, 1, 3]", 'key = [2, "1", 3]'), ("first = 1\nthen = 2", "first = 2\nthen = 1"),
    ("first = 1", "first = 7")])
def test_a_bad_order_is_refused(old: str, new: str) -> None:
    assert loader.parse(ORDER, "09.toml")
    with pytest.raises(InputError, match=r"09\.toml item 1"):
        loader.parse(ORDER.replace(old, new), "09.toml")


def test_a_rubric_must_add_up_and_a_gap_must_be_there() -> None:
    head = GOOD.split("key = ")[0]
    written = head.replace('"choice"', '"written"') + (
        'model_answer = "M."\n[[item.rubric]]\npoints = 1\ntext = "a"\nterms = ["a"]\n'
        '[[item.rubric]]\npoints = 1\ntext = "b"\nterms = ["b"]\n')
    with pytest.raises(InputError, match="sum of the rubric"):
        loader.parse(written, "09.toml")
    assert loader.parse(written.replace("points = 1", "points = 2", 1), "09.toml")
    gap = head.replace('"choice"', '"fill-in"') + (
        'accepted = ["four"]\n[[item.wordings]]\nanswers = ["three"]\nbetrays = "B."\n'
        'mends = "M."\n')
    with pytest.raises(InputError, match="____"):
        loader.parse(gap, "09.toml")
    assert loader.parse(gap.replace("2 + 2?", "____?"), "09.toml")


def test_asking_for_a_question_that_is_not_there_says_what_is() -> None:
    assert [i.id for i in selfcheck.items(1)] == ["1.1", "1.2", "1.3", "1.4", "1.5"]
    assert selfcheck.items(1.4)[0].id == "1.4"
    with pytest.raises(InputError, match="ironlaw selfcheck"):
        selfcheck.items("12")
    with pytest.raises(InputError, match="Did you mean"):
        selfcheck.item("1.11")


def test_importing_the_package_is_light() -> None:
    """Neither ipywidgets nor numpy nor the bank comes with `from ironlaw import selfcheck`."""
    code = ("import sys; from ironlaw import selfcheck; "
            "print([m for m in ('ipywidgets', 'numpy', 'matplotlib', 'torch', 'IPython', "
            "'ironlaw.selfcheck.loader') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_text_marks() -> None:
    assert text.to_html("R_peak < *all* `a_b*c*`") == (
        "R<sub>peak</sub> &lt; <em>all</em> <code>a_b*c*</code>")
    assert text.to_html("η_hw × d_head, pin_memory") == (
        "η<sub>hw</sub> × d<sub>head</sub>, pin_memory")
    assert text.to_html("<script>") == "&lt;script&gt;"
    assert text.to_markdown("the ____ point of T_train") == (
        r"the \_\_\_\_ point of T<sub>train</sub>")
    assert text.to_plain("*a* `b`") == "a b"


@pytest.mark.parametrize("item", ITEMS, ids=lambda i: i.id)
def test_prompts_and_static_pages_hold_the_question_and_not_the_key(item: Item) -> None:
    shown = [forms.prompt_markdown(item), page.static(item), page.plain(item)]
    hidden = [item.explanation]
    match item:
        case Choice():
            hidden += [item.option(item.key).why]
            assert all(text.to_markdown(o.text) in shown[0] for o in item.options)
            assert all(text.to_html(o.text) in shown[1] for o in item.options)
        case TrueFalse():
            hidden += [item.reason, item.mistake.mends]
        case Order():
            hidden += [r.why for r in item.rows] + ["-".join(map(str, item.key))]
        case FillIn():
            for word in item.accepted:
                assert not any(re.search(rf"\b{re.escape(word)}\b", s) for s in shown), word
        case Written():
            hidden += [item.model_answer, *(line.text for line in item.rubric)]
    for convert, page_text in zip((text.to_markdown, text.to_html, text.to_plain), shown,
                                  strict=True):
        assert convert(item.stem) in page_text
        assert not [h for h in hidden if convert(h) in page_text]


@pytest.mark.parametrize("item", ITEMS, ids=lambda i: i.id)
def test_a_stub_is_blank_and_its_form_check_runs(
    item: Item, capsys: pytest.CaptureFixture[str]
) -> None:
    made = forms.form(item)
    names: dict[str, object] = {}
    exec(made.stub + made.form_check, names)
    if isinstance(item, Written):
        assert not made.stub
        assert not made.form_check
        return
    assert check(item, names[forms.variable(item)]).state == "blank"
    assert "No answer yet" in capsys.readouterr().out


def test_the_command_prints_the_bank_and_the_learners_state(
    capsys: pytest.CaptureFixture[str]
) -> None:
    item = BANK["1.1"]
    record.keep(item, "B", check(item, "B"))
    assert cli.main(["selfcheck", "--json"]) == 0
    rows = {r["id"]: r for r in json.loads(capsys.readouterr().out)}
    assert list(rows) == [*BANK, *variants.load()]
    assert {"id", "kind", "source", "section", "state"} <= set(rows["1.1"])
    assert (rows["1.1"]["state"], rows["1.2"]["state"]) == ("wrong", "not answered")
    assert {id: r["source"] for id, r in rows.items()} == {
        **dict.fromkeys(BANK, "document"), **dict.fromkeys(variants.load(), "variant")}
    assert rows["V1.1"]["kind"] == "number"
    assert cli.main(["selfcheck", "--section", "1"]) == 0
    shown = capsys.readouterr().out
    assert "1.5" in shown
    assert "V1.6" in shown
    assert "2.1" not in shown
    assert cli.main(["selfcheck", "--section", "99"]) == 2
    assert "section" in capsys.readouterr().err


def test_progress_counts_first_tries_points_and_survives_a_restart() -> None:
    one = BANK["1.1"]
    record.keep(one, "B", check(one, "B"))
    entry = record.keep(one, "A", check(one, "A"))
    assert (entry["tries"], entry["first_right"], entry["state"]) == (2, False, "right")
    written = BANK["1.3"]
    assert isinstance(written, Written)
    record.keep(written, "Because.", check(written, "Because."))
    assert record.state(written) == "to be marked"
    assert record.mark(written, [True, False, True, False]) == 0.5
    order = BANK["1.5"]
    record.keep(order, [2, 1, 4, 3, 5], check(order, [2, 1, 4, 3, 5]))  # nearly: half
    first = record.chapters()[0]
    assert (first.answered, first.right, first.total) == (3, 1, 5)
    assert first.points == one.points + 2 + order.points / 2
    assert "1" in repr(selfcheck.progress())
    assert "<table>" in selfcheck.progress()._repr_html_()
    workspace.reset("answers")
    assert record.chapters()[0].answered == 0
