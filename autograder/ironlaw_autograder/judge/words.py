"""Text from a student's process, before it is stored, shown in a page or printed."""

from __future__ import annotations

import re

# What a terminal obeys: colours and cursor movements, then window titles and links.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[ -/]{0,4}[@-~]"
                      r"|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)")
# Controls but tab and newline, halves of surrogate pairs, and what turns the direction of
# writing: a file, a database, a terminal or a reader stumbles over each.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` as a terminal would leave it, and nothing that acts on whoever shows it."""
    if "\r" in text:  # a progress bar writes over itself
        lines = text.replace("\r\n", "\n").split("\n")
        text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)
    return _HARMFUL.sub("\ufffd", _ESCAPES.sub("", text))
