"""Series of bounded length: each point is the mean of the same number of rows."""

import numpy as np

# About the width of a plot; three columns of 2,048 points are 120 KB of JSON.
MAX_POINTS = 2048


class BoundedSeries:
    """Columns of numbers over time that never take more than `max_points` points, an even number.

    When it is full, neighbouring points are merged: a point is then the mean of twice as many
    rows.
    """

    def __init__(self, columns: int, *, max_points: int = MAX_POINTS) -> None:
        self._sums = np.zeros((max_points, columns))
        self._rows_a_point = 1
        self._rows = 0

    def add(self, rows: np.ndarray) -> None:
        """Adds rows, float[rows, columns]."""
        end = self._rows + len(rows)
        while end > len(self._sums) * self._rows_a_point:
            self._merge_neighbours()
        np.add.at(self._sums, np.arange(self._rows, end) // self._rows_a_point, rows)
        self._rows = end

    def columns(self) -> tuple[tuple[float, ...], ...]:
        """Returns the means of the points, a tuple for each column, all of the same length."""
        starts = np.arange(0, self._rows, self._rows_a_point)
        counts = np.minimum(self._rows - starts, self._rows_a_point)
        means = self._sums[: len(starts)] / counts[:, None]
        return tuple(tuple(column.tolist()) for column in means.T)

    def _merge_neighbours(self) -> None:
        half = len(self._sums) // 2
        self._sums[:half] = self._sums[0::2] + self._sums[1::2]
        self._sums[half:] = 0
        self._rows_a_point *= 2
