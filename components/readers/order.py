"""The order of training rows, computed from (seed, pass, shards): only numbers, no data.

    files     permuted in each pass
    shares    the rows of the permuted files are cut into one run per share, also within a file
    lanes     files are read side by side: each file goes to the lane with the fewest bytes so far
    stream    one block of each lane in turn, until all lanes end
    windows   consecutive rows of the stream, permuted together

A block is `block_rows` successive rows of one file; the last block of a file, or of a share's part
of a file, may have fewer. Because the order is computed without reading data, a training can resume
at any row without reading the rows before it. A worker reads one share or several, so the number of
workers may be any divisor of the number of shares.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

SCHEME = 2
"""Version of the rules above, raised by each change of the rules that alters the order."""

TO_END = -1
"""Stands for the number of rows of a piece that reaches to the end of its file."""

# (file, first row, rows)
Piece = tuple[int, int, int]
Lanes = list[list[Piece]]
Numbers: TypeAlias = npt.NDArray[np.int64]
# Function of (seed, pass, window, rows) that returns a permutation of the window's rows.
Permute = Callable[[int, int, int, int], npt.NDArray[Any]]

# The seed of TensorFlow's stateless random operations is a pair of numbers. In the second one, this
# many low bits contain the index of a row or window; the higher bits contain the number of the
# pass.
ROW_BITS = 40


@dataclass(frozen=True)
class PassPlan:
    lanes: Lanes  # pieces of files; the lane whose turn it is comes first
    window: int = 0  # index of the first window in its pass
    ahead: int = 0  # rows of the stream to skip before that window; fewer than a block
    drop: int = 0  # rows to skip in the first window once it is permuted


@dataclass(frozen=True)
class Order:
    seed: int  # 64 bits
    file_bytes: Sequence[int]
    lanes: int  # number of files that are read side by side; at least 1
    block_rows: int
    window: int
    # May be None if `shares` is 1 and each pass is read from its first row.
    file_rows: Sequence[int] | None = None
    shares: int = 1  # number of shares into which the rows are cut
    share: int = 0  # index of this share, from 0

    def plan(self, number: int) -> PassPlan:
        return PassPlan(self._dealt(self._pieces(number)))

    def locate(self, rows: int) -> tuple[int, int]:
        """Returns the pass, and the row in it, after `rows` rows of this share."""
        number = rows * self.shares // self._total
        while number and self.rows_before(number) > rows:
            number -= 1
        while self.rows_before(number + 1) <= rows:
            number += 1
        return number, rows - self.rows_before(number)

    def plan_from(self, number: int, row: int) -> PassPlan:
        """Returns what is left of pass `number` of this share after its first `row` rows."""
        lanes = self._dealt(self._pieces(number))
        table = self.table(lanes)
        ends = np.cumsum(table["rows"])
        window, begin = row // self.window, row // self.window * self.window
        block = int(np.searchsorted(ends, begin, side="right"))
        ahead = begin - int(ends[block] - table["rows"][block])
        # Number of finished blocks of each lane, and the lane whose turn it is.
        over = np.bincount(table["lane"][:block], minlength=len(lanes))
        turn = int(table["lane"][block])
        rest = [self._after(lane, int(blocks)) for lane, blocks in zip(lanes, over, strict=True)]
        return PassPlan(rest[turn:] + rest[:turn], window, ahead, row - begin)

    def table(self, lanes: Lanes) -> dict[str, Numbers]:
        """Returns the lanes' blocks in stream order, in columns: file, first row, rows, lane."""
        parts = [np.zeros((5, 0), np.int64)]
        for lane, pieces in enumerate(lanes):
            turn = 0
            for file, first, rows in pieces:
                starts = np.arange(0, rows, self.block_rows)
                turns = np.arange(turn, turn + len(starts))
                sizes = np.minimum(rows - starts, self.block_rows)
                same = np.ones_like(starts)
                parts.append(np.stack([file * same, first + starts, sizes, lane * same, turns]))
                turn += len(starts)
        columns = np.concatenate(parts, axis=1)
        columns = columns[:, np.lexsort((columns[3], columns[4]))]
        return dict(zip(("file", "row", "rows", "lane"), columns, strict=False))

    def to_dict(self) -> dict[str, Any]:
        return {
            "scheme": SCHEME,
            "seed": self.seed,
            "interleave": self.lanes,
            "block": self.block_rows,
            "window": self.window,
            "shares": self.shares,
        }

    @cached_property
    def _total(self) -> int:
        assert self.file_rows is not None
        return sum(self.file_rows)

    def rows_before(self, number: int) -> int:
        """Returns the number of rows of this share in all passes before pass `number`."""
        all_rows = number * self._total
        return all_rows * (self.share + 1) // self.shares - all_rows * self.share // self.shares

    def _pieces(self, number: int) -> list[Piece]:
        """Returns this share's pieces of a pass, in the order of the files in that pass."""
        generator = np.random.default_rng([self.seed % 2**64, number])
        files = [int(file) for file in generator.permutation(len(self.file_bytes))]
        if self.file_rows is None:
            return [(file, 0, TO_END) for file in files]
        if self.shares == 1:
            return [(file, 0, self.file_rows[file]) for file in files]
        # Cuts are placed so that the shares' numbers of rows, over all passes so far, differ by at
        # most one.
        begin, end = (
            (number + 1) * self._total * share // self.shares
            - number * self._total * share // self.shares
            for share in (self.share, self.share + 1)
        )
        ends = list(accumulate(self.file_rows[file] for file in files))
        pieces = []
        for file, last in zip(files, ends, strict=True):
            first = last - self.file_rows[file]
            low, high = max(begin, first), min(end, last)
            if low < high:
                pieces.append((file, low - first, high - low))
        return pieces

    def _after(self, pieces: list[Piece], blocks: int) -> list[Piece]:
        rest = []
        for file, first, rows in pieces:
            done = min(blocks, -(-rows // self.block_rows))
            blocks -= done
            if (skipped := done * self.block_rows) < rows:
                rest.append((file, first + skipped, rows - skipped))
        return rest

    def _dealt(self, pieces: list[Piece]) -> Lanes:
        lanes: Lanes = [[] for _ in range(self.lanes)]
        loads = [0.0] * self.lanes
        for file, first, rows in pieces:
            lightest = loads.index(min(loads))
            lanes[lightest].append((file, first, rows))
            whole = self.file_rows[file] if self.file_rows else 0
            loads[lightest] += (rows / whole if whole else 1.0) * self.file_bytes[file]
        return lanes


class RowOrder:
    """Row numbers of one share, in the order of training.

    It is for readers that can access any row at any time. `numbers` returns a slice of the endless
    stream of passes, so a batch may cross the ends of windows and passes. `first_numbers` has the
    number of the first row of each file.
    """

    def __init__(self, order: Order, first_numbers: Numbers, permute: Permute) -> None:
        self._order, self._first_numbers, self._permute = order, first_numbers, permute
        self._lock = threading.Lock()
        # Callers ask for neighbouring batches, which seldom need more than two passes or four
        # windows.
        self._blocks = lru_cache(maxsize=2)(self._blocks_of_pass)
        self._window = lru_cache(maxsize=4)(self._permuted)

    def numbers(self, begin: int, count: int) -> Numbers:
        """Returns int64 [count]: the row numbers of the stream from position `begin`."""
        parts = []
        with self._lock:  # so that no two threads permute the same window
            while count:
                number, row = self._order.locate(begin)
                window = self._window(number, row // self._order.window)
                part = window[row % self._order.window :][:count]
                parts.append(part)
                begin, count = begin + len(part), count - len(part)
        return np.concatenate(parts)

    def _blocks_of_pass(self, number: int) -> tuple[Numbers, Numbers]:
        table = self._order.table(self._order.plan(number).lanes)
        return self._first_numbers[table["file"]] + table["row"], np.cumsum(table["rows"])

    def _permuted(self, number: int, window: int) -> Numbers:
        first, ends = self._blocks(number)
        begin = window * self._order.window
        end = min(begin + self._order.window, int(ends[-1]))
        some = slice(np.searchsorted(ends, begin, "right"), np.searchsorted(ends, end) + 1)
        starts = np.concatenate([[0], ends[:-1]])[some]
        rows = np.minimum(ends[some], end) - np.maximum(starts, begin)
        numbers = np.repeat(first[some] - starts, rows) + np.arange(begin, end)
        return numbers[self._permute(self._order.seed, number, window, len(numbers))]


def numpy_permutation(seed: int, number: int, window: int, rows: int) -> npt.NDArray[Any]:
    """Returns the permutation of a window of packed rows, int [rows]."""
    return np.random.default_rng([seed % 2**64, number, window]).permutation(rows)


def tensorflow_permutation(seed: int, number: int, window: int, rows: int) -> npt.NDArray[Any]:
    """Returns the permutation of a window of row Examples, int [rows], without TensorFlow.

    It computes the same as `seeded_order` in `trainer/input/passes.py`: a radix sort by two random
    bytes per row.
    """
    keys = _stateless_bits(seed % 2**64, (number << ROW_BITS) + window, rows)
    low, high = ((keys >> shift & 255).astype(np.uint8) for shift in (0, 8))
    return np.argsort(low, kind="stable")[np.argsort(high, kind="stable")]


def _stateless_bits(seed: int, item: int, count: int) -> npt.NDArray[np.uint32]:
    """Returns the bits of `tf.random.stateless_uniform` (full-range int32, seed `[seed, item]`)."""
    low = 0xFFFFFFFF
    counter = np.array([[seed & low, seed >> 32, item & low, item >> 32]], np.uint64)
    # TensorFlow first scrambles the seed with a fixed key.
    mixed = _philox(counter, 0x3EC8F720, 0x02461E29)[0]
    blocks = -(-count // 4)
    places = np.arange(blocks, dtype=np.uint64)
    counters = np.stack(
        [places, np.zeros_like(places), mixed[2] + 0 * places, mixed[3] + 0 * places], axis=1
    )
    return _philox(counters, int(mixed[0]), int(mixed[1])).reshape(-1)[:count].astype(np.uint32)


def _philox(counters: npt.NDArray[np.uint64], key0: int, key1: int) -> npt.NDArray[np.uint64]:
    """Computes Philox 4x32-10 (Salmon et al. 2011) of uint32 counters [n, 4], stored as uint64."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = counters.T
    for _ in range(10):
        first, second = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (second >> shift) ^ c1 ^ np.uint64(key0),
            second & low,
            (first >> shift) ^ c3 ^ np.uint64(key1),
            first & low,
        )
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1)
