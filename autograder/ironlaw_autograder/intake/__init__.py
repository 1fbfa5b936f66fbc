"""Taking in what students handed in, as a course's platform gives it, without changing it.

`collect` reads a folder, an archive or one file; `settle` says who handed in what, which
attempt counts, and what an instructor should know about it. Nothing aborts: what cannot be
graded is named with its reason, and stops nobody else.
"""

from __future__ import annotations

from .collect import Collection, collect
from .notebooks import MAX_BYTES, labels, read_notebook
from .settle import Submission, settle
from .spelling import student_name
from .taking import Taking

__all__ = ["MAX_BYTES", "Collection", "Submission", "Taking", "collect", "labels",
           "read_notebook", "settle", "student_name"]
