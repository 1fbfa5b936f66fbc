"""How much a submission may use, and what is said when it uses more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Times in seconds, sizes in bytes, for one notebook.

    A cell or call that overruns is interrupted; after `grace_seconds` more its process is
    killed. `test_seconds` bounds a check's own work, and apart from it all calls that it makes.
    `total_seconds` bounds the whole notebook, restarts included. `memory_bytes` bounds each
    process, and the sum of all with the files in their private folders; `disk_bytes` each of
    those folders. `busy` is how many threads may be at work at once, on a machine with fewer
    processor cores. Output is counted by cell and by notebook.
    """

    cell_seconds: float = 10.0
    call_seconds: float = 5.0
    test_seconds: float = 30.0
    total_seconds: float = 120.0
    grace_seconds: float = 2.0
    start_seconds: float = 30.0
    processor_seconds: float = 150.0
    memory_bytes: int = 3_000_000_000
    disk_bytes: int = 256_000_000
    file_bytes: int = 128_000_000
    files: int = 20_000
    processes: int = 128
    open_files: int = 512
    busy: int = 8
    output_characters: int = 50_000
    display_count: int = 50
    notebook_characters: int = 5_000_000

    def resource_limits(self) -> dict[str, int]:
        """What the kernel enforces on the student's process, by `resource` name."""
        return {
            "RLIMIT_DATA": self.memory_bytes,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CPU": int(self.processor_seconds) + 10,
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": self.open_files,
        }

    def behind(self, error: str) -> str:
        """The limit that the text of an error points to, in brackets; '' where it is none."""
        signs = {
            "MemoryError": f"{self.memory_bytes / 1e9:g} GB of memory",
            "No space left on device": f"{self.disk_bytes / 1e6:g} MB in each folder",
            "File too large": f"{self.file_bytes / 1e6:g} MB in a file",
            "Too many open files": f"{self.open_files} open files",
            "Resource temporarily unavailable": f"{self.processes} processes and threads",
            "can't start new thread": f"{self.processes} processes and threads",
        }
        return next((f" (the limit is {limit})" for sign, limit in signs.items() if sign in error),
                    "")
