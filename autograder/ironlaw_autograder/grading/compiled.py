"""Feedback pages made quickly: what nbconvert does anew for each page is done once.

nbgrader makes a new exporter for each page. Its templates are compiled once in a process here,
cells that all students share are coloured once, and the page is not parsed again when it is
finished, which took longer than making it.
"""

from __future__ import annotations

import functools
import re
from types import CodeType
from typing import Any

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from nbconvert.exporters import HTMLExporter, TemplateExporter
from nbconvert.filters import Highlight2HTML
from nbformat import NotebookNode

_WITHOUT_WORDS = re.compile(r"<img(?![^>]*\salt=)")
_SHORT = 10_000  # characters; what a lab hands out is shorter, and fits into memory
_NO_WORDS = '<img alt="No description has been provided for this image"'


class _Kept(BytecodeCache):
    """Compiled templates by name and source, for every exporter in this process."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._code[bucket.key, bucket.checksum] = bucket.code


_kept = _Kept()


def _coloured(source: str, language: str | None = None, metadata: Any = None) -> str:
    """A code cell as HTML; every judged notebook is in Python."""
    return _colours(source) if len(source) < _SHORT else _colours.__wrapped__(source)


@functools.lru_cache(maxsize=300)
def _colours(source: str) -> str:
    return str(Highlight2HTML(pygments_lexer="python")(source))


class QuickHTMLExporter(HTMLExporter):
    """nbconvert's page of a notebook that holds no widgets, which no judged notebook does."""

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None,
                           **options: Any) -> Any:
        """The page and nbconvert's resources; every picture has an alternative text."""
        self.register_filter("highlight_code", _coloured)
        page, found = TemplateExporter.from_notebook_node(
            self, nb, self._init_resources(resources), **options)
        return _WITHOUT_WORDS.sub(_NO_WORDS, page), found

    def _create_environment(self) -> Environment:
        made: Any = super()._create_environment()
        made.bytecode_cache = _kept
        return made
