"""What the tests of every lab share: judge a notebook in isolation, and as one plain kernel."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ironlaw.lab import checking
from ironlaw_autograder.build import lab_source, labs
from ironlaw_autograder.build.lab_source import label
from ironlaw_autograder.course import Course
from ironlaw_autograder.grading.preprocessors import Marking
from ironlaw_autograder.judge.engine import Engine
from ironlaw_autograder.judge.restore import restore
from ironlaw_autograder.mutants import Mutant, load
from ironlaw_autograder.simulate.submissions import Desk
from nbformat import NotebookNode


class Trial:
    """One lab, its synthetic submissions, and both ways to judge them."""

    def __init__(self, course: Course, name: str) -> None:
        self.lab = lab_source.read(course.solutions / f"{name}.py")
        self.desk = Desk(self.lab)
        self.marking = Marking(self.lab)
        self.mutants = load(name)

    def judged(self, engine: Engine, notebook: NotebookNode) -> dict[str, float | None]:
        """Points by graded cell, the student's code in the sandbox."""
        restored = restore(self.marking.template, notebook).notebook
        graded = engine.grade(restored, self.marking.stubs, self.marking.lab.blocked)
        return {score.grade_id: score.points for score in graded.scores}

    def plainly(self, notebook: NotebookNode, patch: pytest.MonkeyPatch,
                template: NotebookNode | None = None) -> dict[str, float]:
        """Points as one kernel without isolation gives them: a check that raises earns nothing.

        `template` is the lab with its hidden tests, unless another is given.
        """
        patch.setenv("NBGRADER_EXECUTION", "autograde")
        names: dict[str, Any] = {"__name__": "__main__"}
        points: dict[str, float] = {}
        for cell in restore(template or self.marking.template, notebook).notebook.cells:
            if cell.cell_type != "code":
                continue
            meta = label(cell)
            code = compile(cell.source, meta["grade_id"], "exec")
            if not meta["grade"]:
                with contextlib.suppress(Exception):
                    exec(code, names)
                continue
            try:
                exec(code, names)  # any error but a failed check is a broken check
            except checking.CheckError:
                points[meta["grade_id"]] = 0.0
            else:
                points[meta["grade_id"]] = float(meta["points"])
        return points

    def expected(self, mutant: Mutant) -> dict[str, float]:
        """Points of a submission with this mistake."""
        return {name: 0.0 if name in mutant.refused else value
                for name, value in self.desk.points().items()}

    def holds(self, engine: Engine, patch: pytest.MonkeyPatch) -> None:
        """The points sum to 20; the reference earns everything, the stub nothing, both ways."""
        assert self.lab.points == 20
        full, written = self.desk.points(), self.desk.written()
        assert self.judged(engine, self.desk.reference()) == {**full, **dict.fromkeys(written)}
        nothing = dict.fromkeys([*full, *written], 0.0)
        assert self.judged(engine, self.desk.untouched()) == nothing
        assert self.plainly(self.desk.reference(), patch) == full
        assert self.plainly(self.desk.untouched(), patch) == dict.fromkeys(full, 0.0)

    def refuses(self, mutant: Mutant, patch: pytest.MonkeyPatch) -> None:
        """A mistake costs the checks that it names and no other."""
        assert self.plainly(self.desk.mutant(mutant), patch) == self.expected(mutant)

    def fewest_refusals(self) -> dict[str, int]:
        """How many mutants each check refuses."""
        return {name: sum(name in m.refused for m in self.mutants) for name in self.desk.points()}

    def caught_by_hidden_tests_alone(self, patch: pytest.MonkeyPatch) -> dict[str, int]:
        """For each check with a hidden test: mutants that its visible part lets pass."""
        open_part = labs.release(self.lab)
        found = {label(cell)["grade_id"]: 0 for cell in self.lab.source.cells
                 if "BEGIN HIDDEN TESTS" in cell.source}
        for mutant in self.mutants:
            points = self.plainly(self.desk.mutant(mutant), patch, open_part)
            for name in found:
                found[name] += name in mutant.refused and points[name] > 0
        return found
