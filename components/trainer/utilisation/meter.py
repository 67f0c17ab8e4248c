"""Collects calls, epochs and samples of the machine; returns live figures and a `Utilisation`."""

import os
import time

import numpy as np
import psutil

from penstock.components.trainer.utilisation.limits import available_cores
from penstock.components.trainer.utilisation.monitor import Monitor
from penstock.components.trainer.utilisation.record import (
    BatchSeries,
    EpochTimes,
    InputFacts,
    StepLimit,
    Utilisation,
)
from penstock.components.trainer.utilisation.series import BoundedSeries, DurationCounter
from penstock.components.trainer.utilisation.step_clock import CallTimes

# Seconds between two live figures: often enough to watch, rare enough for a server.
LIVE_SECONDS = 5.0


class Meter:
    def __init__(self, monitor: Monitor, input_facts: InputFacts | None = None) -> None:
        self._monitor = monitor
        self._input = input_facts
        self._batches = BoundedSeries(2)
        self._waits = BoundedSeries(1)
        self._batch_seconds = DurationCounter()
        self._wait_seconds = DurationCounter()
        self._epochs: list[EpochTimes] = []
        self._told = time.perf_counter()
        self._since_told: list[CallTimes] = []
        self._cpu_times, self._own_seconds = psutil.cpu_times(), _own_seconds()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._monitor.begin

    def add_call(self, step: int, call: CallTimes) -> None:
        numbers = np.arange(step - call.steps + 1, step + 1, dtype=np.float64)
        self._batches.add(np.stack([numbers, call.step_seconds], axis=1))
        self._batch_seconds.add(call.step_seconds)
        if call.wait_seconds is not None:
            self._waits.add(call.wait_seconds[:, None])
            self._wait_seconds.add(call.wait_seconds)
        self._since_told.append(call)

    def add_epoch(self, times: EpochTimes) -> None:
        self._epochs.append(times)

    def live(self, *, now: bool = False) -> dict[str, float]:
        """Returns figures since the last call, by name; empty until `LIVE_SECONDS` have passed."""
        if not now and time.perf_counter() - self._told < LIVE_SECONDS:
            return {}
        values = self._live_calls() | self._live_machine()
        self._told = time.perf_counter()
        self._since_told.clear()
        return {f"utilisation/{name}": value for name, value in values.items()}

    def record(
        self, limit: StepLimit | None = None, gpu_idle_share: float | None = None
    ) -> Utilisation:
        """Ends the sampling; returns all figures, with those measured after the last epoch."""
        monitor = self._monitor
        monitor.stop()
        return Utilisation(
            cores=available_cores(),
            memory_limit_mib=monitor.memory_limit_mib,
            free_memory_mib=monitor.free_memory_mib,
            missed=monitor.missed,
            machine=monitor.series(),
            batches=BatchSeries(*self._batches.columns(), *self._waits.columns()),
            batch_seconds=self._batch_seconds.durations(),
            wait_seconds=self._wait_seconds.durations(),
            epochs=tuple(self._epochs),
            input=self._input,
            limit=limit,
            gpu_idle_share=gpu_idle_share,
            **self._busy_shares(),
        )

    def _busy_shares(self) -> dict[str, float]:
        before, now = self._cpu_times, psutil.cpu_times()
        seconds = sum(now) - sum(before)
        if seconds <= 0:
            return {}
        busy = min(1.0, max(0.0, 1 - (now.idle - before.idle) / seconds))
        others = max(0.0, busy - (_own_seconds() - self._own_seconds) / seconds)
        return {"machine_busy_share": busy, "others_busy_share": others}

    def _live_calls(self) -> dict[str, float]:
        seconds = sum(call.seconds for call in self._since_told)
        if not seconds:
            return {}
        steps = sum(call.steps for call in self._since_told)
        values = {"seconds_per_step": seconds / steps}
        waits = [call.wait_seconds for call in self._since_told if call.wait_seconds is not None]
        if waits:
            values["input_wait_share"] = float(np.concatenate(waits).sum()) / seconds
        return values

    def _live_machine(self) -> dict[str, float]:
        sample = self._monitor.latest
        if sample is None:
            return {}
        values = {"process_cores": sample.process_cores, "memory_mib": sample.memory_mib}
        for gpu, reading in zip(self._monitor.gpus, sample.gpus, strict=True):
            values[f"gpu_{gpu.index}_busy_share"] = reading.busy_share
            values[f"gpu_{gpu.index}_memory_mib"] = reading.memory_mib
        return values


def _own_seconds() -> float:
    return sum(os.times()[:4])
