"""Right answers to the problems whose figures differ from student to student.

Only the instructor's side has them: for each template an answer that `ironlaw.predict`
computes, and the plausible wrong ones, each with the slip that leads to it.
"""

from __future__ import annotations

from .answer import Answer, Slip
from .registry import ANSWERS, right
from .verdict import judge

__all__ = ["ANSWERS", "Answer", "Slip", "judge", "right"]
