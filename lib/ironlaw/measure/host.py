"""What the operating system says about this machine. No torch here.

A container is often given less than the machine has: where a limit is set, the limit
is what counts. A fact that the system does not tell is None, never a guess.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

_UNDISTURBED = 0.8  # share of CPU time below which another program must be running
_CGROUP = Path("/sys/fs/cgroup")
_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def cpu_name(cpuinfo: Path = _CPUINFO) -> str:
    """The processor's name as the system prints it."""
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            label, _, value = line.partition(":")
            if label.strip() in ("model name", "Model") and value.strip():
                return value.strip()
    if platform.system() == "Darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine() or "CPU of unknown name"


def memory_bytes(cgroup: Path = _CGROUP) -> float | None:
    """Main memory that a process here may use: the machine's, or the container's limit."""
    try:
        physical = float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    limits = [_integer(cgroup / "memory.max"),  # cgroup v2
              _integer(cgroup / "memory" / "memory.limit_in_bytes")]  # v1
    return min([physical, *(float(limit) for limit in limits if limit)])


def available_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> float | None:
    """Main memory that a program can still take here without swapping, or None if unknown.

    Linux's own estimate (files kept in memory can be given up), or what is left below a
    container's limit when that is less. Other systems do not tell in a file.
    """
    told = re.search(r"^MemAvailable:\s+(\d+) kB", _read(meminfo) or "", re.MULTILINE)
    if told is None:
        return None
    left = [1024.0 * int(told[1])]
    for limit, used, folder, prefix in (
            ("memory.max", "memory.current", cgroup, ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", cgroup / "memory", "total_")):
        most, taken = _integer(folder / limit), _integer(folder / used)
        if most is not None and taken is not None:
            files = re.findall(rf"^{prefix}(?:in)?active_file (\d+)$",
                               _read(folder / "memory.stat") or "", re.MULTILINE)
            left.append(max(0.0, float(most - taken + sum(map(int, files)))))
    return min(left)


def cpu_quota(cgroup: Path = _CGROUP) -> float | None:
    """How many CPUs' worth of time a container may use, or None without such a limit.

    Threads above this number only wait for each other.
    """
    text = _read(cgroup / "cpu.max")  # "max 100000", or "200000 100000"
    if text:
        found = re.fullmatch(r"(\d+) ([1-9]\d*)", text.strip())
        return int(found[1]) / int(found[2]) if found else None
    quota_us = _integer(cgroup / "cpu" / "cpu.cfs_quota_us")
    period_us = _integer(cgroup / "cpu" / "cpu.cfs_period_us")
    return quota_us / period_us if quota_us and quota_us > 0 and period_us else None


def circumstances(threads: int, share: float | None = None) -> dict[str, str]:
    """What makes times measured now with `threads` CPU threads longer than they need be.

    `share` is the part of its CPUs that this program really gets (`timing.processor_share`).
    """
    notes: dict[str, str] = {}
    quota = cpu_quota()
    if quota is not None and threads > quota:
        notes["threads"] = (
            f"PyTorch uses {threads} threads, but this container may use only {quota:g} "
            f"CPUs: set OMP_NUM_THREADS to {max(1, int(quota))}.")
    if share is not None and share < _UNDISTURBED:
        notes["busy"] = (
            f"Other programs were running: this one got {100 * share:.0f} % of the CPU time that "
            f"its {threads} threads could use. Times are long and uneven; measure again when the "
            "machine is quiet.")
    return notes


def last_level_cache_bytes(caches: Path = _CACHES) -> float | None:
    """Size of the processor's largest cache, or None when the system does not tell."""
    sizes = []
    for file in caches.glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KMG]?)", (_read(file) or "").strip())
        if found:
            sizes.append(float(found[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[found[2]])
    if sizes:
        return max(sizes)
    if platform.system() == "Darwin":
        told = _sysctl("hw.l3cachesize") or _sysctl("hw.perflevel0.l2cachesize")
        return float(told) if told.isdigit() and int(told) else None
    return None


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return None


def _integer(file: Path) -> int | None:
    text = (_read(file) or "").strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _sysctl(name: str) -> str:
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5,
                              check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
