"""nbgrader's settings for a folder of graded work, so that its own tools work there as they are.

`grade` leaves an `nbgrader_config.py` that calls `configure`. With it, in that folder:

- `jupyter lab`, menu Nbgrader, Formgrader: marking by hand, without a network, and with
  student text sanitised and held by a content security policy;
- `nbgrader generate_feedback LAB`: pages without hidden tests and without scripts;
- `nbgrader autograde LAB`, and the form grader's own button for it: in the sandbox.
"""

from __future__ import annotations

import base64
import hashlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbgrader
from ironlaw.selfcheck import variants
from jinja2 import pass_context
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from sqlalchemy.orm import close_all_sessions
from traitlets.config import Config

from ..build import notebook
from ..build.lab_source import label
from ..intake import late
from . import contents, database, markup

FILE = "nbgrader_config.py"
_HERE = "ironlaw_autograder.grading"
_NBGRADER = str(Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates")
_TEMPLATES = [str(Path(__file__).parent / "templates"), _NBGRADER]
_FIRST_LINE = "# Written by `ironlaw-autograder grade`. Without this line the file stays yours.\n"

# Labels need no check (nbgrader's takes longer than all the writing): `JudgeNotebook` has
# put the lab's own in their place.
AUTOGRADE = [f"{_HERE}.preprocessors.JudgeNotebook", f"{_HERE}.preprocessors.SaveGrades",
             "nbgrader.preprocessors.AssignLatePenalties", f"{_HERE}.safe_copy.SafeCopy"]
FEEDBACK = ["nbgrader.preprocessors.ClearHiddenTests", "nbgrader.preprocessors.ClearMarkScheme",
            f"{_HERE}.pages.Marks", f"{_HERE}.safe_copy.SafePage",
            "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor"]


def write(root: Path, course_root: Path, salt: str = variants.SALT) -> Path:
    """Leave the settings in `root`, unless somebody has made the file there their own."""
    path = root / FILE
    if not path.exists() or path.read_text(encoding="utf-8").startswith(_FIRST_LINE):
        notebook.write_if_changed(path, (
            f"{_FIRST_LINE}from {_HERE} import front\n\n"
            f"c = get_config()\n"
            f"front.configure(c, __file__, {str(course_root)!r}, {salt!r})\n"))
    return path


def configure(config: Config, file: str, course_root: str, salt: str = variants.SALT) -> None:
    """Fill `config` for the folder of `file`, where `grade` has put its gradebook."""
    root = Path(file).resolve().parent
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.course_id = database.COURSE
    config.CourseDirectory.db_url = database.of(root)
    config.CourseDirectory.source_directory = "source"
    config.CourseDirectory.release_directory = "release"
    config.FormgradeExtension.debug = False  # its page would print all settings, unescaped
    config.ClearMarkScheme.enforce_metadata = False
    autograding(config)
    late.configure(config, root)
    config.JudgeNotebook.course_root = course_root
    config.JudgeNotebook.salt = salt
    feedback(config)
    _form(config)


def autograding(config: Config) -> None:
    """Student code runs in the sandbox alone; the graded copy is safe to open."""
    config.Autograde.sanitize_preprocessors = []
    config.Autograde.autograde_preprocessors = list(AUTOGRADE)


def feedback(config: Config) -> None:
    """Pages for students: no hidden test, no rubric, no script, no network."""
    config.ClearMarkScheme.enforce_metadata = False
    config.GenerateFeedback.preprocessors = list(FEEDBACK)
    config.GenerateFeedback.exporter_class = f"{_HERE}.pages.FeedbackPage"
    config.FeedbackPage.template_name = "feedback"
    config.FeedbackPage.extra_template_basedirs = list(_TEMPLATES)
    config.FeedbackPage.preprocessors = []  # the form grader's are not for these pages
    config.FeedbackPage.sanitize_html = True
    config.FeedbackPage.filters = {
        "clean_html": f"{_HERE}.front.clean_for_marking",
        "strip_files_prefix": f"{_HERE}.front.as_it_is",
    }


def _form(config: Config) -> None:
    """The form grader shows notebooks by nbconvert's plain exporter, which takes settings alone."""
    config.HTMLExporter.extra_template_basedirs = list(_TEMPLATES)
    config.HTMLExporter.extra_template_paths = [_NBGRADER]
    config.HTMLExporter.sanitize_html = True
    config.HTMLExporter.preprocessors = [f"{_HERE}.safe_copy.SafePage",
                                         f"{_HERE}.front.FreshMarks"]
    config.HTMLExporter.filters = {
        "markdown2html": f"{_HERE}.front.markdown_for_marking",
        "clean_html": f"{_HERE}.front.clean_for_marking",
        "guarded": f"{_HERE}.front.guarded",
        "strip_files_prefix": f"{_HERE}.front.as_it_is",
    }


class FreshMarks(NbGraderPreprocessor):
    """Has the form grader read its gradebook anew for each notebook that it shows.

    It keeps one database session for as long as JupyterLab runs, which goes on showing a mark
    as it was when first seen, also after `mark` or another marker has changed it.
    """

    def preprocess(self, nb: NotebookNode,
                   resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """The notebook, its first line dated; sessions forget what they hold and open by use."""
        close_all_sessions()
        for cell in nb.cells:
            if cell.get("id") == contents.SUMMARY and not label(cell):
                cell.source = f"*When it was judged:* {cell.source}"
        return nb, resources


@pass_context
def markdown_for_marking(context: Any, source: str) -> str:
    """Markdown for the form grader: only the course's own cells may hold links.

    A student's link could lead to an address of the very server that the marker is signed
    in to.
    """
    ours = label(context.get("cell", {"metadata": {}})).get("locked") is True
    return markup.rendered(source, links=ours)


def clean_for_marking(page: str) -> str:
    """HTML for the form grader, sanitised."""
    return markup.cleaned(str(page), links=False)


def as_it_is(page: str) -> str:
    """In place of nbconvert's `strip_files_prefix`, which mends addresses of long ago.

    It searches with expressions whose time grows with the square or the cube of a text such as
    "[[[[": one notebook could hold up the pages of a whole class for hours.
    """
    return page


def guarded(head: str, navigation: str) -> str:
    """The form grader's `head` with a policy: its own scripts run, no others, and no requests
    leave for another machine. `navigation` is the part of the body that holds scripts too."""
    found = _Scripts()
    found.feed(head + navigation)
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in sorted(found.texts))
    policy = (f"default-src 'none'; script-src 'self' 'unsafe-hashes' {allowed}; "
              "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
              "connect-src 'self'; form-action 'none'; base-uri 'none'")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>'
    return head.replace("<head>", f"<head>\n{meta}", 1)


class _Scripts(HTMLParser):
    """Collects the text of scripts and of event attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: set[str] = set()
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and not any(name == "src" for name, _ in attrs)
        self.texts |= {value or "" for name, value in attrs if name.startswith("on")}

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts.add(data)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
