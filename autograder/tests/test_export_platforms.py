"""Files for Canvas and Moodle: what each platform would take from them, by its own rules."""

from __future__ import annotations

from pathlib import Path

import graded_folder as gf
import lms_readers
import pytest
from graded_folder import ADA, BORIS, CHIDI, DUNYA, EMRE, FARAH, Pupil, full
from ironlaw.errors import InputError
from ironlaw_autograder.cli import main
from ironlaw_autograder.exports import canvas, marks, moodle
from ironlaw_autograder.exports.filling import Filled, Wishes
from ironlaw_autograder.exports.marks import Book
from ironlaw_autograder.intake import roster as rosters
from ironlaw_autograder.intake.settle import NOTHING

PUPILS = {
    ADA: full(explain=1.5, lms="7001"),
    BORIS: full(12.0, 4.0, 1.3333, email="Boris@example.org"),
    CHIDI: full(lms="7003"),
    "0042": full(1.0, 0.0, 0.0),
    EMRE: full(12.0, 6.0, 2.0, lms="7005"),
    FARAH: full(3.0, 3.0, 0.0),
    "7008": Pupil(problem=NOTHING, file="", in_gradebook=False),
}
COLUMN = f"{gf.LAB} (202)"
# Odd quoting, a line break in a cell, columns of an instructor's own, another assignment, totals.
CANVAS = f'''Student,ID,SIS User ID,SIS Login ID,Section,"Notes, private","Essay (2025) (101)",\
{COLUMN},Labs Current Score,Final Score (2025),Override Score
,,,,,,,Manual Posting,,,
"    Points Possible",,,,,,10.00,20.00,(read only),(read only),
"001, ""{ADA}""",7001,S-1,ada@example.org,S1,"two
lines",5.00,,1,2,
"Ünï, {BORIS}",7002,S-2,Boris@example.org,"S1, S2",,,11.00,1,2,
"{CHIDI}",7003,S-3,chidi@example.org,S1,,5.00,4.00,1,2,
"{DUNYA}",7004,0042,dunya@example.org,S1,,5.00,,1,2,
"{EMRE}",7005,S-5,emre@example.org,S1,,5.00,EX,1,2,
"=""=1+1""",7006,S-6,nobody@example.org,S1,,5.00,3.00,1,2,
"{FARAH} the second",7007,S-7,farah@example.org,S1,,5.00,,1,2,
"Nobody, Yet",7008,S-8,yet@example.org,S1,,5.00,,1,2,
"Student, Test",7999,,0123456789abcdef,S1,,,,,,
'''
MOODLE_HEAD = ('Identifier,"Full name","Email address",Status,Grade,"Maximum grade",'
               '"Grade can be changed","Last modified (submission)","Last modified (grade)",'
               '"Feedback comments"\r\n')
MOODLE = MOODLE_HEAD + (
    f'"Participant 7001","{ADA}, ""the first""",ada@example.org,"Submitted - ",,20.00,Yes,'
    '"Monday, 2 June 2025, 1:00 PM",-,"said ""well done"",\r\nand more"\r\n'
    f'"Participant 7002",{BORIS},Boris@example.org,,11.00,20.00,Yes,-,-,\r\n'
    f'"Participant 7003",{CHIDI},chidi@example.org,,4.00,20.00,Yes,-,-,\r\n'
    f'"Participant 7005",{EMRE},emre@example.org,,3.00,20.00,No,-,-,locked\r\n'
    '"Participant 7006","=1+1",nobody@example.org,,3.00,20.00,Yes,-,-,\r\n'
    '"Participant 7008",Yet,yet@example.org,,,20.00,Yes,-,-,\r\n')


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("platforms")
    return gf.make(where / "class-graded", gf.empty_gradebook(where), PUPILS)


@pytest.fixture(scope="module")
def book(out: Path) -> Book:
    return marks.read(out)


def write(folder: Path, text: str) -> Path:
    path = folder / "template.csv"
    path.write_bytes(text.encode("utf-8"))
    return path


