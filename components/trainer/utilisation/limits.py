"""Cores, CPU time and memory of this process's container, or of the machine without one."""

import os
from pathlib import Path

import psutil

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
    machine = psutil.virtual_memory().total
    limits = _numbers(cgroup / "memory.max") or _numbers(cgroup / "memory/memory.limit_in_bytes")
    return min([machine, *limits]) / MIB


def cgroup_cpu_seconds(cgroup: Path = _CGROUP) -> float:
    """Returns the CPU seconds used by all processes of the container, or of the whole machine."""
    if nanoseconds := _numbers(cgroup / "cpuacct/cpuacct.usage"):
        return nanoseconds[0] / 1e9
    try:
        fields = dict(line.split() for line in (cgroup / "cpu.stat").read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6
    except (KeyError, OSError, ValueError):
        times = psutil.cpu_times()
        return sum(times) - times.idle


def _numbers(path: Path) -> list[int]:
    """Returns the numbers in a file of the kernel; empty if it is missing or sets no limit."""
    try:
        return [int(word) for word in path.read_text().split()]
    except (OSError, ValueError):
        return []
