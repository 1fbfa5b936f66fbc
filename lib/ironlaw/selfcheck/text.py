"""The bank's three marks in HTML, Markdown and plain text.

`code`, *emphasis*, and a single letter with a subscript (R_peak, η_hw). Formulas stay
in Unicode: a formula renderer inside a widget needs a network or a race won.
"""

from __future__ import annotations

import html
import re

_CODE = re.compile(r"(`[^`]+`)")
_EMPHASIS = re.compile(r"\*([^*\s](?:[^*]*[^*\s])?)\*")
_SUBSCRIPT = re.compile(r"(?<![\w])([A-Za-zΑ-ω])_([A-Za-z0-9]+)\b")


def to_html(text: str) -> str:
    """Inline HTML; everything outside the three marks is escaped."""
    parts = []
    for part in _CODE.split(text):
        if part.startswith("`") and part.endswith("`") and len(part) > 2:
            parts.append(f"<code>{html.escape(part[1:-1])}</code>")
            continue
        part = html.escape(part)
        part = _EMPHASIS.sub(r"<em>\1</em>", part)
        parts.append(_SUBSCRIPT.sub(r"\1<sub>\2</sub>", part))
    return "".join(parts)


def to_markdown(text: str) -> str:
    """Markdown that a notebook shows the same way; a gap ____ stays a gap."""
    parts = []
    for part in _CODE.split(text):
        if not (part.startswith("`") and part.endswith("`") and len(part) > 2):
            part = part.replace("<", "&lt;").replace("____", r"\_\_\_\_")
            part = _SUBSCRIPT.sub(r"\1<sub>\2</sub>", part)
        parts.append(part)
    return "".join(parts)


def to_plain(text: str) -> str:
    """The words alone, for a terminal."""
    return _EMPHASIS.sub(r"\1", text).replace("`", "")
