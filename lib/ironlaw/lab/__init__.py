"""What a lab's notebook needs: checks that speak, and measurements that the notebook keeps."""

from .checking import check
from .student import Student
from .table import Residuals
from .training_run import TrainingRun, measure_training

__all__ = ["Residuals", "Student", "TrainingRun", "check", "measure_training"]
