"""Student markup made harmless: on the page by a sanitiser, and in the stored copy as text.

A marker reads student text in a browser that is signed in to the gradebook, so nothing in
it may run, fetch, follow or reach out of its cell. Two fences, each enough by itself:

- `rendered` and `cleaned`: what a page shows. Markdown is rendered and passed through nh3
  (the ammonia sanitiser), which keeps a short list of elements and none of the attributes
  by which a page is scripted, styled or navigated.
- `as_text`: what the graded copy of a notebook holds. Whatever would become an element, a
  link or a picture is parted by a character that nobody sees, so that it stays text in any
  front end, also in one that was never told to sanitise.
"""

from __future__ import annotations

import html
import re
from typing import Any

import nh3
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.token import STANDARD_TYPES

# Longer Markdown is shown as plain text: the renderer's time grows with the square.
LONGEST_MARKDOWN = 20_000
LONGEST_CODE = 200_000
MOST_SHOWN = 500_000  # characters of Markdown in all outputs of a notebook

# Parts what must not be read together; has no width and allows no line break.
PARTER = "\u2060"

_TAGS = frozenset((
    "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em",
    "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "s",
    "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "u",
    "ul"))
_ATTRIBUTES = {"a": {"href", "title"}, "img": {"src", "alt", "title"}, "ol": {"start"},
               "td": {"align"}, "th": {"align"}}
# The highlighter's own names; any other class could borrow the look of the page around it.
_CODE_CLASSES = frozenset(STANDARD_TYPES.values()) | {"highlight"}
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
_NO_PICTURE = re.compile(r"<img(?![^>]*\ssrc=)[^>]*>")
_LEFT_OUT = "[a picture from elsewhere was left out]"

# In the stored copy: elements that have no content, or only text, and no attributes.
_HARMLESS = re.compile(r"<(?:br|hr) ?/?>|<(b|i|em|strong|sub|sup|code|kbd|u|s)>[^<\n]*</\1>")
_STARTS = (
    (re.compile(r"<(?=[A-Za-z/!?])"), "<" + PARTER),               # elements, comments, autolinks
    (re.compile(r"&(?=#?\w+;)"), "&" + PARTER),                    # characters in disguise
    (re.compile(r"\](?=[(\[:])"), "]" + PARTER),                   # links, pictures, references
    (re.compile(r":(?=//)"), ":" + PARTER),                        # bare addresses
    (re.compile(r"(?<=[Ww]{3})\.|(?<=[Mm][Aa][Ii][Ll][Tt][Oo]):"), PARTER + r"\g<0>"),
    (re.compile(r"^([ >\t]*(?:`{3,}|~{3,})[ \t]*)(?=[Mm]ermaid)", re.MULTILINE), r"\1" + PARTER),
)


def cleaned(page: str, links: bool = True) -> str:
    """HTML without anything that runs, fetches or poses as part of the page; its words stay.

    `links=False` also takes the address from links, so that a click leads nowhere.
    """

    def attribute(tag: str, name: str, value: str) -> str | None:
        if name == "class":
            kept = [word for word in value.split() if word in _CODE_CLASSES]
            return " ".join(kept) or None
        if name == "href" and not links:
            return None
        if name == "src" and not _PICTURE.fullmatch(value.strip()):
            return None
        return value

    # nh3 asks `attribute` about whatever `attributes` lets through, classes included.
    allowed = {**_ATTRIBUTES, **{tag: {"class"} for tag in ("div", "span", "code", "pre")}}
    safe = nh3.clean(page, tags=set(_TAGS), attributes=allowed, attribute_filter=attribute,
                     url_schemes={"http", "https", "mailto", "data"},
                     link_rel="noopener noreferrer nofollow")
    return _NO_PICTURE.sub(_LEFT_OUT, safe)


def rendered(source: str, links: bool = True) -> str:
    """Markdown as cleaned HTML; text that cannot be rendered is shown as it was written."""
    if len(source) > LONGEST_MARKDOWN:
        return f"<pre>{html.escape(shortened(source, LONGEST_MARKDOWN))}</pre>"
    try:
        page = MarkdownWithMath(renderer=_Renderer(escape=False)).render(source)
    except Exception:  # a hostile text must not take the page of a whole submission with it
        return f"<pre>{html.escape(source)}</pre>"
    return cleaned(page, links)


def as_text(source: str) -> str:
    """Markdown in which no element, link or picture is left; it reads as it did.

    A few elements that can do nothing stay: line breaks, and short ones such as `<sub>2</sub>`.
    """
    parts, place = [], 0
    short = shortened(source, LONGEST_MARKDOWN)
    for found in _HARMLESS.finditer(short):
        parts += [_parted(short[place:found.start()]), _within(found)]
        place = found.end()
    return "".join([*parts, _parted(short[place:])])


def as_written(text: str) -> str:
    """What `as_text` parted, put together again."""
    return text.replace(PARTER, "")


def shortened(text: str, length: int) -> str:
    """`text`, cut off after `length` characters with a note on how many are missing."""
    if len(text) <= length:
        return text
    return (f"{text[:length]}\n\n[{len(text) - length} more characters; the whole text is in "
            "the file that was handed in]")


def _within(found: re.Match[str]) -> str:
    """A harmless element; its content is text like any other."""
    whole, name = found.group(0), found.group(1)
    if name is None:
        return whole
    return f"<{name}>{_parted(whole[len(name) + 2:-len(name) - 3])}</{name}>"


def _parted(text: str) -> str:
    for start, apart in _STARTS:
        text = start.sub(apart, text)
    return text


class _Renderer(IPythonRenderer):
    """nbconvert's Markdown; without anchors, diagrams by script, and pictures from elsewhere."""

    def __init__(self, **options: Any) -> None:
        super().__init__(exclude_anchor_links=True, **options)

    def block_mermaidjs(self, code: str) -> str:
        return str(self.block_code(code))

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if not _PICTURE.fullmatch(url):
            return html.escape(f"{_LEFT_OUT} {text}".strip())
        return str(super().image(text, url, title))
