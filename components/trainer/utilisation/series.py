"""Any number of rows in, at most `MAX_POINTS` points out: each the mean of as many rows."""

import numpy as np

# A plot is as wide; three columns of 2,048 points are 120 KB of JSON.
MAX_POINTS = 2048


class BoundedSeries:
    """Columns of numbers over time that never take more than `max_points` points, an even number.

    Where it gets full, neighbouring points become one: a point is then the mean of twice as many
    rows.
    """

    def __init__(self, columns: int, *, max_points: int = MAX_POINTS) -> None:
        self._sums = np.zeros((max_points, columns))
        self._rows_a_point = 1
        self._rows = 0

    def add(self, rows: np.ndarray) -> None:
        """Add rows, float[rows, columns]."""
        end = self._rows + len(rows)
        while end > len(self._sums) * self._rows_a_point:
            self._merge_neighbours()
        np.add.at(self._sums, np.arange(self._rows, end) // self._rows_a_point, rows)
        self._rows = end

    def columns(self) -> tuple[tuple[float, ...], ...]:
        """One tuple a column, of the points' means, all equally long."""
        starts = np.arange(0, self._rows, self._rows_a_point)
        counts = np.minimum(self._rows - starts, self._rows_a_point)
        means = self._sums[: len(starts)] / counts[:, None]
        return tuple(tuple(column.tolist()) for column in means.T)

    def _merge_neighbours(self) -> None:
        half = len(self._sums) // 2
        self._sums[:half] = self._sums[0::2] + self._sums[1::2]
        self._sums[half:] = 0
        self._rows_a_point *= 2
