"""Whatever lies in a folder or an archive: no file is lost, nobody's work becomes another's."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from handed_in import LAB, LABS, archive, notebook, taken, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from ironlaw.errors import InputError
from ironlaw_autograder import intake
from ironlaw_autograder.intake import roster

CLASS = "id,login,email,lms,name\nada,al,ada@example.org,11,Ada Lovelace\n" \
        "zoe,zb,zoe@example.org,12,Zoë Bärlauch\n"
FOLDERS = ["ada", "Zoë", "group A", "submitted", "submissions", LAB, "al", "__MACOSX", "old",
           "Ada Lovelace_11_assignsubmission_file_", "eve+lab+2026-10-01 10:00:00 UTC"]
STEMS = ["ada", "zoe (1)", LAB, f"{LAB} (2)", "draft", "Untitled", "Ada Lovelace", "ada_lab_01",
         "lovelaceada_11_80_lab", "lovelaceada_11_81_lab", "x_LATE_12_82_lab-1",
         "anon_Ab1_83_lab", "Lab_eve_attempt_2026-10-01-10-00-00_lab"]
NAMES = st.builds(
    lambda folders, stem, kind: "/".join([*folders, stem + kind]),
    st.lists(st.sampled_from(FOLDERS), max_size=3), st.sampled_from(STEMS),
    st.sampled_from([".ipynb", ".ipynb", ".ipynb", ".pdf"]))
CONTENTS = st.sampled_from([notebook("a"), notebook("b"), notebook("c", ("other",)), b"{", b""])
FILES = st.dictionaries(NAMES, CONTENTS, min_size=1, max_size=6)


def unlike(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same, each file another: the same notebook sent twice counts once."""
    return {name: data + b" " * place
            for place, (name, data) in enumerate(files.items())}


@settings(max_examples=100, deadline=None, derandomize=True)
@given(files=FILES, zipped=st.booleans(), listed=st.booleans(), times=st.booleans())
def test_every_notebook_is_graded_or_named(
    files: dict[str, bytes], zipped: bool, listed: bool, times: bool
) -> None:
    files = unlike(files)
    inside = {n for n in files if n.endswith(".ipynb") and "__MACOSX" not in n}
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        (where / "list.csv").write_text(CLASS, encoding="utf-8")
        known = roster.read(where / "list.csv") if listed else None
        path = (archive(where / "class.zip", files) if zipped
                else tree(where / "class", files))
        for place, file in enumerate(sorted(where.rglob("*.ipynb")) if times else []):
            os.utime(file, (1e9 + place, 1e9 + place))
        if not inside:  # nothing but what systems add, and files that could be anything
            with contextlib.suppress(InputError):
                intake.collect(path, LABS, known)
            return
        found = intake.settle(intake.collect(path, LABS, known), LAB, {"q"}, roster=known)
    said = [f"{'/'.join(s.file.parts)} {s.problem} {' '.join(s.notes)}" for s in found]
    # Folders that hold the whole class may be left out of what is said, as many for each file.
    assert any(all(any("/".join(file.split("/")[level:] or "?") in text for text in said)
                   for file in inside) for level in range(4)), (inside, said)
    graded = [s for s in found if s.notebook is not None]
    assert len({s.student for s in graded}) == len(graded)
    assert all(s.student and not s.problem for s in graded)
    assert all(s.problem for s in found if s.notebook is None)
    if known:
        assert {"ada", "zoe"} <= {s.student for s in found}


@settings(max_examples=30, deadline=None, derandomize=True)
@given(files=FILES, seed=st.integers(0, 5))
def test_the_order_of_an_archive_changes_nothing(files: dict[str, bytes], seed: int) -> None:
    files = unlike(files)
    names = list(files)
    turned = names[seed % len(names):] + names[:seed % len(names)]
    outcomes = []
    with tempfile.TemporaryDirectory() as name:
        for place, order in enumerate((names, turned)):
            folder = Path(name) / str(place)
            folder.mkdir()
            path = archive(folder / "class.zip", {n: files[n] for n in order})
            try:
                outcomes.append({who: (s.notebook is None, s.problem, sorted(s.notes))
                                 for who, s in taken(path).items()})
            except InputError as problem:
                outcomes.append({"refused": (True, str(problem.allowed), [])})
    assert outcomes[0] == outcomes[1]
