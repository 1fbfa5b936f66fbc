"""What a lab's notebook needs: checks that speak, and measurements that the notebook keeps."""

from .checking import check
from .memory_run import MemoryRun, measure_memory
from .roofline_run import RooflineRun, measure_kernels
from .student import Student
from .table import Residuals
from .training_run import TrainingRun, measure_training

__all__ = ["MemoryRun", "Residuals", "RooflineRun", "Student", "TrainingRun", "check",
           "measure_kernels", "measure_memory", "measure_training"]
