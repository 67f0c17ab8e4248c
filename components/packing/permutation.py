"""A seeded permutation of any number of rows: maps row indices to positions.

Each position is computed from the row index alone, so tasks that read only some rows know where
these go, without a table in memory. It is a Feistel network over a grid with about as many cells as
rows: alternately, a cell's row is shifted by a hash of its column, and its column by a hash of its
row. A result outside the range is permuted again until it lies inside. Costs about 0.1 us per row.
"""

import hashlib
import math

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_ROUNDS = 6


class Permutation:
    """A permutation of `0..rows-1`; seed and name of the split decide it."""

    def __init__(self, rows: int, *, seed: int, name: str) -> None:
        self._rows = rows
        self._height = math.isqrt(max(rows, 1) - 1) + 1
        self._width = -(-rows // self._height)
        digest = hashlib.sha512(f"{seed}\0{name}".encode()).digest()
        self._keys = np.frombuffer(digest, "<u8")[:_ROUNDS]

    def places(self, begin: int, end: int) -> Numbers:
        """Returns the positions of the rows in `[begin, end)`, int64 [end - begin]."""
        places = self._moved(np.arange(begin, end, dtype=np.uint64))
        while (outside := np.flatnonzero(places >= self._rows)).size:
            places[outside] = self._moved(places[outside])
        return places.astype(np.int64)

    def _moved(self, cells: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        height, width = np.uint64(self._height), np.uint64(self._width)
        row, column = cells // width, cells % width
        for number, key in enumerate(self._keys):
            if number % 2:
                column = (column + _hash(row, key)) % width
            else:
                row = (row + _hash(column, key)) % height
        return row * width + column


def _hash(values: npt.NDArray[np.uint64], key: np.uint64) -> npt.NDArray[np.uint64]:
    """Hashes each item to 32 bits by SplitMix64's finalizer."""
    mixed = values + key
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed >> np.uint64(32)
