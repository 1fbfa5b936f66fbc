"""The read-out of progress: a small table in a notebook, aligned text in a terminal."""

from __future__ import annotations

from . import record


class ProgressTable:
    """A snapshot of progress, one row per chapter that has questions."""

    def __init__(self) -> None:
        self.rows = record.chapters()

    def __repr__(self) -> str:
        lines = [f"{'Chapter':>7}  {'answered':>8}  {'right':>5}  {'questions':>9}  {'points':>9}"]
        lines += [
            f"{r.section:>7}  {r.answered:>8}  {r.right:>5}  {r.total:>9}  "
            f"{f'{r.points:g} / {r.out_of}':>9}" for r in self.rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th scope='row' style='text-align:left'>Chapter {r.section}</th>"
            f"<td>{r.answered}</td><td>{r.right}</td><td>{r.total}</td>"
            f"<td>{r.points:g} of {r.out_of}</td></tr>" for r in self.rows)
        return ("<table><caption>Self-check progress</caption><thead><tr><th scope='col'></th>"
                "<th scope='col'>answered</th><th scope='col'>right</th>"
                "<th scope='col'>questions</th><th scope='col'>points</th></tr></thead>"
                f"<tbody>{body}</tbody></table>")
