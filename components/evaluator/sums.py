"""Sums of many columns by an integer key: batches in, a total for each key that came up out."""

import numpy as np

# Keys that wait to be summed: 16 MiB where three columns are. Fewer are summed more often, at
# the cost of sorting what has been summed before.
_PENDING = 1 << 19


class KeyedSums:
    """Adds up in float64; memory grows with the keys that come up, not with their range."""

    def __init__(self) -> None:
        self._keys: list[np.ndarray] = []
        self._columns: list[np.ndarray] = []
        self._summed = self._pending = 0

    def add(self, keys: np.ndarray, columns: np.ndarray) -> None:
        """Add to keys, int64 [m], any of them several times, float64 columns [k, m]."""
        self._keys.append(keys)
        self._columns.append(columns)
        self._pending += len(keys)
        if self._pending > max(_PENDING, self._summed):
            self._sum()

    def between(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """The keys from `first` to before `last` that came up, ascending, and their sums [k, m]."""
        if not self._keys:
            return np.zeros(0, np.int64), np.zeros((0, 0))
        if self._pending:
            self._sum()
        [keys], [columns] = self._keys, self._columns
        found = slice(*np.searchsorted(keys, (first, last)))
        return keys[found], columns[:, found]

    def _sum(self) -> None:
        keys, where = np.unique(np.concatenate(self._keys), return_inverse=True)
        columns = np.concatenate(self._columns, axis=1)
        sums = [np.bincount(where, column, len(keys)) for column in columns]
        self._keys, self._columns = [keys], [np.array(sums)]
        self._summed, self._pending = len(keys), 0
