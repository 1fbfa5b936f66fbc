"""The first page as it is shown: the table, the marks below it, and the panel to keep work."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .marks import mark_read
from .overview import Overview, overview

if TYPE_CHECKING:
    import ipywidgets as w


def show() -> None:
    """Display table and controls; print the table where there is no notebook."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(overview())
        return
    if get_ipython() is None:
        print(overview())
        return
    # A displayed table, and not a widget: only there does JupyterLab follow its links.
    handle = display(overview(), display_id=True)
    try:
        root = StartPage(handle).root
    except ImportError:
        return
    display(root)


class StartPage:
    """Marks and panel; whatever they change is shown in the table at once."""

    def __init__(self, table: Any = None, folder: Path | None = None) -> None:
        import ipywidgets

        from ..selfcheck import page as look
        from .keep import Keep

        self.w = ipywidgets
        self.table = table
        self.folder = folder
        self.now = overview(folder)
        self.marks = {row.number: self.mark(row.number) for row in self.now.rows}
        self.keep = Keep(self.refresh)
        again = ipywidgets.Button(description="Look again", layout={"width": "auto"},
                                  tooltip="Read your progress anew, after work in other notebooks")
        again.on_click(lambda _: self.refresh())
        self.root = ipywidgets.VBox([
            ipywidgets.HTML(look.STYLE + "<p><strong>Mark what you have read</strong></p>"),
            ipywidgets.HBox([*self.marks.values(), again],
                            layout=ipywidgets.Layout(flex_flow="row wrap")),
            self.keep.root])
        self.root.add_class("ironlaw-card")
        self.label()

    def mark(self, chapter: int) -> w.Button:
        """The button of one chapter; its label carries its state, for eyes and ears."""
        made = self.w.Button(layout={"width": "auto"},
                             tooltip=f"Mark chapter {chapter} as read, or take the mark away")
        made.on_click(functools.partial(self.toggle, chapter))
        return made

    def toggle(self, chapter: int, _: Any = None) -> None:
        row = next(row for row in self.now.rows if row.number == chapter)
        self.keep.saved(lambda: mark_read(chapter, not row.read))
        self.refresh()

    def refresh(self) -> Overview:
        """Read everything anew and show it."""
        self.now = overview(self.folder)
        self.label()
        if self.table is not None:
            self.table.update(self.now)
        return self.now

    def label(self) -> None:
        for row in self.now.rows:
            self.marks[row.number].description = (
                f"{'●' if row.read else '○'} Chapter {row.number} read")
