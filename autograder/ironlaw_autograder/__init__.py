"""The instructor's side of the course: sources to notebooks, notebooks to fair grades.

The learner's package never imports this one, and installing the learner's package
installs no hidden test.
"""

__version__ = "0.1.0"
