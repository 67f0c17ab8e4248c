"""The order of a training's rows, as a function of (seed, pass, shards): numbers only.

    files     permuted anew every pass
    workers   each takes a run of the blocks of all files; a file may be cut between two
    lanes     files that are read at a time; each file is dealt to the lane with the fewest bytes
    stream    one block of each lane in turn, until the lanes end
    windows   rows cut from the stream, which are permuted elsewhere

A block is `block_rows` rows of one file in a row, the last one of a file fewer. As all of this is
reckoned, a training goes on at any row without reading those before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

SCHEME = 1
"""Of what is said above; another order is another number."""

TO_END = -1
"""As the number of a piece's blocks: all from its first on, however many."""

# (file, first block, blocks)
Stretch = tuple[int, int, int]
Lanes = list[list[Stretch]]


@dataclass(frozen=True)
class PassPlan:
    """What is to be read of a pass.

    Attributes:
        lanes: Pieces of files, lane by lane; the lane that has its turn first is the first.
        window: Number of the first window in its pass.
        ahead: Rows of the stream before that window, less than a block: to be left out.
        drop: Rows of the first window, once permuted, to be left out.
    """

    lanes: Lanes
    window: int = 0
    ahead: int = 0
    drop: int = 0


@dataclass(frozen=True)
class Order:
    """The order of one worker's rows.

    Attributes:
        seed: A 64-bit integer.
        file_bytes: Sizes of the files.
        lanes: Files that are read at a time; at least 1.
        block_rows: Rows of a block.
        window: Rows of a window.
        file_rows: Rows of each file; None is enough for one worker that begins at the beginning.
        workers: How many share the rows.
        worker: Which of them this is, from 0.
    """

    seed: int
    file_bytes: Sequence[int]
    lanes: int
    block_rows: int
    window: int
    file_rows: Sequence[int] | None = None
    workers: int = 1
    worker: int = 0
    # By pass: the cuts between workers; and by worker, the rows before its cuts in all passes.
    _cuts: list[list[int]] = field(default_factory=list, compare=False)
    _before: list[int] = field(default_factory=list, compare=False)

    def plan(self, number: int) -> PassPlan:
        """All of this worker's rows in a pass, counted from 0."""
        return PassPlan(self._dealt(self._pieces(number)))

    def locate(self, rows: int) -> tuple[int, int]:
        """The pass, and the row in it, that this worker comes to after `rows` rows."""
        assert self.file_rows is not None
        if self.workers == 1:
            return divmod(rows, sum(self.file_rows))
        number = 0
        while rows >= (share := self._rows_of(self._pieces(number))):
            rows, number = rows - share, number + 1
        return number, rows

    def plan_from(self, number: int, row: int) -> PassPlan:
        """What is left of this worker's rows in a pass after `row` of them."""
        lanes = self._dealt(self._pieces(number))
        table = self.table(lanes)
        ends = np.cumsum(table["rows"])
        window, begin = row // self.window, row // self.window * self.window
        block = int(np.searchsorted(ends, begin, side="right"))
        ahead = begin - int(ends[block] - table["rows"][block])
        # Blocks of each lane that are over, and the lane whose turn it is.
        over = np.bincount(table["lane"][:block], minlength=len(lanes))
        turn = int(table["lane"][block])
        rest = [
            list(_between(lane, int(n), sum(count for _, _, count in lane)))
            for lane, n in zip(lanes, over, strict=True)
        ]
        return PassPlan(rest[turn:] + rest[:turn], window, ahead, row - begin)

    def table(self, lanes: Lanes) -> dict[str, npt.NDArray[np.int64]]:
        """The blocks of some lanes in the order of the stream: file, block, rows and lane each."""
        assert self.file_rows is not None
        parts = [
            [np.full(count, file), np.arange(first, first + count), np.full(count, lane), turns]
            for lane, pieces in enumerate(lanes)
            for turn, (file, first, count) in _turns(pieces)
            for turns in [np.arange(turn, turn + count)]
        ]
        columns = np.concatenate([np.zeros((4, 0), np.int64), *parts], axis=1)
        file, block, lane, _ = columns = columns[:, np.lexsort((columns[2], columns[3]))]
        rows = np.minimum(
            np.asarray(self.file_rows)[file] - block * self.block_rows, self.block_rows
        )
        return {"file": file, "block": block, "rows": rows, "lane": lane}

    def to_dict(self) -> dict[str, Any]:
        """What the order depends on, by name, as JSON values."""
        return {
            "scheme": SCHEME,
            "seed": self.seed,
            "shards": list(self.file_bytes),
            "interleave": self.lanes,
            "block": self.block_rows,
            "window": self.window,
            "workers": self.workers,
        }

    def _permuted(self, number: int) -> list[int]:
        generator = np.random.default_rng([self.seed % 2**64, number])
        return [int(file) for file in generator.permutation(len(self.file_bytes))]

    def _blocks(self, file: int) -> int:
        if self.file_rows is None:
            return TO_END
        return -(-self.file_rows[file] // self.block_rows)

    def _pieces(self, number: int) -> list[Stretch]:
        """This worker's pieces of a pass, in the order of the files there."""
        pieces = [(file, 0, self._blocks(file)) for file in self._permuted(number)]
        if self.workers == 1:
            return pieces
        while len(self._cuts) <= number:
            self._cut_next()
        begin, end = self._cuts[number][self.worker : self.worker + 2]
        return list(_between(pieces, begin, end))

    def _cut_next(self) -> None:
        """Cut another pass between the workers, so that all have as many rows in all so far.

        A cut is between blocks. What it misses is made up for in the next pass, so that workers
        come to a pass within a block's rows of each other, however many passes there were.
        """
        assert self.file_rows is not None
        number = len(self._cuts)
        pieces = [[(file, 0, self._blocks(file)) for file in self._permuted(number)]]
        ends = np.concatenate([[0], np.cumsum(self.table(pieces)["rows"])])
        self._before.extend([0] * (self.workers - len(self._before)))
        cuts = [0]
        for worker in range(1, self.workers):
            wanted = (number + 1) * int(ends[-1]) * worker // self.workers - self._before[worker]
            cuts.append(max(cuts[-1], int(np.abs(ends - wanted).argmin())))
            self._before[worker] += int(ends[cuts[-1]])
        self._cuts.append([*cuts, len(ends) - 1])

    def _dealt(self, pieces: list[Stretch]) -> Lanes:
        lanes: Lanes = [[] for _ in range(self.lanes)]
        loads = [0.0] * self.lanes
        for file, first, count in pieces:
            lightest = loads.index(min(loads))
            lanes[lightest].append((file, first, count))
            share = count / self._blocks(file) if self._blocks(file) else 1.0
            loads[lightest] += share * self.file_bytes[file]
        return lanes

    def _rows_of(self, pieces: list[Stretch]) -> int:
        return int(self.table([pieces])["rows"].sum()) if pieces else 0


def _turns(pieces: list[Stretch]) -> Iterator[tuple[int, Stretch]]:
    """Each piece of a lane, and the lane's turn at which its first block comes."""
    turn = 0
    for piece in pieces:
        yield turn, piece
        turn += piece[2]


def _between(pieces: list[Stretch], begin: int, end: int) -> Iterator[Stretch]:
    """What of some pieces lies between two of their blocks."""
    for turn, (file, first, count) in _turns(pieces):
        low, high = max(begin, turn), min(end, turn + count)
        if low < high:
            yield file, first + low - turn, high - low
