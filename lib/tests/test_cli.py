"""`ironlaw --help`, and the sentences in which inputs are refused."""

from __future__ import annotations

import argparse
import errno
import math
import os
from pathlib import Path

import pytest
from ironlaw import cli, commands
from ironlaw.errors import InputError, count, number
from ironlaw.selfcheck import loader

Capture = pytest.CaptureFixture[str]


def test_help_lists_every_command_once_in_groups(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    files = {p.stem for p in Path(commands.__file__).parent.glob("[a-z]*.py")}
    listed = [name for group in cli.COMMANDS.values() for name in group]
    assert sorted(listed) == sorted(files)
    for title, group in cli.COMMANDS.items():
        assert f"{title}:" in shown
        for name, summary in group.items():
            assert shown.count(f"\n  {name} ") == 1
            assert summary in shown
    assert "ironlaw COMMAND --help" in shown
    assert "The `ironlaw` command" not in shown


def test_without_a_command_the_help_comes_and_the_status_is_2(capsys: Capture) -> None:
    assert cli.main([]) == 2
    assert "on this device:" in capsys.readouterr().err


def test_a_commands_own_help_begins_with_what_it_does(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        cli.main(["compare", "--help"])
    shown = capsys.readouterr().out
    assert "A step of GPT-2: predicted, measured, and the difference." in shown
    assert "the same in every command" in " ".join(shown.split())


@pytest.mark.parametrize("value", [0, 2.5, math.nan, "3", None, True])
def test_a_count_is_always_called_a_whole_number(value: object) -> None:
    with pytest.raises(InputError) as caught:
        count("batch", value, low=1)
    assert caught.value.allowed == "a whole number of at least 1"
    assert str(caught.value).endswith("Change batch and try again.")


def test_bounds_and_units_are_in_the_sentence() -> None:
    with pytest.raises(InputError, match="must be a finite number of at least 1 and at most 2 s"):
        number("wait", 3, low=1, high=2, unit="s")
    with pytest.raises(InputError, match="a whole number of at least 1 and at most 20"):
        count("minutes", 21, high=20)


def test_a_missing_field_of_a_question_is_asked_for_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        loader._take({}, "explanation", str, "01.toml item 1")
    assert str(caught.value) == ("01.toml item 1: explanation = None, but it must be a text in "
                                 "quotes. Add explanation there.")
    with pytest.raises(InputError, match="field = 'stme', but it must be one of id, stem"):
        loader._only({"stme": 1}, {"stem", "id"}, "01.toml item 1")


def test_resuming_without_a_run_says_so_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--resume", "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'runs'} holds none" in said
    assert "must be" not in said


@pytest.mark.parametrize(("number", "said"), [
    (errno.ENOSPC, "x.csv: No space left on device. Free some space and run the same command"),
    (errno.EROFS, "x.csv: Read-only file system. Choose a place that you may read and write."),
    (errno.ENOTDIR, "x.csv: Not a directory. A file stands where a folder should: choose another"),
])
def test_what_a_disk_refuses_is_said_in_words(number: int, said: str, capsys: Capture) -> None:
    def run(args: argparse.Namespace) -> int:
        raise OSError(number, os.strerror(number), "x.csv")

    assert cli.finish("ironlaw", argparse.Namespace(command="train", run=run)) == 2
    assert f"ironlaw train: {said}" in capsys.readouterr().err


def test_any_other_error_of_the_system_keeps_its_traceback() -> None:
    def run(args: argparse.Namespace) -> int:
        raise OSError(errno.EBADF, "x")

    with pytest.raises(OSError, match="x"):
        cli.finish("ironlaw", argparse.Namespace(command="train", run=run))
