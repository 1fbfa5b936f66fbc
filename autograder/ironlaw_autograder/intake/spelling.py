"""One spelling for what people and platforms write alike."""

from __future__ import annotations

import re
import unicodedata

# What paths, URLs and gradebooks stumble over, and what acts on whoever reads it: controls of a
# terminal, ends of lines, and signs that turn the direction of writing.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069/\\*?\[\]:<>|\"+]")


def student_name(text: str) -> str:
    """A student's id from a name in a path or a table, fit for paths and gradebooks."""
    text = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no character
    name = _UNSAFE.sub("_", unicodedata.normalize("NFC", text)).strip(" .")
    return name[:100] or "unnamed"


def key(text: str) -> str:
    """What two spellings of one id share: Unicode form, case and spaces do not count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(unicodedata.normalize("NFKC", folded).split())


def name_key(text: str) -> str:
    """What spellings of a person's name share: letters and digits, in any order of the words.

    "Lovelace, Ada", "Ada Lovelace" and "ada_lovelace" are one name.
    """
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(sorted(words))


def shown(text: str, length: int = 120) -> str:
    """A name from outside, fit for one line of a table: printable and not too long."""
    plain = "".join(c if c.isprintable() else "�" for c in text)
    return plain if len(plain) <= length else plain[:length - 1] + "…"
