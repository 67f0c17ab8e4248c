"""Cores and memory that this process may use, also inside a container."""

import os
from pathlib import Path

from penstock.components.tfrecord.sharding import MIB

_CGROUP = Path("/sys/fs/cgroup")


def available_cores(cgroup: Path = _CGROUP) -> float:
    """Returns the cores that the process may use: its affinity, capped by the container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it, macOS does not
    cores = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    quota = _numbers(cgroup / "cpu.max") or [
        *_numbers(cgroup / "cpu/cpu.cfs_quota_us"),
        *_numbers(cgroup / "cpu/cpu.cfs_period_us"),
    ]
    if len(quota) == 2 and quota[0] > 0 and quota[1] > 0:
        return min(cores, quota[0] / quota[1])
    return cores


def memory_limit_mib(cgroup: Path = _CGROUP) -> float:
    """Returns the memory that the process may use: the machine's, or the container's limit."""
    import psutil

    machine = psutil.virtual_memory().total
    limits = _numbers(cgroup / "memory.max") or _numbers(cgroup / "memory/memory.limit_in_bytes")
    return min([machine, *limits]) / MIB


def _numbers(path: Path) -> list[int]:
    """Returns the numbers in a file of the kernel; empty if it is missing or sets no limit."""
    try:
        return [int(word) for word in path.read_text().split()]
    except (OSError, ValueError):
        return []
