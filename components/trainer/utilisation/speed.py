"""Measures `Speed`: CPU use and GPU load while a training runs, and steps on one kept batch."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import psutil

from penstock.components.trainer.utilisation.limits import available_cores
from penstock.components.trainer.utilisation.verdict import Speed

_CGROUP = Path("/sys/fs/cgroup")
_PARTS = 10
_KEPT_CALLS = 5
# A call on the kept batch has at most this share of the run's steps.
_PART_OF_STEPS = 50


class Meter:
    """CPU use and GPU load from the first steady step of a training to its last."""

    def __init__(self) -> None:
        self._began: _CpuSeconds | None = None
        self._ended: _CpuSeconds | None = None
        self._gpus = _Gpus()
        self._busy: list[float] = []

    def start(self) -> None:
        self._began = _CpuSeconds()

    def sample(self) -> None:
        """Notes the GPUs' load; call it after each call into TensorFlow."""
        if (busy := self._gpus.busy_share()) is not None:
            self._busy.append(busy)

    def stop(self) -> None:
        self._ended = _CpuSeconds()

    def speed(self, run: Sequence[tuple[int, float]], kept: Sequence[float]) -> Speed | None:
        """Returns the speed; None if there are too few steps.

        Args:
            run: Steps and seconds of each call of the run.
            kept: Mean seconds per step of each call on one kept batch.
        """
        parts = _parts(run)
        if self._began is None or self._ended is None or len(parts) < 2 or len(kept) < 2:
            return None
        cores = available_cores()
        whole = max(self._ended.wall - self._began.wall, 1e-9) * cores
        own = (self._ended.own - self._began.own) / whole
        others = max(0.0, (self._ended.cgroup - self._began.cgroup) / whole - own)
        idle = 1 - sum(self._busy) / len(self._busy) if self._busy else None
        return Speed(parts, tuple(kept), cores, own, others, idle)


def kept_seconds(
    model: keras.Model, run: Callable[[int], None], *, call_steps: int, steps: int
) -> list[float]:
    """Returns the seconds per step of calls that repeat steps on one batch.

    The number of steps does not depend on a clock: all workers must do the same. The first call
    traces and is not counted. The model's state is restored.
    """
    count = max(1, min(call_steps, steps // _PART_OF_STEPS))
    seconds = []
    with _state_kept(model):
        run(1)
        for _ in range(_KEPT_CALLS):
            begin = time.perf_counter()
            run(count)
            seconds.append((time.perf_counter() - begin) / count)
    return seconds


def _parts(calls: Sequence[tuple[int, float]]) -> tuple[float, ...]:
    """Returns the mean seconds per step of up to ten parts with equally many calls."""
    size = max(1, len(calls) // _PARTS)
    groups = [calls[begin : begin + size] for begin in range(0, len(calls), size)]
    return tuple(
        sum(seconds for _, seconds in group) / sum(steps for steps, _ in group) for group in groups
    )


@contextmanager
def _state_kept(model: keras.Model) -> Iterator[None]:
    """Restores all that steps change: weights, metrics, random state, the optimizer's variables."""
    variables = [*model.variables, *model.optimizer.variables]
    values = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


class _CpuSeconds:
    """CPU seconds used so far, by this process with its children, and by its whole cgroup."""

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.own = sum(os.times()[:4])
        self.cgroup = cgroup_cpu_seconds()


def cgroup_cpu_seconds(cgroup: Path = _CGROUP) -> float:
    """Returns the CPU seconds used by all processes of the container, or of the whole machine."""
    try:
        return int((cgroup / "cpuacct/cpuacct.usage").read_text()) / 1e9
    except (OSError, ValueError):
        pass
    try:
        fields = dict(line.split() for line in (cgroup / "cpu.stat").read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6
    except (KeyError, OSError, ValueError):
        pass
    times = psutil.cpu_times()
    return sum(times) - times.idle


class _Gpus:
    """NVIDIA GPUs of this process, by NVML: TensorFlow does not tell how busy they are."""

    def __init__(self, nvml: Any = None, visible: str | None = None) -> None:
        import pynvml

        self._nvml = nvml or pynvml
        self._handles: list[Any] = []
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            chosen = os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
            names = map(str, range(count)) if chosen is None else chosen.split(",")
            self._handles = [self._handle(n) for n in names if n.strip() not in ("", "-1")]
        except (self._nvml.NVMLError, ValueError):
            pass  # no driver, or no GPU

    def busy_share(self) -> float | None:
        """Returns the share of the last 1/6 to 1 s in which a kernel ran, as mean of the GPUs."""
        try:
            loads = [self._nvml.nvmlDeviceGetUtilizationRates(h).gpu for h in self._handles]
        except self._nvml.NVMLError:  # such as a slice of a GPU (MIG), which has no such figure
            return None
        return sum(loads) / len(loads) / 100 if loads else None

    def _handle(self, name: str) -> Any:
        if name.strip().startswith("GPU-"):
            return self._nvml.nvmlDeviceGetHandleByUUID(name.strip())
        return self._nvml.nvmlDeviceGetHandleByIndex(int(name))
