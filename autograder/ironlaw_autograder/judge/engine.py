"""P0: walks through one restored notebook, cell by cell, and awards the points.

Each question stands alone. A process that dies or hangs is replaced; the earlier cells
run again in the new one, without the guilty cell, and the remaining questions are
graded with what could be re-run.
"""

from __future__ import annotations

import contextlib
import html
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode, from_dict

from ..build.lab_source import is_answer, label
from . import sandbox, slots
from .channel import LostError
from .kernel import Kernel
from .limits import Limits
from .referee_process import Referee
from .words import clean

NO_ANSWER = "No answer yet: the cell above is as it was handed out."
STOPPED = ("What your code gave has a form that this check cannot work with. If you think that the "
           "answer is right, ask for a second look.")


@dataclass
class Score:
    """The outcome of one graded cell; `points` is None when a person must decide.

    `got` is the student's own value that was wrong, as short text, and `timed_out` whether
    points were lost where code ran out of time: for the item analysis.
    """

    grade_id: str
    points: float | None
    maximum: float
    message: str
    notes: list[str] = field(default_factory=list)
    got: str = ""
    timed_out: bool = False


@dataclass
class Graded:
    """An executed notebook with its scores and what happened on the way."""

    notebook: NotebookNode
    scores: list[Score]
    events: list[str]
    seconds: float


class Engine:
    """Grades notebooks one after another; close it when done.

    Without a working sandbox it refuses with reason and fix, unless `isolated` is False:
    then student code runs as the grader, which only a trusted class deserves. `slot` is the
    sandbox's place on this machine (None: a free one is taken, and handed back at the end).
    """

    def __init__(self, limits: Limits | None = None, slot: int | None = None, *,
                 isolated: bool = True) -> None:
        self.limits = limits or Limits()
        self.isolated = isolated
        if isolated:
            sandbox.require()
        self._taken = (slots.Slot(slot or 0) if slot is not None or not isolated
                       else slots.take(sandbox.FIRST_UID))
        self.slot = self._taken.number
        self.referee = Referee(self.limits)

    def grade(self, notebook: NotebookNode, stubs: dict[str, str],
              blocked: tuple[str, ...] = (), owner: str = "",
              sound: Callable[[str], bool] | None = None) -> Graded:
        """Execute `notebook` (restored, with hidden tests) and score its questions.

        `stubs` maps the id of each answer cell to the text that was handed out; `owner` is
        the student whose submission this is, for problems with figures of one's own. `sound`
        tells whether a check works on right answers: one that does, and stops on a student's
        value, scores 0; without it every check that stops waits for a person.
        """
        with contextlib.closing(_Run(self, notebook, stubs, blocked, owner)) as run:
            graded = run.whole()
        for cell, score in run.stopped:
            if sound is not None and sound(score.grade_id):
                graded.events.append(f"question {score.grade_id}: the check works on right "
                                     "answers, so this student's value stopped it: 0 points")
                score.points, score.message = 0.0, STOPPED
                cell.outputs = _shown(score)
        return graded

    def close(self) -> None:
        """End the judge's process and hand the slot back."""
        self.referee.close()
        self._taken.close()


