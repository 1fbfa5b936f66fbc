"""Archives: the ordinary ones are read, the malicious ones are named, and nothing is unpacked."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zipfile
from pathlib import Path

import pytest
from handed_in import archive, notebook, readable, taken, tree
from ironlaw.errors import InputError
from ironlaw_autograder import intake
from ironlaw_autograder.intake import archives


@pytest.fixture(autouse=True)
def nothing_is_unpacked(tmp_path_factory: pytest.TempPathFactory,
                        monkeypatch: pytest.MonkeyPatch) -> None:
    """No way that the standard library has to write a member is ever taken."""

    def refused(*ignored: object, **ignored_too: object) -> None:
        raise AssertionError("a member was unpacked onto the disk")

    for way in ("extract", "extractall", "_extract_member"):
        monkeypatch.setattr(zipfile.ZipFile, way, refused)


def special(name: str, mode: int, data: bytes = b"/etc/passwd") -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name, (2026, 9, 1, 12, 0, 0))
    info.create_system = 3
    info.external_attr = mode << 16
    return info, data


def packed(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in entries.items():
            made.writestr(name, data)
    return stream.getvalue()


@pytest.mark.parametrize("name", [
    "../../eve/lab.ipynb", "/eve/lab.ipynb", "eve/../../../lab.ipynb", "..\\eve\\lab.ipynb",
    "C:\\eve\\lab.ipynb", "C:/eve/lab.ipynb", "//server/eve/lab.ipynb",
])
def test_a_name_that_leads_out_is_refused_and_named(tmp_path: Path, name: str) -> None:
    found = taken(archive(tmp_path / "class.zip", {"ada.ipynb": notebook(), name: notebook("e")}))
    assert readable(found) == {"ada"}
    (refused,) = [s for s in found.values() if s.student != "ada"]
    assert "leads out of the archive" in refused.problem
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["class.zip"]


@pytest.mark.parametrize(("mode", "said"), [
    (stat.S_IFLNK | 0o777, "links are refused"), (stat.S_IFIFO | 0o666, "no ordinary file"),
    (stat.S_IFCHR | 0o666, "no ordinary file"), (stat.S_IFBLK | 0o666, "no ordinary file"),
    (stat.S_IFSOCK | 0o666, "no ordinary file"),
])
def test_links_and_devices_are_refused(tmp_path: Path, mode: int, said: str) -> None:
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as made:
        made.writestr(*special("eve.ipynb", mode))
        made.writestr("ada.ipynb", notebook())
    found = taken(tmp_path / "class.zip")
    assert readable(found) == {"ada"}
    assert said in found["eve"].problem


def test_a_bomb_is_named_by_its_ratio_and_costs_no_memory(tmp_path: Path) -> None:
    bomb = packed({"eve.ipynb": b"0" * 20_000_000})
    found = taken(archive(tmp_path / "class.zip", {"ada.ipynb": notebook(), "eve/bomb.zip": bomb}))
    assert readable(found) == {"ada"}
    assert "swell from" in found["eve"].problem


def test_a_header_that_lies_about_the_size_gets_no_more_than_it_says(tmp_path: Path) -> None:
    data = bytearray(packed({"eve.ipynb": b"0" * 1_000_000}))
    central = data.find(b"PK\x01\x02")
    data[central + 24:central + 28] = struct.pack("<I", 10)
    data[22:26] = struct.pack("<I", 10)
    (tmp_path / "class.zip").write_bytes(bytes(data))
    assert "cannot be read" in taken(tmp_path / "class.zip")["eve"].problem


def test_too_much_in_all_too_large_and_too_many_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = len(notebook())
    monkeypatch.setattr(archives, "INNER", archives.Limits(3, 2 * one, 0))
    many = packed({f"n{place}.txt": b"" for place in range(4)})
    much = packed({f"{place}.ipynb": notebook(str(place)) for place in range(3)})
    monkeypatch.setattr(archives, "MAX_BYTES", 2_000_000)
    large = packed({"x.ipynb": os.urandom(2_000_002)})
    found = taken(archive(tmp_path / "class.zip", {
        "many.zip": many, "much.zip": much, "large.zip": large, "ada.ipynb": notebook()}))
    assert "4 entries; at most 3" in found["many"].problem
    assert "more than may be decompressed in all" in " ".join(
        [*found["much"].notes, found["much"].problem])
    assert "larger than 2 MB" in found["large"].problem
    assert readable(found) >= {"ada"}


@pytest.mark.parametrize("name", [
    "-" * 60_000 + ".ipynb", "_1" * 30_000 + ".ipynb", "lab" * 20_000, "a/" * 5_000 + "x.ipynb",
    "final-" * 10_000 + ".ipynb", "x_attempt_" * 6_000 + ".ipynb", "(1)" * 20_000 + ".ipynb"])
def test_an_endless_name_is_named_and_costs_no_time(tmp_path: Path, name: str) -> None:
    found = taken(archive(tmp_path / "class.zip", {"ada.ipynb": notebook(), name: notebook("e")}))
    assert readable(found) == {"ada"}
    assert any("than any disk's" in s.problem for s in found.values())


def test_a_locked_entry_is_named(tmp_path: Path) -> None:
    data = bytearray(packed({"eve.ipynb": notebook(), "ada.ipynb": notebook()}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.find(mark) + place] |= 1
    (tmp_path / "class.zip").write_bytes(bytes(data))
    found = taken(tmp_path / "class.zip")
    assert found["eve"].problem == "it is locked with a password"
    assert readable(found) == {"ada"}


def test_names_in_three_encodings(tmp_path: Path) -> None:
    wide = packed({"Zoë Å.ipynb": notebook("a")})
    with zipfile.ZipFile(tmp_path / "mac.zip", "w") as made:
        made.writestr("Zo__.ipynb", notebook("b"))
    # As macOS packs: UTF-8 in the name, and no flag that says so.
    mac = (tmp_path / "mac.zip").read_bytes().replace(b"Zo__", "Zoë".encode())
    dos = mac.replace("Zoë".encode(), b"Zo\x89_")
    for name, data in (("wide", wide), ("mac", mac), ("dos", dos)):
        (tmp_path / f"{name}.zip").write_bytes(data)
    assert readable(taken(tmp_path / "wide.zip")) == {"Zoë Å"}
    assert readable(taken(tmp_path / "mac.zip")) == {"Zoë"}
    assert readable(taken(tmp_path / "dos.zip")) == {"Zoë_"}


def test_a_name_that_claims_to_be_utf_8_and_is_not(tmp_path: Path) -> None:
    bad = packed({"Zoë.ipynb": notebook()}).replace("ë".encode(), b"\xff\xfe")
    (tmp_path / "class.zip").write_bytes(bad)
    with pytest.raises(InputError, match=r"no UTF-8.*Unpack it yourself"):
        intake.collect(tmp_path / "class.zip")
    found = taken(tree(tmp_path / "class", {"eve.zip": bad, "ada.ipynb": notebook()}))
    assert readable(found) == {"ada"}
    assert "no UTF-8" in found["eve"].problem


def test_a_zero_byte_in_a_name_and_an_unknown_method(tmp_path: Path) -> None:
    zero = packed({"eve_.ipynb": notebook()}).replace(b"eve_", b"eve\x00")
    data = bytearray(packed({"bea.ipynb": notebook()}))
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.find(mark) + place] = 97
    found = taken(tree(tmp_path, {"zero/z.zip": zero, "method/m.zip": bytes(data)}))
    assert readable(found) == set()
    assert "not supported" in found["method"].problem
    assert found["zero"].problem


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_two_attempts_or_a_question(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "dated.zip", "w") as made:
        for day, text in ((2, "new"), (1, "old")):
            made.writestr(zipfile.ZipInfo("ada.ipynb", (2026, 9, day, 12, 0, 0)), notebook(text))
    with zipfile.ZipFile(tmp_path / "equal.zip", "w") as made:
        for text in ("new", "old"):
            made.writestr(zipfile.ZipInfo("ada.ipynb", (2026, 9, 1, 12, 0, 0)), notebook(text))
    dated = taken(tmp_path / "dated.zip")["ada"]
    assert dated.notebook is not None
    assert "new" in dated.notebook.cells[0].source
    assert "nothing says which one counts" in taken(tmp_path / "equal.zip")["ada"].problem


def test_one_level_of_archives_within_and_no_more(tmp_path: Path) -> None:
    deep = packed({"deeper.zip": packed({"x.ipynb": notebook()})})
    found = taken(archive(tmp_path / "class.zip", {
        "ada.zip": packed({"lab/work.ipynb": notebook()}), "eve.zip": deep,
        "broken.zip": b"PK\x03\x04 and no more", "empty.zip": packed({})}))
    assert readable(found) == {"ada"}
    assert "no further one" in found["eve"].problem
    assert "cannot be opened" in found["broken"].problem
    assert found["empty"].problem == "the folder holds no notebook"


@pytest.mark.parametrize("data", [b"", b"PK", b"no archive at all", packed({})[:10]])
def test_an_archive_that_cannot_be_opened_is_an_input_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "class.zip").write_bytes(data)
    with pytest.raises(InputError, match="an archive that can be opened"):
        intake.collect(tmp_path / "class.zip")


def test_a_folder_without_a_notebook_is_named_though_archives_need_not_list_folders(
    tmp_path: Path
) -> None:
    found = taken(archive(tmp_path / "class.zip", {
        "ada/report.pdf": b"", "bea/lab.ipynb": notebook(), "notes.txt": b""}))
    assert {who: s.problem for who, s in found.items()} == {
        "ada": "no notebook was handed in, but report.pdf", "bea": ""}


def test_what_systems_add_to_archives_is_no_submission(tmp_path: Path) -> None:
    found = taken(archive(tmp_path / "class.zip", {
        "class/ada.ipynb": notebook(), "__MACOSX/class/._ada.ipynb": b"\0\5",
        "class/.DS_Store": b"\0", "class/.ipynb_checkpoints/ada-checkpoint.ipynb": notebook("o")}))
    assert set(found) == {"ada"}


def test_every_cut_of_an_archive_ends_in_words(tmp_path: Path) -> None:
    whole = packed({"ada.ipynb": notebook(), "bea/lab.ipynb": notebook("b")})
    for end in range(0, len(whole), 7):
        (tmp_path / "class.zip").write_bytes(whole[:end])
        with pytest.raises(InputError):
            intake.collect(tmp_path / "class.zip")
    for place in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[place] ^= 0xFF
        (tmp_path / "class.zip").write_bytes(bytes(flipped))
        with contextlib.suppress(InputError):  # and nothing else comes out
            intake.collect(tmp_path / "class.zip")
