"""The gain of faster input: a run's steps held against the same steps without an input."""

import math
from dataclasses import dataclass

import numpy as np

from penstock.components.trainer.utilisation.record import Utilisation

# The run is cut into so many parts: neighbouring steps have the same bursts and the same guests
# on the machine, and are no samples of their own.
_PARTS = 20
# Two trainings alike differ by so much on a quiet machine (`penstock bench verdict`).
_LEAST_NOISE = 0.02
# Student's t for 95 % of a mean of so many samples at least.
_T = {11: 2.2, 6: 2.6, 4: 3.2, 3: 4.3, 2: 12.7}
# A normal distribution's middle half is so many standard deviations wide, and the error of its
# median so many times that of its mean.
_MIDDLE_HALF, _MEDIAN_ERROR = 1.35, 1.25


@dataclass(frozen=True)
class InputGain:
    """Speed-up of a training if its input cost nothing.

    Attributes:
        step_seconds: Mean of the run's steady steps.
        limit_seconds: Median of the same steps on one batch that lies on the device.
        times: How many times as fast these are; below 1 by noise alone.
        noise: The part of `times` by which it may be off, up or down, with 95 % confidence.
    """

    step_seconds: float
    limit_seconds: float
    times: float
    noise: float

    @property
    def share(self) -> float:
        """Share of a step, 0..1, that is its input's: waiting for it, or slowed down by it."""
        return max(0.0, 1 - 1 / self.times)

    @property
    def least(self) -> float:
        """The lower end of what `times` may be."""
        return self.times / (1 + self.noise)

    @property
    def most(self) -> float:
        """The upper end."""
        return self.times * (1 + self.noise)


def input_gain(used: Utilisation) -> InputGain | None:
    """The gain by a run's record; None where there is no limit, or too few steps to time."""
    steps = np.asarray(used.batches.seconds)
    if used.limit is None or len(steps) < 2:
        return None
    parts = np.array([part.mean() for part in np.array_split(steps, min(_PARTS, len(steps)))])
    calls = np.array(used.limit.calls)
    low, high = np.quantile(calls, (0.25, 0.75))
    errors = (
        _half_width(parts.std(ddof=1), len(parts)) / parts.mean(),
        _MEDIAN_ERROR * _half_width((high - low) / _MIDDLE_HALF, len(calls)) / used.limit.seconds,
        _LEAST_NOISE,
    )
    times = float(steps.mean()) / used.limit.seconds
    return InputGain(float(steps.mean()), used.limit.seconds, times, math.hypot(*errors))


def _half_width(deviation: float, samples: int) -> float:
    """Of the interval in which the mean of samples with that deviation lies."""
    t = next(t for least, t in _T.items() if samples >= least)
    return float(t * deviation / math.sqrt(samples))
