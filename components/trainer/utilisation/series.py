"""Series and histograms that stay small for any number of values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# About the width of a plot; three columns of 2,048 points make 120 KB of JSON.
MAX_POINTS = 2048
# Bins are 12 % wide and reach from a microsecond to a quarter of an hour; values outside count in
# the first or the last bin.
_BINS_A_DECADE = 20
_FIRST_DECADE, _LAST_DECADE = -6, 3
_UPPER = 10.0 ** (
    np.arange(_BINS_A_DECADE * _FIRST_DECADE + 1, _BINS_A_DECADE * _LAST_DECADE + 1)
    / _BINS_A_DECADE
)


class BoundedSeries:
    """Columns of numbers over time, kept in at most `max_points` points (an even number).

    When it is full, neighbouring points are merged: from then on, a point is the mean of twice as
    many rows.
    """

    def __init__(self, columns: int, *, max_points: int = MAX_POINTS) -> None:
        self._sums = np.zeros((max_points, columns))
        self._rows_a_point = 1
        self._rows = 0

    def add(self, rows: np.ndarray) -> None:
        end = self._rows + len(rows)
        while end > len(self._sums) * self._rows_a_point:
            self._merge_neighbours()
        np.add.at(self._sums, np.arange(self._rows, end) // self._rows_a_point, rows)
        self._rows = end

    def columns(self) -> tuple[tuple[float, ...], ...]:
        """Returns the means of the points: one tuple per column, all of the same length."""
        starts = np.arange(0, self._rows, self._rows_a_point)
        counts = np.minimum(self._rows - starts, self._rows_a_point)
        means = self._sums[: len(starts)] / counts[:, None]
        return tuple(tuple(column.tolist()) for column in means.T)

    def _merge_neighbours(self) -> None:
        half = len(self._sums) // 2
        self._sums[:half] = self._sums[0::2] + self._sums[1::2]
        self._sums[half:] = 0
        self._rows_a_point *= 2


@dataclass(frozen=True)
class Durations:
    """A histogram whose bins grow by a constant factor; empty bins at both ends are cut off."""

    upper_seconds: Sequence[float]  # upper end of each bin; the next bin begins there
    counts: Sequence[int]

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Returns the duration, to 12 %, that a `share` of all did not exceed; None if empty."""
        wanted, seen = math.ceil(share * self.count), 0
        for upper, count in zip(self.upper_seconds, self.counts, strict=True):
            seen += count
            if count and seen >= wanted:
                return upper
        return None

    def share_of_time_above(self, seconds: float) -> float:
        """Returns the share of the total time, 0..1, that durations longer than `seconds` take."""
        parts = [
            (upper, upper * n) for upper, n in zip(self.upper_seconds, self.counts, strict=True)
        ]
        whole = sum(time for _, time in parts)
        return sum(time for upper, time in parts if upper > seconds) / whole if whole else 0.0


class DurationCounter:
    def __init__(self) -> None:
        self._counts = np.zeros(len(_UPPER), np.int64)

    def add(self, seconds: np.ndarray) -> None:
        bins = np.minimum(np.searchsorted(_UPPER, seconds), len(_UPPER) - 1)
        self._counts += np.bincount(bins, minlength=len(_UPPER))

    def durations(self) -> Durations:
        filled = np.flatnonzero(self._counts)
        if not filled.size:
            return Durations((), ())
        bins = slice(filled[0], filled[-1] + 1)
        return Durations(tuple(_UPPER[bins].tolist()), tuple(self._counts[bins].tolist()))
