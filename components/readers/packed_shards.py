"""Rows of packed shards by number: reads small values by block, large values one by one.

A row's number is `block * block_rows + row in the block`; blocks are numbered through all shards in
order. If a shard has changed since it was opened, the next read raises an error that names it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.packing.layout import PackedColumn, PackedLayout
from penstock.components.readers.packed_file import PackedFile
from penstock.components.tfrecord.checked import require_stamp, stamp_of

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

# Each open shard takes two file descriptors; the usual limit of a process is 1,024.
_OPEN_FILES = 128
# Blocks are kept for the next batches: the blocks of two windows, and at least this number of
# bytes.
_KEPT_BYTES = 64 * 2**20
# If the blocks contain more than this number of rows for each wanted row, rows are picked from each
# block; otherwise all blocks are joined first, and rows are picked once from the result.
_FEW = 8
# Alignment of memory that TensorFlow can use without a copy.
_ALIGNMENT = 64


class PackedShards:
    """Reads the named columns of rows of packed shards.

    `rows` is the number of rows of each file. `stamps` are the sizes and modification times that
    the files must have; by default their present ones. Batches are picked from windows of
    `window_rows` rows. With `in_memory`, all blocks are kept. `first_numbers` has the number of the
    first row of each file.
    """

    def __init__(
        self,
        layout: PackedLayout,
        columns: Sequence[str],
        files: Sequence[str],
        rows: Sequence[int],
        *,
        stamps: Sequence[tuple[int, int]] = (),
        window_rows: int = 0,
        in_memory: bool = False,
    ) -> None:
        self.layout, self._files, self._rows = layout, tuple(files), tuple(rows)
        by_name = {column.name: column for column in layout.columns}
        self.columns = tuple(by_name[name] for name in columns)
        blocks = [-(-count // layout.block_rows) for count in self._rows]
        self._first_blocks = np.cumsum([0, *blocks])
        self.first_numbers = self._first_blocks[:-1] * layout.block_rows
        self._stamps = tuple(stamps or map(stamp_of, self._files))
        self._lock = Lock()
        self._file = lru_cache(_OPEN_FILES)(self._opened)
        self._bounds = lru_cache(None)(lambda at, name: self._file(at).bounds(name))
        mean = sum(size for size, _ in self._stamps) / max(1, self._first_blocks[-1])
        in_windows = 2 * (2 + window_rows // layout.block_rows)
        kept = max(in_windows, int(_KEPT_BYTES / max(1.0, mean)))
        self._block = lru_cache(None if in_memory else kept)(self._read_block)

    @cached_property
    def words(self) -> dict[str, pa.Array]:
        """Values of each column's dictionary, as binary; they are the same in all shards."""
        names = [column.name for column in self.columns if column.storage == "words"]
        if not names:
            return {}
        first = self._stored_block(0)
        return {name: first.column(name).dictionary.cast(pa.large_binary()) for name in names}

    def all_numbers(self) -> Numbers:
        """Returns the numbers of all rows, in the order of the files."""
        pairs = zip(self.first_numbers, self._rows, strict=True)
        return np.concatenate([np.arange(first, first + rows) for first, rows in pairs])

    def block(self, number: int) -> pa.RecordBatch:
        """Returns the columns of small values in a block."""
        with self._lock:  # pyarrow's reader is not made for several threads
            return self._block(number)

    def batch(self, numbers: Numbers) -> pa.RecordBatch:
        """Returns the rows with the given `numbers`, in this order, in the types of `plain`."""
        small = None if all(c.is_large for c in self.columns) else self._small(numbers)
        arrays = [
            self._large(c, numbers)
            if small is None or c.is_large
            else plain(small.column(c.name), c, self.words.get(c.name))
            for c in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, [column.name for column in self.columns])

    def _small(self, numbers: Numbers) -> pa.RecordBatch:
        found = pa.array(numbers // self.layout.block_rows).dictionary_encode()
        which, rows = found.indices.to_numpy(), numbers % self.layout.block_rows
        for at in {self._file_of(block) for block in found.dictionary.to_pylist()}:
            require_stamp(self._files[at], self._stamps[at])  # even if the blocks are in memory
        blocks = [self.block(block) for block in found.dictionary.to_pylist()]
        if len(blocks) == 1 and (np.diff(rows) == 1).all():
            return blocks[0].slice(int(rows[0]), len(rows))
        ends = np.cumsum([0, *(block.num_rows for block in blocks)])
        if _FEW * len(rows) < ends[-1]:
            # NumPy's stable argsort is a radix sort for integers of at most 16 bits.
            order = np.argsort(which.astype(np.min_scalar_type(len(blocks))), kind="stable")
            parts = np.split(rows[order], np.cumsum(np.bincount(which))[:-1])
            blocks = [b.take(pa.array(some)) for b, some in zip(blocks, parts, strict=True)]
            index = np.empty_like(order)
            index[order] = np.arange(len(order))
        else:
            index = ends[which] + rows
        [joined] = pa.Table.from_batches(blocks).combine_chunks().to_batches()
        return joined.take(pa.array(index))

    def _large(self, column: PackedColumn, numbers: Numbers) -> pa.Array:
        """Returns large values; each is read by one call, directly to its place in the result."""
        which = np.searchsorted(self.first_numbers, numbers, "right") - 1
        rows = numbers - self.first_numbers[which]
        begins, sizes = np.empty_like(numbers), np.empty_like(numbers)
        files = np.unique(which).tolist()
        for at in files:
            some = which == at
            for values, found in zip((begins, sizes), self._bounds(at, column.name), strict=True):
                values[some] = found[rows[some]]
        ends = np.append(0, np.cumsum(sizes))
        data = _aligned(int(ends[-1]))
        for at in files:
            file = self._file(at)
            for place in np.flatnonzero(which == at).tolist():
                file.read_into(int(begins[place]), data[ends[place] : ends[place + 1]])
            file.require_unchanged()
        if column.storage == "uint8":
            return shaped(pa.array(data), column)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        blobs = pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)
        return shaped(short(blobs), column)

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


