"""Measures `Speed`: step times, CPU use and GPU load of a training, and step times on one batch.

CPU and memory are those of the container of this process or, without one, of the machine.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import psutil
import pynvml

from penstock.components.tfrecord.sharding import MIB
from penstock.components.trainer.utilisation.verdict import Speed

_CGROUP = Path("/sys/fs/cgroup")
_PARTS = 10
_KEPT_CALLS = 5
# Target duration of a call into TensorFlow, in seconds. Shorter calls would cost too much, because
# each call has an overhead of a millisecond; longer calls would delay signals, which are noticed
# only when a call ends.
CALL_SECONDS = 0.2
# Number of calls at the end of the training whose durations are used: 100 s at `CALL_SECONDS` each.
# Earlier calls may have read from a cold cache.
_LAST_CALLS = 512
# A call that repeats steps on one batch runs at most as many steps as this run of the training has
# had, divided by `_PART_OF_STEPS`, but at least one.
_PART_OF_STEPS = 50


class Meter:
    """Meter of a training: CPU use and GPU load after its first step, times of its last calls."""

    def __init__(self) -> None:
        self._began: _CpuSeconds | None = None
        self._gpus = _Gpus()
        self._busy: list[float] = []
        self._calls: deque[tuple[int, float]] = deque(maxlen=_LAST_CALLS)
        self._steps = self._noted = 0

    def start(self) -> None:
        self._began = _CpuSeconds()

    def add(self, steps: int, seconds: float) -> None:
        """Records a call into TensorFlow and the load of the GPUs."""
        self._steps, self._noted = self._steps + steps, self._noted + 1
        # Consecutive short calls are counted together, because a single short call says little.
        # Calls are short if, for example, a callback's method must be called after each step.
        if self._calls and self._calls[-1][1] < CALL_SECONDS:
            before = self._calls.pop()
            steps, seconds = before[0] + steps, before[1] + seconds
        self._calls.append((steps, seconds))
        if (busy := self._gpus.busy_share()) is not None:
            self._busy.append(busy)

    def speed(
        self, model: keras.Model, repeat: Callable[[int], None], call_steps: int
    ) -> Speed | None:
        """Measures how long steps take if all of them use the same batch.

        `repeat(n)` runs n such steps; n is at most `call_steps`.

        Returns None if there were too few steps to time. The model is unchanged afterwards.
        """
        # This condition uses only numbers that are equal in all workers. If it used a clock, one
        # worker might repeat steps while the others do not.
        if self._began is None or self._noted < 2:
            return None
        used, cores = _CpuSeconds(), available_cores()
        whole = max(used.wall - self._began.wall, 1e-9) * cores
        own = (used.own - self._began.own) / whole
        kept = kept_seconds(model, repeat, call_steps, self._steps)
        if len(self._calls) < 2:
            return None
        return Speed(
            run_seconds=_parts(list(self._calls)),
            kept_seconds=kept,
            steps=sum(steps for steps, _ in self._calls),
            cores=cores,
            own_share=own,
            others_share=max(0.0, (used.cgroup - self._began.cgroup) / whole - own),
            gpu_idle_share=1 - sum(self._busy) / len(self._busy) if self._busy else None,
        )


def kept_seconds(
    model: keras.Model, repeat: Callable[[int], None], call_steps: int, steps: int
) -> tuple[float, ...]:
    """Returns the seconds per step of calls that repeat steps on one batch.

    All workers must run the same number of steps, so `call_steps` and `steps` must be the same in
    all of them. The first call traces and is not counted. All state that the steps change is
    restored: weights, metrics, random state, the optimizer's variables.
    """
    count = max(1, min(call_steps, steps // _PART_OF_STEPS))
    variables = [*model.variables, *model.optimizer.variables]
    values = [variable.numpy() for variable in variables]
    seconds = []
    repeat(1)
    for _ in range(_KEPT_CALLS):
        begin = time.perf_counter()
        repeat(count)
        seconds.append((time.perf_counter() - begin) / count)
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    return tuple(seconds)


def _parts(calls: Sequence[tuple[int, float]]) -> tuple[float, ...]:
    """Cuts the calls into at most 19 parts; returns the mean seconds per step in each part."""
    size = max(1, len(calls) // _PARTS)
    groups = [calls[begin : begin + size] for begin in range(0, len(calls), size)]
    return tuple(
        sum(seconds for _, seconds in group) / sum(steps for steps, _ in group) for group in groups
    )


class _CpuSeconds:
    """CPU seconds used so far by this process and its ended children, and by its whole cgroup."""

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.own = sum(os.times()[:4])
        self.cgroup = cgroup_cpu_seconds()


class _Gpus:
    """NVIDIA GPUs of this process, read by NVML because TensorFlow does not report their load."""

    def __init__(self, nvml: Any = pynvml) -> None:
        self._nvml = nvml
        self._handles: list[Any] = []
        try:
            nvml.nvmlInit()
            every = ",".join(map(str, range(nvml.nvmlDeviceGetCount())))
            names = os.environ.get("CUDA_VISIBLE_DEVICES", every).split(",")
            self._handles = [nvml.nvmlDeviceGetHandleByIndex(int(name)) for name in names]
        except (nvml.NVMLError, ValueError):
            pass  # no driver, no GPU, or a GPU under another name

    def busy_share(self) -> float | None:
        """Returns the mean share of the last 1/6 to 1 s in which a kernel ran, over all GPUs."""
        try:
            loads = [self._nvml.nvmlDeviceGetUtilizationRates(h).gpu for h in self._handles]
        except self._nvml.NVMLError:  # a slice of a GPU (MIG), for example, has no such figure
            return None
        return sum(loads) / len(loads) / 100 if loads else None


def available_cores(cgroup: Path = _CGROUP) -> float:
    """Returns the number of cores for this process: its affinity or, if lower, the CPU quota."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has this function, macOS does not
    cores = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    quota = _numbers(cgroup / "cpu.max") or [
        *_numbers(cgroup / "cpu/cpu.cfs_quota_us"),
        *_numbers(cgroup / "cpu/cpu.cfs_period_us"),
    ]
    if len(quota) == 2 and quota[0] > 0 and quota[1] > 0:
        return min(cores, quota[0] / quota[1])
    return cores


def memory_limit_mib(cgroup: Path = _CGROUP) -> float:
    """Returns the memory for this process: the machine's or, if less, the container's limit."""
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
    """Returns the numbers in a cgroup file; empty if it is missing or says `max`."""
    try:
        return [int(word) for word in path.read_text().split()]
    except (OSError, ValueError):
        return []
