"""The order of packed rows as numbers: a place in the endless stream of passes in, rows out.

Any row can be had at any time, so that windows are numbers alone: `order.py` says which blocks
come when, each window of `order.window` rows of a pass is permuted, and what is asked for is cut
out of that, across the seams of windows and of passes.
"""

import threading
from bisect import bisect_right
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.components.trainer.input.passes import Passes

Numbers = npt.NDArray[np.int64]


class RowOrder:
    """The rows of one worker, in the order in which a training takes them."""

    def __init__(self, passes: Passes, first_numbers: Numbers) -> None:
        self._order = passes.order
        self._first_numbers = first_numbers
        self._first_pass, row = passes.begin
        # The row of the stream at which each pass begins, from the one to begin with.
        self._begins = [passes.step * passes.step_rows - row]
        self._lock = threading.Lock()
        # Batches that are made at the same time are of one pass or two, and of a few windows.
        self._blocks = lru_cache(maxsize=2)(self._blocks_of_pass)
        self._window = lru_cache(maxsize=4)(self._permuted)

    def numbers(self, begin: int, count: int) -> Numbers:
        """int64 [count], the numbers of the rows from row `begin` of the stream on."""
        parts = []
        with self._lock:  # so that no two threads permute the same window
            while count:
                number, row = self._place(begin)
                window = self._window(number, row // self._order.window)
                part = window[row % self._order.window :][:count]
                parts.append(part)
                begin, count = begin + len(part), count - len(part)
        return np.concatenate(parts)

    def _place(self, row: int) -> tuple[int, int]:
        """The pass, and the row in it, of a row of the stream."""
        while row >= (end := self._begins[-1] + self._rows(len(self._begins) - 1)):
            self._begins.append(end)
        place = bisect_right(self._begins, row) - 1
        return self._first_pass + place, row - self._begins[place]

    def _rows(self, place: int) -> int:
        _, ends = self._blocks(self._first_pass + place)
        return int(ends[-1]) if len(ends) else 0

    def _blocks_of_pass(self, number: int) -> tuple[Numbers, Numbers]:
        """The number of each block's first row, and its end in the pass."""
        table = self._order.table(self._order.plan(number).lanes)
        first = self._first_numbers[table["file"]] + table["block"] * self._order.block_rows
        return first, np.cumsum(table["rows"])

    def _permuted(self, number: int, window: int) -> Numbers:
        first, ends = self._blocks(number)
        begin = window * self._order.window
        end = min(begin + self._order.window, int(ends[-1]))
        some = slice(np.searchsorted(ends, begin, "right"), np.searchsorted(ends, end) + 1)
        starts = np.concatenate([[0], ends[:-1]])[some]
        rows = np.minimum(ends[some], end) - np.maximum(starts, begin)
        numbers = np.repeat(first[some] - starts, rows) + np.arange(begin, end)
        seed: Any = [self._order.seed % 2**64, number, window]
        return np.random.default_rng(seed).permutation(numbers)