class _Run:
    """The state of grading one notebook."""

    def __init__(self, engine: Engine, notebook: NotebookNode, stubs: dict[str, str],
                 blocked: tuple[str, ...], owner: str) -> None:
        self._engine = engine
        self._owner = owner
        self._limits = engine.limits
        self._notebook = notebook
        self._stubs = stubs
        self._blocked = blocked
        self._kernel: Kernel | None = None
        self._history: list[str] = []
        self._guilty: dict[str, str] = {}
        self._events: list[str] = []
        self._stops: list[str] = []
        self._stopped_late = False  # a cell of the present question ran out of time
        self._asked_late = False  # and so did a call of the present check
        self._slow: set[str] = set()  # those of the guilty that ran out of time
        self._answering = 0.0  # seconds that the student's code took in the present check
        self._written_out = 0  # characters of output so far
        self.stopped: list[tuple[NotebookNode, Score]] = []
        self._start = time.monotonic()

    def whole(self) -> Graded:
        scores: list[Score] = []
        touched = new_question = False
        for cell in self._notebook.cells:
            meta = label(cell)
            if is_answer(cell):
                if new_question:  # a second check on the same answers keeps what was seen
                    touched, new_question, self._stops = False, False, []
                    self._stopped_late = False
                touched |= cell.source.strip() != self._stubs.get(meta["grade_id"], "").strip()
            if meta.get("grade"):
                score = self._score(cell, touched)
                scores.append(score)
                new_question = True
            elif cell.cell_type == "code":
                self._run(cell)
        return Graded(self._notebook, scores, self._events, time.monotonic() - self._start)

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    # Cells of the student

    def _run(self, cell: NotebookNode) -> None:
        cell.outputs = []
        if not cell.source.strip():
            return
        if self._out_of_time():
            cell.outputs = [_error("the notebook's time was used up before this cell")]
            return
        name = str(cell.get("id", "a cell"))
        ended = self._live().run(cell.source, self._cell_seconds())
        outputs = ended.outputs
        errors = [f"{o['ename']}: {_first_line(o['evalue'])}"
                  for o in outputs if o["output_type"] == "error"]
        self._stops += [f"The cell {name} stopped with {error}{self._limits.behind(error)}"
                        for error in errors[:1]]
        self._stopped_late |= ended.timed_out
        if ended.reason:
            self._events.append(f"cell {name}: {ended.reason}")
            outputs.append(_error(ended.reason))
            self._stops.append(f"The cell {name} was stopped: {ended.reason}.")
        if ended.gone:
            self.close()
        else:
            self._history.append(cell.source)
        cell.outputs = [from_dict(output) for output in self._within(outputs)]

    def _within(self, outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What still fits into the notebook, with a word on what does not."""
        kept: list[dict[str, Any]] = []
        for output in outputs:
            self._written_out += len(json.dumps(output))
            if self._written_out > self._limits.notebook_characters:
                return [*kept, {"output_type": "stream", "name": "stderr", "text":
                                "[Output left out: the outputs of this notebook hold more than "
                                f"{self._limits.notebook_characters:,} characters.]\n"}]
            kept.append(output)
        return kept

    def _live(self) -> Kernel:
        """The process with every cell so far, run again after a restart."""
        while self._kernel is None:
            again, self._history = self._history, []
            self._kernel = Kernel(self._blocked, self._limits, self._engine.slot,
                                  self._engine.isolated)
            for place, source in enumerate(again):
                if self._out_of_time():
                    break
                ended = self._kernel.run(source, self._cell_seconds())
                if ended.gone:  # it behaved the first time
                    self._history += again[place + 1:]
                    self.close()
                    break
                self._history.append(source)
        return self._kernel

    # Questions

    def _score(self, cell: NotebookNode, touched: bool) -> Score:
        meta = label(cell)
        name, maximum = meta["grade_id"], float(meta["points"])
        if meta["solution"]:
            return self._written(cell, name, maximum, touched)
        if not touched:
            score = Score(name, 0.0, maximum, NO_ANSWER)
        elif self._out_of_time():
            score = Score(name, 0.0, maximum, "The notebook's time was used up before this "
                          f"question ({self._limits.total_seconds:g} s for all cells).",
                          timed_out=True)
        else:
            self._answering, self._asked_late = 0.0, False
            outcome = self._engine.referee.judge(cell.source, name, self._ask, self._owner)
            score = _scored(name, maximum, outcome)
            if outcome.get("broken") and not outcome.get("ended"):
                self.stopped.append((cell, score))
            if score.points != maximum:
                score.notes += self._stops
                score.timed_out = self._stopped_late or self._asked_late
            if outcome.get("broken"):
                self._events.append(f"question {name}: {outcome['broken'].strip()}")
        cell.outputs = _shown(score)
        return score

    def _written(self, cell: NotebookNode, name: str, maximum: float, touched: bool) -> Score:
        if touched and cell.source.strip():
            return Score(name, None, maximum, "Waits for a person to mark it.")
        return Score(name, 0.0, maximum, NO_ANSWER)

    def _ask(self, question: dict[str, Any],
             blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        name = str(question.get("name"))
        if name in self._guilty:
            self._asked_late |= name in self._slow
            return {"status": "lost", "message": f"{self._guilty[name]} (in an earlier check; it "
                    "was not called again)."}, []
        if self._answering > self._limits.test_seconds:
            self._asked_late = True
            return {"status": "lost", "message": "The calls of this check took more than "
                    f"{self._limits.test_seconds:g} s together."}, []
        start = time.monotonic()
        try:
            kernel = self._live()
            if self._out_of_time():
                self._asked_late = True
                return {"status": "lost", "message": "The notebook's time is used up."}, []
            reply, back = kernel.ask(question, blobs, self._limits.call_seconds)
        except LostError as lost:
            self._events.append(f"question about {name}: {lost.reason}")
            self._blame(name, lost.reason, late=lost.timed_out)
            self.close()
            return {"status": "lost", "message": f"{self._guilty[name]}."}, []
        finally:
            self._answering += time.monotonic() - start
        if reply["status"] == "timeout":
            self._blame(name, str(reply["message"]).rstrip("."), late=True)
        elif reply["status"] == "error":
            reply["message"] += self._limits.behind(reply["message"])
        return reply, back

    def _blame(self, name: str, reason: str, *, late: bool) -> None:
        """Never ask for `name` again: it hung, or ended its process."""
        self._guilty[name] = reason
        if late:
            self._slow.add(name)
            self._asked_late = True

    def _out_of_time(self) -> bool:
        return time.monotonic() - self._start > self._limits.total_seconds

    def _cell_seconds(self) -> float:
        left = self._limits.total_seconds - (time.monotonic() - self._start)
        return max(0.5, min(self._limits.cell_seconds, left))


def _scored(name: str, maximum: float, outcome: dict[str, Any]) -> Score:
    if outcome.get("broken"):
        return Score(name, None, maximum, "This check could not be completed; a person will look "
                     "at the answer.")
    share = float(outcome["share"])
    return Score(name, round(share * maximum, 6), maximum, clean(str(outcome["message"])),
                 [clean(str(note)) for note in outcome.get("notes", [])],
                 clean(str(outcome.get("got", "")))[:100])


def _shown(score: Score) -> list[NotebookNode]:
    """Outputs of a graded cell: words for the student, then the number that nbgrader reads."""
    earned = "to be marked" if score.points is None else f"{score.points:g} of {score.maximum:g}"
    lines = [score.message, *score.notes]
    text = "\n".join([f"Points: {earned}", *lines])
    body = "".join(f"<p>{html.escape(line)}</p>" for line in lines if line)
    page = f"<div><p><strong>Points: {earned}</strong></p>{body}</div>"
    outputs: list[dict[str, Any]] = [{"output_type": "display_data", "metadata": {},
                                      "data": {"text/plain": text, "text/html": page}}]
    if score.points is not None:
        outputs.append({"output_type": "execute_result", "execution_count": None, "metadata": {},
                        "data": {"text/plain": repr(float(score.points))}})
    return [from_dict(output) for output in outputs]


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else "(no message)"


def _error(reason: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": "Stopped", "evalue": reason,
            "traceback": [f"Stopped: {reason}"]}
