"""Markup by which a student could reach whoever opens the notebook, each with a canary.

`FIRE` in a text becomes JavaScript that notes the payload's number in `window.fired`, in the
page and in the page around it; `AWAY` becomes an address on another machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode, v4

ELSEWHERE = "elsewhere.example"


@dataclass(frozen=True)
class Payload:
    """`alone` payloads leave or swallow the page, so they come in no page that others need."""

    text: str
    click: bool = False
    alone: bool = False

    def source(self, number: int) -> str:
        """The Markdown with its canary."""
        fire = f"(top.fired=top.fired||[]).push({number})"
        return self.text.replace("FIRE", fire).replace("AWAY", f"http://{ELSEWHERE}/{number}")


MARKDOWN = (
    Payload("<script>FIRE</script>"),
    Payload("text <img src=x onerror='FIRE'> text"),
    Payload("<img src=x oNeRrOr=&#40;top.fired=top.fired||[]&#41;.push&#40;2&#41;>"),
    Payload("<svg onload='FIRE'></svg>"),
    Payload("<svg><script>FIRE</script></svg>"),
    Payload("<svg><animate onbegin='FIRE' attributeName=x dur=1s></svg>"),
    Payload('<iframe srcdoc="<script>FIRE</script>"></iframe>'),
    Payload("<iframe src='javascript:FIRE'></iframe>"),
    Payload("<details open ontoggle='FIRE'>x</details>"),
    Payload("<input autofocus onfocus='FIRE'>"),
    Payload("<video><source src=x onerror='FIRE'></video>"),
    Payload("<p onmouseover='FIRE' class=click>move here</p>", click=True),
    Payload("<a href='javascript:void(FIRE)' class=click>x</a>", click=True),
    Payload("[x](<javascript:void(FIRE)>)", click=True),
    Payload("[x](<&#106;avascript:void(FIRE)>)", click=True),
    Payload("[x][ref]\n\n[ref]: <javascript:void(FIRE)>", click=True),
    Payload("<javascript:void(FIRE)>"),
    Payload("<object data='javascript:FIRE'></object><embed src='javascript:FIRE'>"),
    Payload("<form><button formaction='javascript:void(FIRE)' class=click>x</button></form>",
            click=True),
    Payload("<style>@import url(AWAY);</style>"),
    Payload("<div style='background:url(AWAY)'>x</div>"),
    Payload("<img src='AWAY'>"),
    Payload("![x](AWAY)"),
    Payload("<img srcset='AWAY 1x'>"),
    Payload("<link rel=stylesheet href='AWAY'>"),
    Payload("<audio src='AWAY' autoplay></audio>"),
    Payload("```mermaid\n<img src=x onerror='FIRE'>\n```"),
    Payload("$$<img src=x onerror='FIRE'>$$ and $\\href{javascript:FIRE}{x}$"),
    Payload("\\begin{a}<img src=x onerror='FIRE'>\\end{a}"),
    Payload("<math><mtext><table><mglyph><style><!--</style>"
            "<img title=\"--&gt;&lt;img src=1 onerror='FIRE'&gt;\">"),
    Payload("<noscript><p title=\"</noscript><img src=x onerror='FIRE'>\">"),
    Payload("[a](x'onmouseover='FIRE') ![b](x\"onerror=\"FIRE)"),
    Payload("&lt;img src=x onerror='FIRE'&gt; `<img src=x onerror='FIRE'>`"),
    Payload("<meta http-equiv=refresh content='0;url=AWAY'>", alone=True),
    Payload("<base href='AWAY/'>", alone=True),
    Payload("<form action='AWAY' id=f></form><script>f.submit()</script>", alone=True),
    Payload("# explain\n\n## statusmessage\n\n<h1 id=explain>x</h1>", alone=True),
    Payload("<div class='navbar navbar-fixed-top tabbable score' style='position:fixed'>x</div>",
            alone=True),
    Payload("</div></div></div></div></div></div><h1 id=escaped>outside</h1>", alone=True),
    Payload("![x](attachment:nothing.png)", alone=True),
    Payload("<textarea>", alone=True),
    Payload("<!-- swallow the rest", alone=True),
    Payload("<plaintext>", alone=True),
)


def cells(alone: bool = True) -> list[NotebookNode]:
    """One Markdown cell for each payload; with `alone`, also those that wreck a page."""
    return [v4.new_markdown_cell(payload.source(number))
            for number, payload in enumerate(MARKDOWN) if alone or not payload.alone]


def outputs() -> list[NotebookNode]:
    """Cells with outputs as only a forged graded notebook could hold them; numbers from 100."""
    def fire(number: int) -> str:
        return f"(top.fired=top.fired||[]).push({number})"

    png = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5Erk"
           "Jggg==")
    data: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"text/html": f"<script>{fire(100)}</script><img src=x onerror='{fire(100)}'>"}, {}),
        ({"application/javascript": fire(101)}, {}),
        ({"image/svg+xml": f"<svg onload='{fire(102)}' xmlns='http://www.w3.org/2000/svg'/>"}, {}),
        ({"text/markdown": f"<img src=x onerror='{fire(103)}'>"}, {}),
        ({"text/html": f"<script>{fire(104)}</script>"}, {"text/html": {"isolated": True}}),
        ({"image/png": png}, {"image/png": {"width": f"1 onload={fire(105)}"}}),
        ({"text/latex": f"$</div><img src=x onerror='{fire(106)}'>$"}, {}),
        ({"text/plain": f"\x1b[31m<img src=x onerror='{fire(107)}'>\x1b[38;2;1;2;3m"}, {}),
        ({"text/vnd.mermaid": f"<img src=x onerror='{fire(108)}'>"}, {}),
        ({"application/vnd.jupyter.widget-view+json":
          {"model_id": f"</script><script>{fire(109)}</script>", "version_major": 2}}, {}),
    ]
    code = v4.new_code_cell("x", outputs=[
        v4.new_output("display_data", shown, metadata=about) for shown, about in data])
    code.outputs.append(v4.new_output("error", ename="<b>", evalue="<b>", traceback=[
        f"<img src=x onerror='{fire(110)}'>"]))
    code.outputs.append(v4.new_output(
        "stream", name="stderr", text=f"<script>{fire(111)}</script>\x1b[0;<img>m"))
    raw = v4.new_raw_cell(f"<script>{fire(112)}</script>")
    picture = v4.new_markdown_cell("![x](attachment:a.svg)")
    picture["attachments"] = {"a.svg": {"text/html": f"<script>{fire(113)}</script>"}}
    return [code, raw, picture]