def _aligned(size: int) -> Array:
    """Returns an uninitialised uint8 array that TensorFlow can use without a copy."""
    data = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -data.ctypes.data % _ALIGNMENT
    return data[begin : begin + size]


def moved(array: pa.Array, column: PackedColumn) -> pa.Array:
    """Converts a block's column, without a copy, to a type in which picking rows is cheap.

    Dictionary values become their ids, texts become binary, and several numbers per row become
    bytes.
    """
    if column.storage == "words":
        return array.indices
    if column.storage == "list":
        return pa.ListArray.from_arrays(array.offsets, _binary(array.values))
    if column.width == 1 or column.storage == "uint8":
        return _binary(array)
    if column.kind == "BYTES" and column.storage == "text":
        return pa.FixedSizeListArray.from_arrays(_binary(array.values), column.width)
    kind = pa.binary(column.width * array.type.value_type.bit_width // 8)
    return pa.Array.from_buffers(kind, len(array), [None, array.values.buffers()[1]])


def plain(values: pa.Array, column: PackedColumn, words: pa.Array | None) -> pa.Array:
    """Returns picked rows of a column as int64, float32, int32, uint8, binary or lists.

    Args:
        values: Array of a type that `moved` returns.
        column: Description of the column.
        words: Values of the column's dictionary, if it has one.
    """
    if column.storage == "list":
        ends = values.offsets.to_numpy()
        return pa.ListArray.from_arrays(ends - ends[0], short(values.flatten()))
    if column.storage in ("words", "text"):
        values = values if words is None else words.take(values)
        found = short(values.flatten() if pa.types.is_fixed_size_list(values.type) else values)
    else:
        kind, first = pa.from_numpy_dtype(column.storage), values.offset * column.width
        buffers = [None, values.buffers()[1]]
        found = pa.Array.from_buffers(kind, len(values) * column.width, buffers, offset=first)
    return shaped(found, column)


def shaped(values: pa.Array, column: PackedColumn) -> pa.Array:
    """Groups values into rows of `column.width` values, as lists unless a row is one value."""
    is_single = column.shape in ((), (1,))
    return values if is_single else pa.FixedSizeListArray.from_arrays(values, column.width)


def row_value(array: pa.Array, column: PackedColumn) -> Any:
    """Returns the first row of an array from `plain`: int, float, bytes, or a NumPy array."""
    if column.storage != "list" and column.shape in ((), (1,)):
        return array[0].as_py()
    values = array.flatten().to_numpy(zero_copy_only=False)
    return values if column.storage == "list" else values.reshape(column.shape)


def _binary(array: pa.Array) -> pa.Array:
    return array.view(pa.large_binary()) if pa.types.is_large_string(array.type) else array


def short(array: pa.Array) -> pa.Array:
    return array.cast(pa.binary()) if pa.types.is_large_binary(array.type) else array
