"""A thread that samples the machine five times a second while training runs.

A sample takes about 0.3 ms of CPU on Linux, 1 ms more with a GPU, and holds no lock that training
needs.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psutil

from penstock.components.tfrecord.sharding import MIB
from penstock.components.trainer.utilisation.gpus import Gpu, GpuReading, open_gpus
from penstock.components.trainer.utilisation.limits import memory_limit_mib
from penstock.components.trainer.utilisation.record import GpuSeries, MachineSeries
from penstock.components.trainer.utilisation.series import BoundedSeries

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 0.2
_GPU_COLUMNS = 2  # busy_share, memory_mib


@dataclass(frozen=True)
class Sample:
    seconds: float
    process_cores: float
    memory_mib: float
    gpus: Sequence[GpuReading]


class Monitor:
    """Context manager that samples cores, memory and GPUs.

    If a sample fails, sampling ends, but not the training; `missed` has the reason. `begin` is the
    `time.perf_counter()` at time 0. `free_memory_mib` is the minimum over all samples.
    """

    def __init__(
        self,
        *,
        begin: float | None = None,
        interval_seconds: float = INTERVAL_SECONDS,
        gpus: Sequence[Gpu] | None = None,
    ) -> None:
        self.begin = time.perf_counter() if begin is None else begin
        self.interval_seconds = interval_seconds
        self.gpus = open_gpus() if gpus is None else tuple(gpus)
        self.latest: Sample | None = None
        self.free_memory_mib: float | None = None
        self.cpu_seconds = 0.0
        self.missed: str | None = None
        self.memory_limit_mib = memory_limit_mib()
        self._series = BoundedSeries(3 + _GPU_COLUMNS * len(self.gpus))
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-monitor", daemon=True)

    def __enter__(self) -> "Monitor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def series(self) -> MachineSeries:
        """Returns the samples; call it after the sampling has ended."""
        seconds, process_cores, memory_mib, *rest = self._series.columns()
        gpus = [
            GpuSeries(
                gpu.index,
                gpu.name,
                gpu.memory_total_mib,
                rest[_GPU_COLUMNS * i],
                rest[_GPU_COLUMNS * i + 1],
            )
            for i, gpu in enumerate(self.gpus)
        ]
        return MachineSeries(seconds, process_cores, memory_mib, tuple(gpus))

    def _run(self) -> None:
        try:
            self._look_until_stopped()
        except (OSError, psutil.Error) as error:
            self.missed = str(error)
            logger.warning("utilisation is not on record from here on: %s", error)

    def _look_until_stopped(self) -> None:
        before = _CpuClock.now(self._process)
        due = time.perf_counter() + self.interval_seconds
        while not self._stop.wait(max(0.0, due - time.perf_counter())):
            now = _CpuClock.now(self._process)
            self._add(now, before)
            before = now
            # A late sample (the machine was busy or suspended) is not made up for: within an
            # instant, the clock's ticks of 10 ms would look like a dozen busy cores.
            due = max(due, time.perf_counter() - self.interval_seconds / 2) + self.interval_seconds
            self.cpu_seconds = time.thread_time()

    def _add(self, now: "_CpuClock", before: "_CpuClock") -> None:
        wall = max(now.wall - before.wall, 1e-9)
        memory_mib = self._process.memory_info().rss / MIB
        sample = Sample(
            seconds=now.wall - self.begin,
            process_cores=(now.process - before.process) / wall,
            memory_mib=memory_mib,
            gpus=[gpu.read() for gpu in self.gpus],
        )
        free = psutil.virtual_memory().available / MIB
        free = max(0.0, min(free, self.memory_limit_mib - memory_mib))
        self.free_memory_mib = min(free, self.free_memory_mib or free)
        row = [sample.seconds, sample.process_cores, sample.memory_mib]
        for gpu in sample.gpus:
            row += [gpu.busy_share, gpu.memory_mib]
        self._series.add(np.array([row]))
        self.latest = sample


@dataclass(frozen=True)
class _CpuClock:
    wall: float
    process: float

    @classmethod
    def now(cls, process: psutil.Process) -> "_CpuClock":
        own, wall = process.cpu_times(), time.perf_counter()
        return cls(wall, own.user + own.system)
