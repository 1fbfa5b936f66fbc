"""Save the learner's state to one file, bring it back, empty it; each can be undone.

Binder and Colab forget their disks. The state is therefore one small file that a learner
can download and give back later, here or on another machine.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import workspace
from ..errors import InputError, IronlawError
from ..selfcheck import page as look
from .marks import chapters_read

if TYPE_CHECKING:
    import ipywidgets as w

FILE = "ironlaw-progress.json"
# What may be emptied, in words; a section keeps its name from the workspace.
PARTS = {"answers": "self-check answers", "read": "read marks", "guesses": "committed guesses",
         "labs": "lab records", "profile": "this device's measured profile"}


class Keep:
    """The panel. `changed` is called after the state was replaced or emptied."""

    def __init__(self, changed: Callable[[], Any]) -> None:
        import ipywidgets

        self.w = ipywidgets
        self.changed = changed
        self.undo_from: Path | None = None
        self.message = ipywidgets.HTML()
        self.path = ipywidgets.Text(
            value=FILE, description="File", continuous_update=False,
            style={"description_width": "initial"},
            layout=ipywidgets.Layout(width="34em", max_width="100%"))
        self.upload = ipywidgets.FileUpload(
            accept=".json", multiple=False, description="Restore from your computer",
            layout=ipywidgets.Layout(width="auto"))
        self.upload.observe(self.on_upload, "value")
        self.undo = self.button("Undo", self.on_undo, "Go back to the state before")
        self.undo.layout.display = "none"
        self.ticks = {name: ipywidgets.Checkbox(value=name != "profile", description=words,
                                                indent=False)
                      for name, words in PARTS.items()}
        self.really = ipywidgets.VBox([
            ipywidgets.HTML("<p><strong>Start afresh with what?</strong> A copy of your present "
                            "state is kept, so this can be undone.</p>"),
            *self.ticks.values(),
            self.row(self.button("Yes, empty these", self.on_reset, "Empty what is ticked"),
                     self.button("No, keep everything", self.on_keep, "Change nothing"))])
        self.really.layout.display = "none"
        self.root = ipywidgets.VBox([
            ipywidgets.HTML("<p><strong>Take your progress with you</strong></p>"
                            "<p>Your answers, guesses and marks, as one file. Labs are notebooks: "
                            "download those as well.</p>"),
            self.path,
            self.row(self.button("Save to this file", self.on_save, "Write the file named above"),
                     self.button("Restore from this file", self.on_restore,
                                 "Read the file named above"),
                     self.upload,
                     self.button("Start afresh ...", self.on_ask, "Choose what to empty"),
                     self.undo),
            self.really, self.message])

    def button(self, label: str, press: Callable[[], None], tip: str) -> w.Button:
        """A button that runs `press`, and says in words what went wrong."""
        made = self.w.Button(description=label, tooltip=tip, layout={"width": "auto"})
        made.on_click(lambda _: self.saved(press))
        return made

    def row(self, *widgets: w.Widget) -> w.HBox:
        return self.w.HBox(list(widgets), layout=self.w.Layout(flex_flow="row wrap"))

    def saved(self, deed: Callable[[], Any]) -> None:
        """Run `deed`; a refused file or a disk that cannot be written costs a sentence."""
        try:
            deed()
        except (IronlawError, OSError) as problem:
            self.say(f"<p>{html.escape(str(problem))}</p>", "wrong")

    def say(self, body: str, kind: str = "right") -> None:
        self.message.value = look.note(body, kind, alert=True)

    def on_save(self) -> None:
        file = self.file()
        if file.exists() and not is_saved_state(file):
            raise InputError("File", str(file), "a new file, or one that was saved here before",
                             "Something else has that name; choose another. Nothing was written.")
        file = workspace.save(file).resolve()
        data = base64.b64encode(file.read_bytes()).decode()
        name = html.escape(str(file))
        self.say(f"<p>Saved: {html.escape(contents(workspace.read()))}, in <code>{name}</code>. "
                 "On Binder or Colab this disk vanishes with the session, so also "
                 f"<a download='{html.escape(file.name)}' "
                 f"href='data:application/json;base64,{data}'>download the file</a>.</p>")

    def on_restore(self) -> None:
        self.restored(workspace.restore(self.file()))

    def on_upload(self, change: Mapping[str, Any]) -> None:
        found = uploaded(change["new"])
        if found is not None:
            name, data = found
            if not isinstance(change["new"], Mapping):
                self.upload.value = ()  # so that the same file can be given twice
            self.saved(lambda: self.restored(workspace.restore_bytes(data, name)))

    def restored(self, backup: Path | None) -> None:
        self.offer_undo(backup)
        self.say(f"<p>Restored: {html.escape(contents(workspace.read()))}.</p>")
        self.changed()

    def on_ask(self) -> None:
        self.really.layout.display = None
        self.say("<p>Nothing is emptied yet: tick what to empty, then say yes or no.</p>", "")

    def on_keep(self) -> None:
        self.really.layout.display = "none"
        self.say("<p>Nothing was changed.</p>")

    def on_reset(self) -> None:
        chosen = [name for name, tick in self.ticks.items() if tick.value]
        if not chosen:
            self.say("<p>Nothing is ticked, so nothing was emptied.</p>", "")
            return
        backup = workspace.reset(*chosen)
        self.really.layout.display = "none"
        self.offer_undo(backup)
        self.say(f"<p>Emptied: {html.escape(', '.join(PARTS[name] for name in chosen))}.</p>")
        self.changed()

    def on_undo(self) -> None:
        if self.undo_from is not None:
            self.offer_undo(workspace.restore(self.undo_from))
            self.say(f"<p>Undone. You have again: {html.escape(contents(workspace.read()))}.</p>")
            self.changed()

    def offer_undo(self, backup: Path | None) -> None:
        self.undo_from = backup
        self.undo.layout.display = "none" if backup is None else None

    def file(self) -> Path:
        return Path(self.path.value.strip() or FILE).expanduser()


def uploaded(value: Any) -> tuple[str, bytes] | None:
    """Name and content of the file in a FileUpload's value, or None when there is none.

    ipywidgets 7 gives `{name: {"content": bytes, ...}}`, ipywidgets 8 a tuple of records
    with `name` and `content` (a memoryview).
    """
    if isinstance(value, Mapping):
        for name, record in value.items():
            return str(name), bytes(record["content"])
        return None
    for record in value:
        return str(record["name"]), bytes(record["content"])
    return None


def is_saved_state(file: Path) -> bool:
    """Whether `file` is one that may be replaced by a newer save."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and "version" in data and "answers" in data


def contents(state: Mapping[str, Any]) -> str:
    """What a state holds, counted in words."""
    read = len(chapters_read(state["read"]))
    said = [(len(state["answers"]), "answer", "answers"),
            (len(state["guesses"]), "committed guess", "committed guesses"),
            (read, "chapter marked as read", "chapters marked as read")]
    return ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in said)
