"""What a lab's notebook needs: checks that speak, and measurements that the notebook keeps."""

from .checking import check
from .student import Student

__all__ = ["Student", "check"]
