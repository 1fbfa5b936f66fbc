"""How much a submission may use, and what is said when it uses more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Times in seconds, sizes in bytes, for one notebook.

    A cell or call that overruns is interrupted; after `grace_seconds` more its process is
    killed. `total_seconds` bounds the whole notebook, restarts included.
    """

    cell_seconds: float = 10.0
    call_seconds: float = 5.0
    test_seconds: float = 30.0
    total_seconds: float = 120.0
    grace_seconds: float = 2.0
    start_seconds: float = 30.0
    memory_bytes: int = 3_000_000_000
    disk_bytes: int = 256_000_000
    file_bytes: int = 128_000_000
    processes: int = 128
    output_characters: int = 50_000
    display_count: int = 50

    def resource_limits(self) -> dict[str, int]:
        """What the kernel enforces on the student's process, by `resource` name."""
        return {
            "RLIMIT_DATA": self.memory_bytes,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CPU": int(2 * self.total_seconds) + 10,
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 1_024,
        }
