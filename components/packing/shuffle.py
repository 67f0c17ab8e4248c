"""Any number of rows in an order that a seed decides, in bounded memory: Arrow batches in and out.

Each row gets a random 64-bit key, decided by the seed, the split and the row's place. The
rows in the order of their keys are a uniformly random permutation. Keys fall evenly, so the
keys' range is cut into buckets that fit into memory: a first pass sorts a chunk of rows at a time
and appends each bucket's part to its file, a second reads bucket after bucket and sorts each. Rows
that fit into memory as they are never touch the disk.

A column with one value in each row moves without the lists around its values, four times as fast.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# 256 buckets of 256 MiB are 64 GiB.
_MAX_BUCKETS = 256
# Of the memory that the shuffle may take: a chunk is there twice while it is sorted.
_CHUNK_SHARE = 4
_KEYS = 2**63

Keys = npt.NDArray[np.int64]


class RowShuffler:
    """Takes all rows of a split, then gives them back shuffled.

    Args:
        folder: For the buckets; made where it is needed and emptied bucket by bucket.
        name: The split's; two splits are not shuffled alike.
        seed: Decides the order.
        expected_bytes: About how many bytes the rows have.
        memory_bytes: About how many may be in memory.
    """

    def __init__(
        self, folder: Path, name: str, *, seed: int, expected_bytes: int, memory_bytes: int
    ) -> None:
        digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
        self._random = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
        buckets = min(_MAX_BUCKETS, -(-expected_bytes // memory_bytes))
        self._files = [folder / f"{name}-{i:03d}" for i in range(buckets)] if buckets > 1 else []
        self._chunk_bytes = memory_bytes // _CHUNK_SHARE
        self._waiting = _Rows()
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows; columns are lists, or of type null where no row has a value."""
        keys = self._random.integers(0, _KEYS, batch.num_rows, np.int64)
        self._waiting.add(keys, _without_lists(batch))
        self.rows += batch.num_rows
        if self._files and self._waiting.bytes >= self._chunk_bytes:
            self._spill()

    def shuffled(self, sizes: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """All rows, once, in their new order, columns as they came.

        Args:
            sizes: How many rows each batch has; their sum is the number of rows.
        """
        buckets = self._buckets()
        order: Keys = np.empty(0, np.int64)
        rows: pa.RecordBatch = None
        for size in sizes:
            parts = []
            while size:
                if not len(order):
                    rows, order = next(buckets)
                parts.append(rows.take(pa.array(order[:size])))
                order, size = order[size:], size - parts[-1].num_rows
            yield _with_lists(_joined(parts))

    def _spill(self) -> None:
        """Append the rows that wait to the files of their buckets."""
        keys, rows = self._waiting.take()
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows.take(pa.array(order))
        step = _KEYS // len(self._files) + 1
        ends = np.searchsorted(keys // step, np.arange(len(self._files)), side="right").tolist()
        self._files[0].parent.mkdir(parents=True, exist_ok=True)
        for path, begin, end in zip(self._files, [0, *ends[:-1]], ends, strict=True):
            _append(path, keys[begin:end], rows.slice(begin, end - begin))

    def _buckets(self) -> Iterator[tuple[pa.RecordBatch, Keys]]:
        """The rows of each bucket, and their order."""
        if not self._files:
            keys, rows = self._waiting.take()
            yield rows, np.argsort(keys, kind="stable")
            return
        self._spill()
        for path in self._files:
            found = _Rows()
            for keys, part in _read(path):
                found.add(keys, part)
            path.unlink()
            if found.bytes:
                keys, rows = found.take()
                yield rows, np.argsort(keys, kind="stable")


class _Rows:
    """Rows with their keys, in memory."""

    def __init__(self) -> None:
        self._keys: list[Keys] = []
        self._batches: list[pa.RecordBatch] = []
        self.bytes = 0

    def add(self, keys: Keys, batch: pa.RecordBatch) -> None:
        self._keys.append(keys)
        self._batches.append(batch)
        self.bytes += keys.nbytes + batch.nbytes

    def take(self) -> tuple[Keys, pa.RecordBatch]:
        """All of them as they came; they are forgotten."""
        keys, batches = self._keys, self._batches
        self._keys, self._batches, self.bytes = [], [], 0
        return np.concatenate([np.empty(0, np.int64), *keys]), _joined(batches)


def _append(path: Path, keys: Keys, rows: pa.RecordBatch) -> None:
    """Each part is a stream of its own, as parts may differ in their columns' types."""
    batch = pa.RecordBatch.from_arrays([pa.array(keys), *rows.columns], ["", *rows.schema.names])
    with path.open("ab") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)


def _read(path: Path) -> Iterator[tuple[Keys, pa.RecordBatch]]:
    with path.open("rb") as file:
        size = path.stat().st_size
        while file.tell() < size:
            for batch in pa.ipc.open_stream(file):
                keys, *columns = batch.columns
                names = batch.schema.names[1:]
                yield keys.to_numpy(), pa.RecordBatch.from_arrays(columns, names)


def _without_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The values themselves of columns that have one in each row."""
    each = np.arange(batch.num_rows + 1)
    columns = [
        column.flatten()
        if pa.types.is_large_list(column.type)
        and not column.null_count
        and np.array_equal(column.offsets.to_numpy() - column.offsets[0].as_py(), each)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _with_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_as_list(column, column.type) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _as_list(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as lists of one value where it is of values; of nulls, as nulls of a type."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pa.types.is_large_list(column.type):
        return column
    return pa.LargeListArray.from_arrays(pa.array(np.arange(len(column) + 1)), column)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of batches whose columns may be missing, of nulls, of values or of lists."""
    names = sorted({name for batch in batches for name in batch.schema.names})
    columns = []
    for name in names:
        parts = [
            batch.column(batch.schema.get_field_index(name))
            if name in batch.schema.names
            else pa.nulls(batch.num_rows)
            for batch in batches
        ]
        kinds = {part.type for part in parts}
        if len(kinds) > 1:
            kind = next(_as_list(pa.array([], k), k).type for k in kinds if not pa.types.is_null(k))
            parts = [_as_list(part, kind) for part in parts]
        columns.append(pa.concat_arrays(parts))
    return pa.RecordBatch.from_arrays(columns, names)