def test_canvas_takes_the_settled_totals_and_nothing_else(book: Book, tmp_path: Path) -> None:
    text, filled = canvas.fill(book, write(tmp_path, CANVAS), Wishes())
    before, after = lms_readers.canvas_import(CANVAS), lms_readers.canvas_import(text)
    assert after["points"] == {COLUMN: "20.00"}
    assert after["scores"] == {COLUMN: {
        **before["scores"][COLUMN], "7001": "19.5", "7002": "17.33", "7004": "1"}}
    assert set(before["scores"]) > {COLUMN}  # the reader would see more where there is more
    assert filled.filled == 3
    assert filled.changed == [f"Ünï, {BORIS}"]
    assert filled.waiting == [CHIDI]
    assert filled.kept == {EMRE: "excused"}
    assert filled.empty == ['="=1+1"', f"{FARAH} the second", "Nobody, Yet"]
    assert filled.not_in_file == [FARAH]


def test_canvas_keeps_its_own_rows_and_columns_to_the_letter(book: Book, tmp_path: Path) -> None:
    text, _ = canvas.fill(book, write(tmp_path, CANVAS), Wishes())
    before, after = lms_readers.rfc4180(CANVAS), lms_readers.rfc4180(text)
    assert [row[:5] for row in after] == [row[:5] for row in before]
    assert after[0][5:] == [COLUMN]
    assert after[1] == ["", "", "", "", "", "Manual Posting"]
    assert after[2][5] == "20.00"


@pytest.mark.parametrize(("bom", "sign", "newline"), [
    (True, ",", "\n"), (False, ";", "\r\n"), (True, ";", "\n")])
def test_canvas_dialects_come_back_as_they_came(
    book: Book, tmp_path: Path, bom: bool, sign: str, newline: str
) -> None:
    rows = lms_readers.rfc4180(CANVAS)
    text = newline.join(sign.join(f'"{c.replace(chr(34), chr(34) * 2)}"' for c in row)
                        for row in rows) + newline
    if sign == ";":
        text = text.replace('"20.00"', '"20,00"')
    made, filled = canvas.fill(book, write(tmp_path, "\ufeff" * bom + text), Wishes())
    assert made.startswith("\ufeff") is bom
    assert ("\r\n" in made) is (newline == "\r\n")
    taken = lms_readers.canvas_import(made.removeprefix("\ufeff"), sign)
    assert taken["scores"][COLUMN]["7001"] == "19.5"
    assert filled.filled == 3


def test_canvas_with_last_and_first_names(book: Book, tmp_path: Path) -> None:
    text = ("\ufeffLastName,FirstName,ID,SIS Login ID,Section," + COLUMN + "\n"
            "    Points Possible,,,,,20\n" f"First,{ADA},7001,a,S1,\nStudent,Test,9,t,S1,\n")
    made, filled = canvas.fill(book, write(tmp_path, text), Wishes())
    assert lms_readers.canvas_import(made)["scores"] == {COLUMN: {"7001": "19.5", "9": ""}}
    assert (filled.filled, filled.empty) == (1, [])


