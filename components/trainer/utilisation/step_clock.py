"""Durations of training steps, and their medians and shares."""

import statistics
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CallTimes:
    seconds: float  # wall time until the device finished
    cpu_seconds: float  # CPU time of all threads of this process
    step_seconds: np.ndarray  # float64[steps], waits included
    wait_seconds: np.ndarray | None  # float64[steps]; None on a GPU

    @property
    def steps(self) -> int:
        return len(self.step_seconds)


def call_times(
    seconds: float, cpu_seconds: float, marks: np.ndarray, waits: np.ndarray, *, runs_ahead: bool
) -> CallTimes:
    """Returns the durations of a call and of its steps.

    On a GPU the host runs ahead: the device may be busy while the host waits for a batch. So the
    host's waits do not show how long the device is idle; `StepLimit` does. `marks` has the begin
    of each step and the end of the last, float64[steps + 1].
    """
    steps = len(waits)
    if runs_ahead:
        return CallTimes(seconds, cpu_seconds, np.full(steps, seconds / steps), None)
    # Someone may set the clock of the marks during the call.
    each = np.clip(np.diff(marks), 0.0, seconds)
    return CallTimes(seconds, cpu_seconds, each, np.clip(waits, 0.0, each))


class StepClock:
    def __init__(self) -> None:
        self._step_seconds: list[float] = []
        self.seconds = 0.0
        self.wait_seconds: float | None = 0.0
        self.cpu_seconds = 0.0

    def add(self, call: CallTimes) -> None:
        self.seconds += call.seconds
        self.wait_seconds = _sum(self.wait_seconds, call.wait_seconds)
        self.cpu_seconds += call.cpu_seconds
        self._step_seconds += [call.seconds / call.steps] * call.steps

    @property
    def steps(self) -> int:
        return len(self._step_seconds)

    @property
    def seconds_per_step(self) -> float | None:
        """Median over all steps, each taken as the mean of its call; None without steps."""
        return statistics.median(self._step_seconds) if self._step_seconds else None

    @property
    def input_wait_share(self) -> float | None:
        """Share of the time spent waiting for input, 0..1; None on a GPU or without steps."""
        if self.wait_seconds is None or not self.seconds:
            return None
        return min(1.0, self.wait_seconds / self.seconds)


def _sum(so_far: float | None, waits: np.ndarray | None) -> float | None:
    return None if so_far is None or waits is None else so_far + float(waits.sum())


def next_call_steps(steps: int, call_seconds: float, *, target_seconds: float) -> int:
    """Returns how many steps take about the target time; at most twice `steps`."""
    fitting = int(steps * target_seconds / max(call_seconds, 1e-9))
    return max(1, min(fitting, 2 * steps))
