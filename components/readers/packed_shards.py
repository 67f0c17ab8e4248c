"""Rows of packed shards by number: columns of small values by block, large values one by one.

A row's number is `block * block_rows + row in the block`; blocks are counted through all shards in
order. A shard that changed since it was opened is an error that names it, at the next read.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.packing.layout import PackedColumn, PackedLayout
from penstock.components.readers.packed_file import PackedFile
from penstock.components.readers.packed_values import moved, plain, row_value
from penstock.components.tfrecord.checked import require_stamp, stamp_of

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

# Each open shard holds two files open; a process may have 1,024 open files.
_OPEN_FILES = 128
# Blocks are kept for the next batches: at least so many bytes, and those of two windows.
_KEPT_BYTES = 64 * 2**20
# If more rows than so many times the wanted ones are in their blocks, these are picked block by
# block; else all are joined first, to pick once.
_FEW = 8
# Alignment with which TensorFlow uses memory without a copy.
_ALIGNMENT = 64


class PackedShards:
    """Reads the named columns of rows of packed shards.

    `rows` is the number of rows of each file, `window_rows` that of rows which batches are picked
    from. With `in_memory`, all blocks are kept; `folder` is kept as long as this is.
    `first_numbers` has the number of the first row of each file.
    """

    def __init__(
        self,
        layout: PackedLayout,
        columns: Sequence[str],
        files: Sequence[str],
        rows: Sequence[int],
        *,
        window_rows: int = 0,
        in_memory: bool = False,
        folder: Any = None,
    ) -> None:
        self._folder = folder
        self.layout, self._files, self._rows = layout, tuple(files), tuple(rows)
        by_name = {column.name: column for column in layout.columns}
        self.columns = tuple(by_name[name] for name in columns)
        blocks = [-(-count // layout.block_rows) for count in self._rows]
        self._first_blocks = np.cumsum([0, *blocks])
        self.first_numbers = self._first_blocks[:-1] * layout.block_rows
        self._window_rows, self._in_memory = window_rows, in_memory
        self._stamps = tuple(map(stamp_of, self._files))
        self._start()

    def _start(self) -> None:
        self._lock = Lock()
        self._file = lru_cache(_OPEN_FILES)(self._opened)
        self._bounds = lru_cache(None)(lambda at, name: self._file(at).bounds(name))
        mean = sum(size for size, _ in self._stamps) / max(1, self._first_blocks[-1])
        in_windows = 2 * (2 + self._window_rows // self.layout.block_rows)
        kept = max(in_windows, int(_KEPT_BYTES / max(1.0, mean)))
        self._block = lru_cache(None if self._in_memory else kept)(self._read_block)

    def __getstate__(self) -> dict[str, Any]:
        started = ("_lock", "_file", "_bounds", "_block")
        return {name: value for name, value in vars(self).items() if name not in started}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    @property
    def _has_small(self) -> bool:
        return any(not column.is_large for column in self.columns)

    @cached_property
    def words(self) -> dict[str, pa.Array]:
        """The values of each column's dictionary, binary, which are the same in all shards."""
        names = [column.name for column in self.columns if column.storage == "words"]
        if not names:
            return {}
        first = self._stored_block(0)
        return {name: first.column(name).dictionary.cast(pa.large_binary()) for name in names}

    def row_bytes(self) -> float:
        """Returns the mean size of the wanted columns of a row, from the first rows."""
        size = 0.0
        if self._has_small:
            first = self.block(0)
            size = sum(sum(b.size for b in c.buffers() if b) for c in first.columns)
            size /= first.num_rows
        large = (column.name for column in self.columns if column.is_large)
        return size + sum(float(np.mean(self._bounds(0, name)[1])) for name in large)

    def all_numbers(self) -> Numbers:
        """Returns the numbers of all rows, file after file."""
        pairs = zip(self.first_numbers, self._rows, strict=True)
        return np.concatenate([np.arange(first, first + rows) for first, rows in pairs])

    def block(self, number: int) -> pa.RecordBatch:
        """Returns the columns of small values of a block."""
        with self._lock:  # pyarrow's reader is not made for several threads
            return self._block(number)

    def row(self, number: int) -> dict[str, Any]:
        """Returns a row as Python values by name."""
        block, place = divmod(number, self.layout.block_rows)
        small = self.block(block) if self._has_small else None
        arrays = dict(zip(small.schema.names, small.columns, strict=True)) if small else {}

        def value(column: PackedColumn) -> Any:
            if not column.is_large:
                return row_value(arrays[column.name], place, column, self.words.get(column.name))
            [found] = self._large(column, np.array([number]))
            return found if column.storage == "blob" else found.reshape(column.shape)

        return {column.name: value(column) for column in self.columns}

    def batch(self, numbers: Numbers) -> pa.RecordBatch:
        """Returns rows in any order, in the types of `plain`."""
        found = self.take(numbers)
        arrays = [plain(found[c.name], c, self.words.get(c.name)) for c in self.columns]
        return pa.RecordBatch.from_arrays(arrays, [column.name for column in self.columns])

    def take(self, numbers: Numbers) -> dict[str, Any]:
        """Returns rows in any order: by column, in one of the forms that `plain` takes."""
        small = self._small(numbers) if self._has_small else None
        return {
            c.name: self._large(c, numbers) if small is None or c.is_large else small.column(c.name)
            for c in self.columns
        }

    def _small(self, numbers: Numbers) -> pa.RecordBatch:
        found = pa.array(numbers // self.layout.block_rows).dictionary_encode()
        which, rows = found.indices.to_numpy(), numbers % self.layout.block_rows
        for at in {self._file_of(block) for block in found.dictionary.to_pylist()}:
            require_stamp(self._files[at], self._stamps[at])  # blocks may be in memory
        blocks = [self.block(block) for block in found.dictionary.to_pylist()]
        if len(blocks) == 1 and (np.diff(rows) == 1).all():
            return blocks[0].slice(int(rows[0]), len(rows))
        ends = np.cumsum([0, *(block.num_rows for block in blocks)])
        if _FEW * len(rows) < ends[-1]:
            # For integers of so few bits, argsort is a radix sort.
            order = np.argsort(which.astype(np.min_scalar_type(len(blocks))), kind="stable")
            parts = np.split(rows[order], np.cumsum(np.bincount(which))[:-1])
            blocks = [b.take(pa.array(some)) for b, some in zip(blocks, parts, strict=True)]
            index = np.empty_like(order)
            index[order] = np.arange(len(order))
        else:
            index = ends[which] + rows
        [joined] = pa.Table.from_batches(blocks).combine_chunks().to_batches()
        return joined.take(pa.array(index))

    def _large(self, column: PackedColumn, numbers: Numbers) -> Any:
        """Returns large values, each by one read: a list of bytes, or pixels, [rows, width]."""
        reads = self._reads(column.name, numbers)
        if column.storage == "blob":
            return [file.read(begin, size) for file, begin, size in reads]
        pixels = aligned((len(numbers), column.width), "uint8")
        for target, (file, begin, _) in zip(pixels, reads, strict=True):
            file.read_into(begin, target)
        return pixels

    def _reads(self, name: str, numbers: Numbers) -> Iterator[tuple[PackedFile, int, int]]:
        """Yields the file, begin and size of values; after the last one, checks these files."""
        which = np.searchsorted(self.first_numbers, numbers, "right") - 1
        rows = numbers - self.first_numbers[which]
        begins, sizes = np.empty_like(numbers), np.empty_like(numbers)
        files: dict[int, PackedFile] = {}
        for at in np.unique(which).tolist():
            some = which == at
            for values, found in zip((begins, sizes), self._bounds(at, name), strict=True):
                values[some] = found[rows[some]]
            files[at] = self._file(at)
        for at, begin, size in zip(which.tolist(), begins.tolist(), sizes.tolist(), strict=True):
            yield files[at], begin, size
        for file in files.values():
            file.require_unchanged()

    def _opened(self, at: int) -> PackedFile:
        stamp = self._stamps[at]
        return PackedFile(self._files[at], self._rows[at], self.layout, self.columns, stamp)

    def _file_of(self, block: int) -> int:
        return bisect_right(self._first_blocks, block) - 1

    def _read_block(self, number: int) -> pa.RecordBatch:
        stored = self._stored_block(number)
        by_name = {column.name: column for column in self.columns}
        names = stored.schema.names
        arrays = [moved(a, by_name[name]) for name, a in zip(names, stored.columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names)

    def _stored_block(self, number: int) -> pa.RecordBatch:
        at = self._file_of(number)
        return self._file(at).batch(number - self._first_blocks[at])


def aligned(shape: tuple[int, ...], dtype: str) -> Array:
    """Returns an uninitialised array that TensorFlow can use without a copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    data = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -data.ctypes.data % _ALIGNMENT
    return data[begin : begin + size].view(dtype).reshape(shape)
