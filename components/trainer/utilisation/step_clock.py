"""Seconds of training steps in, medians and shares out."""

import statistics
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CallTimes:
    """One call into TensorFlow, of several steps.

    Attributes:
        seconds: Its wall time, until the device had finished.
        cpu_seconds: CPU time of this process in it, over all threads.
        step_seconds: float64[steps], each step's time, its wait included.
        wait_seconds: float64[steps], the part of it in which the step waited for its batch; None
            on a GPU.
    """

    seconds: float
    cpu_seconds: float
    step_seconds: np.ndarray
    wait_seconds: np.ndarray | None

    @property
    def steps(self) -> int:
        """Steps of the call."""
        return len(self.step_seconds)


def call_times(
    seconds: float, cpu_seconds: float, marks: np.ndarray, waits: np.ndarray, *, runs_ahead: bool
) -> CallTimes:
    """What is known of a call's steps, of its wall time and this process' CPU time in it.

    On a GPU the host runs ahead of the device: while it waits for a batch the device may work, and
    no wait of the host's says how long the device stands still. `StepLimit` does.

    Args:
        seconds: The call's wall time.
        cpu_seconds: CPU time of the process in it.
        marks: float64[steps + 1], when each step began, and when the last ended.
        waits: float64[steps], seconds that each waited for a batch.
        runs_ahead: Whether the host runs ahead of the device.
    """
    steps = len(waits)
    if runs_ahead:
        return CallTimes(seconds, cpu_seconds, np.full(steps, seconds / steps), None)
    # The clock of the marks may be set while we run.
    each = np.clip(np.diff(marks), 0.0, seconds)
    return CallTimes(seconds, cpu_seconds, each, np.clip(waits, 0.0, each))


class StepClock:
    """Adds up the calls of an epoch."""

    def __init__(self) -> None:
        self._step_seconds: list[float] = []
        self.seconds = 0.0
        self.wait_seconds: float | None = 0.0
        self.cpu_seconds = 0.0

    def add(self, call: CallTimes) -> None:
        """Count one call."""
        self.seconds += call.seconds
        self.wait_seconds = _sum(self.wait_seconds, call.wait_seconds)
        self.cpu_seconds += call.cpu_seconds
        self._step_seconds += [call.seconds / call.steps] * call.steps

    @property
    def steps(self) -> int:
        """Steps counted."""
        return len(self._step_seconds)

    @property
    def seconds_per_step(self) -> float | None:
        """Median over all steps of their call's mean, waits included; None before the first."""
        return statistics.median(self._step_seconds) if self._step_seconds else None

    @property
    def input_wait_share(self) -> float | None:
        """Share of the time spent waiting for input, 0..1; None on a GPU, or without a step."""
        if self.wait_seconds is None or not self.seconds:
            return None
        return min(1.0, self.wait_seconds / self.seconds)


def _sum(so_far: float | None, waits: np.ndarray | None) -> float | None:
    return None if so_far is None or waits is None else so_far + float(waits.sum())


def next_call_steps(steps: int, call_seconds: float, *, target_seconds: float) -> int:
    """Steps for the next call: such that it takes about the target, at most twice as many."""
    fitting = int(steps * target_seconds / max(call_seconds, 1e-9))
    return max(1, min(fitting, 2 * steps))
