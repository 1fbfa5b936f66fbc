"""Where things lie: the sources that people write and the files derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ironlaw.errors import InputError
from ironlaw.selfcheck import variants


@dataclass(frozen=True)
class Course:
    """A checkout of the course, found by its root folder.

    `salt` is the word from which a class's own figures are drawn.
    """

    root: Path
    salt: str = variants.SALT

    @property
    def chapters(self) -> Path:
        """Markdown sources, each with its derived notebook beside it."""
        return self.root / "chapters"

    @property
    def solutions(self) -> Path:
        """Sources of the labs, the only place where a lab is written."""
        return self.root / "solutions"

    @property
    def labs(self) -> Path:
        """Student notebooks, derived from `solutions`."""
        return self.root / "labs"

    def chapter_sources(self) -> list[Path]:
        """All chapter sources, in reading order."""
        return sorted(self.chapters.glob("*.md"))

    def lab_sources(self) -> list[Path]:
        """All lab sources, in order."""
        return sorted(self.solutions.glob("*.py"))


def find(start: str | Path | None = None, salt: str | None = None) -> Course:
    """The course around `start` (default: the current folder), or `InputError`.

    `salt` is the class's own word, None for the course's.
    """
    here = Path(start) if start is not None else Path.cwd()
    here = here.resolve()
    for folder in (here, *here.parents):
        if (folder / "chapters").is_dir() and (folder / "solutions").is_dir():
            return Course(folder, salt or variants.SALT)
    raise InputError(
        "root", str(here), "a folder inside the course's checkout",
        "Change to the checkout, or name it with --root: it holds chapters/ and solutions/.",
    )