def test_a_roster_tells_who_is_who(out: Path, tmp_path: Path,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text(f"id,email\n{FARAH},farah@example.org\n", encoding="utf-8")
    assert main(["export", str(out), "--canvas", str(write(tmp_path, CANVAS)), "--to",
                 str(tmp_path / "to"), "--roster", str(roster)]) == 0
    made = (tmp_path / "to" / "canvas.csv").read_text(encoding="utf-8")
    assert lms_readers.canvas_import(made)["scores"][COLUMN]["7007"] == "6"
    assert "4 grades in the column" in capsys.readouterr().out


def test_the_class_list_that_grade_kept_tells_who_is_who(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = gf.make(tmp_path / "class-graded", gf.empty_gradebook(tmp_path),
                  {"dunya4": Pupil(problem=NOTHING, file="", in_gradebook=False)})
    (out / rosters.FILE).write_text("id,email\ndunya4,yet@example.org\n", encoding="utf-8")
    assert main(["export", str(out), "--absent-zero", "--moodle",
                 str(write(tmp_path, MOODLE))]) == 0
    said = capsys.readouterr().out
    assert "handed in nothing, 0 points (1):\n    dunya4" in said
    assert "1 grade in the column" in said
    assert ",yet@example.org,,0,20.00," in (out / "exports" / "moodle.csv").read_text("utf-8")


def test_a_canvas_file_without_this_lab_is_told_with_the_assignments_that_it_has(
    book: Book, tmp_path: Path
) -> None:
    titles = [f"Week {week} ({week})" for week in range(1, 11)]
    text = (f"Student,ID,SIS Login ID,Section,{','.join(titles)}\n"
            "    Points Possible,,,," + ",".join(["20"] * 10) + "\n")
    with pytest.raises(InputError) as told:
        canvas.fill(book, write(tmp_path, text), Wishes())
    assert f"Its assignments are: {'; '.join(titles[:8])}; and 2 more." in str(told.value)


@pytest.mark.parametrize("column", [COLUMN, gf.LAB, "202"])
def test_the_column_can_be_named_in_three_ways(book: Book, tmp_path: Path, column: str) -> None:
    _, filled = canvas.fill(book, write(tmp_path, CANVAS), Wishes(), column=column)
    assert filled.column == COLUMN


@pytest.mark.parametrize("title", ["lab 01: Iron law", "Lab 1", "The Iron Law",
                                   "lab 1 - The iron law"])
def test_the_column_is_found_by_the_labs_name_or_title(
    book: Book, tmp_path: Path, title: str
) -> None:
    titled = marks.Book(book.lab, "Lab 1 · The iron law", book.questions, book.students)
    _, filled = canvas.fill(titled, write(tmp_path, CANVAS.replace(COLUMN, f"{title} (202)")),
                            Wishes())
    assert filled.column == f"{title} (202)"
    assert filled.filled == 3


@pytest.mark.parametrize(("change", "column", "argument", "said"), [
    ((COLUMN, "Other (202)"), None, "canvas", "No column of it has the title lab_01_iron_law"),
    (("Essay (2025) (101)", f"{gf.LAB} (101)"), None, "canvas", "Several columns"),
    (("Essay (2025) (101)", f"{gf.LAB} (101)"), gf.LAB, "column", "Several columns"),
    (("", ""), "lab 1", "column", "Name the column with --column 'TITLE (ID)'"),
    (("", ""), "Labs Current Score", "column", "No column of it could be meant"),
    (("", ""), "2025", "column", "No column of it could be meant"),
    (("Student,ID", "Name,ID"), None, "canvas", "Its first columns are Name, ID"),
    (("Section,", "Class,"), None, "canvas", "Canvas writes Student, ID"),
    (('"    Points Possible"', "Points"), None, "canvas", 'its row "Points Possible"'),
    (("20.00,(read", "(read only),(read"), None, "column", "read only"),
    (("20.00,(read", "100.00,(read"), None, f"Points Possible of {COLUMN}", "--scale"),
    (("20.00,(read", ",(read"), None, f"Points Possible of {COLUMN}", "a number of points"),
    ((f"{COLUMN},Labs", f"{COLUMN},x,Labs"), None, "canvas", "Row 2 has 11 cells")])
def test_a_canvas_file_that_does_not_fit_is_refused_in_words(
    book: Book, tmp_path: Path, change: tuple[str, str], column: str | None, argument: str,
    said: str
) -> None:
    text = CANVAS.replace(*change) if change[0] else CANVAS
    with pytest.raises(InputError) as refused:
        canvas.fill(book, write(tmp_path, text), Wishes(), column=column)
    assert refused.value.argument == argument
    assert said in str(refused.value)


def test_other_points_are_converted_only_on_demand(book: Book, tmp_path: Path) -> None:
    text, _ = canvas.fill(book, write(tmp_path, CANVAS.replace("20.00,(read", "100.00,(read")),
                          Wishes(scale=True))
    taken = lms_readers.canvas_import(text)
    assert taken["points"][COLUMN] == "100.00"
    assert taken["scores"][COLUMN]["7001"] == "97.5"


def test_moodle_takes_the_settled_totals_and_nothing_else(book: Book, tmp_path: Path) -> None:
    text, filled = moodle.fill(book, write(tmp_path, MOODLE), Wishes())
    now = {7002: 11.0, 7003: 4.0, 7005: 3.0, 7006: 3.0}
    assert lms_readers.moodle_import(text.encode(), now) == {7001: 19.5, 7002: 17.33}
    assert filled.waiting == [CHIDI]
    assert filled.kept == {EMRE: "locked in Moodle"}
    assert filled.empty == ["=1+1", "Yet"]
    assert filled.not_in_file == ["0042", FARAH]


def test_moodle_keeps_every_other_cell_to_the_letter(book: Book, tmp_path: Path) -> None:
    text, _ = moodle.fill(book, write(tmp_path, "\ufeff" + MOODLE), Wishes())
    assert text.startswith("\ufeff")
    before, after = lms_readers.rfc4180(MOODLE), lms_readers.rfc4180(text[1:])
    assert [row[:4] + row[5:] for row in after] == [row[:4] + row[5:] for row in before]
    assert "\r\n" in text


def test_moodle_marked_without_names_goes_by_the_number(book: Book, tmp_path: Path) -> None:
    text = ("Identifier,Status,Grade,Maximum Grade,Last modified (grade)\n"
            "Participant 7001,,,20.00,-\nParticipant 7,,,20.00,-\n")
    made, filled = moodle.fill(book, write(tmp_path, text), Wishes())
    assert lms_readers.moodle_import(made.encode(), {}) == {7001: 19.5}
    assert filled.empty == ["Participant 7"]


def test_a_mail_address_counts_to_the_letter(book: Book, tmp_path: Path) -> None:
    text = MOODLE.replace("Boris@", "boris@")
    _, filled = moodle.fill(book, write(tmp_path, text), Wishes())
    assert BORIS in filled.not_in_file
    assert filled.nearly[BORIS] == "boris@example.org"
    made, filled = moodle.fill(book, write(tmp_path, text), Wishes(ignore_case=True))
    assert lms_readers.moodle_import(made.encode(), {})[7002] == 17.33


def test_moodle_gets_no_grade_that_it_would_silently_drop(out: Path, tmp_path: Path) -> None:
    book = marks.read(out)
    ada = next(student for student in book.students if student.id == ADA)
    extra = marks.Student(ADA, {**ada.marks, "explain": marks.Mark(2.5)}, names=("7001",))
    more = marks.Book(book.lab, book.title, book.questions, (extra,))
    text, filled = moodle.fill(more, write(tmp_path, MOODLE), Wishes())
    assert text == moodle.fill(marks.Book(book.lab, book.title, book.questions, ()),
                               tmp_path / "template.csv", Wishes())[0]
    assert "20.5 is above the maximum" in next(iter(filled.kept.values()))


@pytest.mark.parametrize(("change", "argument", "said"), [
    (("Identifier,", "Nummer,"), "moodle", "It lacks the column Identifier"),
    (('"Last modified (grade)"', "Date"), "moodle", "language set to English"),
    (('"Maximum grade"', "Scale"), "moodle", "scale of words"),
    (("Status,Grade,", "Grade,Grade,"), "moodle", "with one column Grade"),
    (("Participant 7003", "Teilnehmer 7003"), "moodle", "Teilnehmer 7003"),
    (("20.00", "100.00"), "Maximum grade of", "--scale"),
    (("Yes,-,-,\r\n", "Yes,-,-\r\n"), "moodle", "Download the file again")])
def test_a_worksheet_that_does_not_fit_is_refused_in_words(
    book: Book, tmp_path: Path, change: tuple[str, str], argument: str, said: str
) -> None:
    with pytest.raises(InputError) as refused:
        moodle.fill(book, write(tmp_path, MOODLE.replace(*change)), Wishes())
    assert refused.value.argument.startswith(argument)
    assert said in str(refused.value)


def test_partial_totals_and_zeros_go_out_on_demand(book: Book, tmp_path: Path) -> None:
    wishes = Wishes(partial=True, absent_zero=True)
    text, filled = moodle.fill(book, write(tmp_path, MOODLE), wishes)
    taken = lms_readers.moodle_import(text.encode(), {7003: 4.0, 7005: 3.0, 7006: 3.0})
    assert (taken[7003], taken[7008]) == (18.0, 0.0)
    assert filled.waiting == []


def test_a_column_without_a_canvas_file_is_a_slip(out: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(out), "--column", "202"]) == 2
    assert "together with --canvas" in capsys.readouterr().err


def test_what_is_filled_is_plain_data() -> None:
    assert Filled(column="x").to_json()["column"] == "x"
