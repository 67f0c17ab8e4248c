"""Where a training step's time goes: seconds in, medians and shares out."""

import statistics
from collections.abc import Sequence


class StepClock:
    """Adds up calls of several steps each.

    On a GPU the host runs ahead of the device, so that time spent waiting for input may be time
    in which the device still works. Only the first wait of a call, which begins when the device
    has finished all before it, is then time that the device stood still; it speaks for the rest.

    Args:
        runs_ahead: Whether the host runs ahead of the device.
    """

    def __init__(self, *, runs_ahead: bool) -> None:
        self._runs_ahead = runs_ahead
        self._step_seconds: list[float] = []
        self._wait_seconds = 0.0
        self.seconds = 0.0

    def add(self, call_seconds: float, waits: Sequence[float]) -> None:
        """Count one call.

        Args:
            call_seconds: Its wall time, until the device had finished.
            waits: Seconds that each of its steps waited for a batch; at least one step.
        """
        steps = len(waits)
        wait = waits[0] * steps if self._runs_ahead else sum(waits)
        self.seconds += call_seconds
        self._wait_seconds += min(wait, call_seconds)
        self._step_seconds += [call_seconds / steps] * steps

    @property
    def steps(self) -> int:
        """Steps counted."""
        return len(self._step_seconds)

    @property
    def seconds_per_step(self) -> float | None:
        """Median seconds a step, its wait included; None before the first."""
        return statistics.median(self._step_seconds) if self._step_seconds else None

    @property
    def input_wait_share(self) -> float | None:
        """Share of the time that was spent waiting for input, 0..1; None before the first step."""
        return self._wait_seconds / self.seconds if self.seconds else None


def next_call_steps(steps: int, call_seconds: float, *, target_seconds: float) -> int:
    """Steps for the next call: such that it takes about the target, at most twice as many."""
    fitting = int(steps * target_seconds / max(call_seconds, 1e-9))
    return max(1, min(fitting, 2 * steps))
