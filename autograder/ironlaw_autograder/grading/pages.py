"""Feedback pages that are safe to open, fetch nothing, and call the questions by name."""

from __future__ import annotations

import re
from typing import Any

import bleach
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter

from . import contents

_TAGS = frozenset((
    "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em",
    "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "li", "ol", "p", "pre", "s", "span",
    "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul"))
_ATTRIBUTES = {"a": ["href", "title", "id", "class"], "img": ["src", "alt", "title"],
               "*": ["class", "id"], "td": ["align"], "th": ["align"]}
# Pictures inside the file are fine; a picture elsewhere would tell its owner who reads.
_FETCHED = re.compile(r"<img[^>]*\ssrc=\"(?!data:image/(?:png|jpeg);)[^>]*>", re.IGNORECASE)
_SCRIPT_FROM_ELSEWHERE = re.compile(r"<script\s[^>]*src=\"https?:[^>]*>\s*</script>")


def clean(page: str) -> str:
    """`page` without anything that runs or fetches; its words stay."""
    safe = bleach.clean(page, tags=_TAGS, attributes=_ATTRIBUTES,
                        protocols={"http", "https", "mailto", "data"})
    return _FETCHED.sub("[a picture from elsewhere was left out]", safe)


class FeedbackPage(HTMLExporter):
    """nbgrader's feedback page; Markdown is cleaned, whoever wrote it, and no script is fetched."""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Markdown as cleaned HTML."""
        return clean(super().markdown2html(context, source))

    def from_notebook_node(self, nb: Any, resources: Any = None, **options: Any) -> Any:
        """The page, with named contents and without scripts from other machines."""
        page, found = super().from_notebook_node(nb, resources, **options)
        return contents.named(_SCRIPT_FROM_ELSEWHERE.sub("", page), nb.cells), found
