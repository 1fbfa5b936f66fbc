"""Measurements that a notebook keeps inside itself.

A measuring cell ends with an empty pair of quotes. Its first run measures and fills the
quotes with JSON; every later run, on any machine, reads that text back instead of
measuring. So one `.ipynb` is a whole submission, and grading it trains nothing.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .. import results
from ..errors import InputError, IronlawError
from ..results import Result

_QUOTES = re.compile(r'r?"""\s*"""')
_DIGITS = 7


class NotMeasuredError(IronlawError):
    """The notebook holds no measurement, and this is no place to make one."""


def recorded_or(text: str, produce: Callable[[], Mapping[str, Result]],
                kinds: Mapping[str, type[Result]]) -> dict[str, Any]:
    """The results named in `kinds`, read from `text`, or produced and put into the cell.

    While a notebook is validated or graded, an empty `text` raises `NotMeasuredError`:
    a training run there would cost minutes and prove nothing about the student's device.
    """
    if text.strip():
        return _read(text, kinds)
    if os.environ.get("NBGRADER_EXECUTION"):
        raise NotMeasuredError("This notebook holds no measurement yet: run this cell once in "
                               "JupyterLab or Colab, see that it fills itself, and save.")
    made = dict(produce())
    _offer(json.dumps({name: _short(result.to_json()) for name, result in made.items()},
                      ensure_ascii=False, separators=(",", ":")))
    return made


def fill(source: str, text: str) -> str | None:
    """`source` with its first empty quotes filled by `text`; None when it has none."""
    if '"""' in text or not _QUOTES.search(source):
        return None
    return _QUOTES.sub(lambda _: f'r"""\n{text}\n"""', source, count=1)


def _read(text: str, kinds: Mapping[str, type[Result]]) -> dict[str, Any]:
    advice = "Empty the quotes and run the cell again to measure anew."
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("recorded text", text.strip(), "the JSON that the cell wrote",
                         advice) from None
    if not isinstance(data, dict) or set(kinds) - set(data):
        raise InputError("recorded text", text.strip(), "a record of " + ", ".join(kinds), advice)
    found = {}
    for name, kind in kinds.items():
        try:
            result = results.load(data[name])
        except (InputError, TypeError, ValueError, KeyError, AttributeError) as problem:
            raise InputError(f"recorded {name}", data[name], "what the cell wrote",
                             f"{advice} ({problem})") from None
        if not isinstance(result, kind):
            raise InputError(f"recorded {name}", result.kind, f"of kind {kind.kind!r}", advice)
        found[name] = result
    return found


def _short(value: Any) -> Any:
    """Seven significant digits are more than any clock here gives."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value


def _offer(text: str) -> None:
    """Put `text` into the running cell, and show it for front ends that cannot."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive else None
    if shell is None:
        return
    raw = shell.history_manager.input_hist_raw if shell.history_manager else []
    filled = fill(raw[-1], text) if raw else None
    if filled is not None:
        shell.set_next_input(filled, replace=True)
    from IPython.display import HTML, display
    display(HTML(
        "<p>Measured. This cell now holds the result: <strong>save the notebook</strong>. "
        "Empty the quotes to measure again.</p><details><summary>If the cell did not change by "
        "itself, paste this text between its quotes</summary>"
        f"<pre style='white-space:pre-wrap'>{html.escape(text)}</pre></details>"))
