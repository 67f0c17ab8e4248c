"""Rows of packed shards by number: columns of small values by block, large values one by one.

A row's number is `block * block_rows + row in the block`; blocks are counted through all shards in
order. A shard that changed since it was opened is an error that names it, at the next read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.packing.layout import PackedLayout
from penstock.components.readers.packed_file import PackedFile
from penstock.components.readers.packed_values import row_value
from penstock.components.tfrecord.checked import require_stamp, stamp_of

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]

# Each open shard holds two files open; a process may have 1,024 open files.
_OPEN_FILES = 128
# Blocks are kept for the next batches: at least so many bytes, and those of two windows.
_KEPT_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Places:
    """Where wanted rows are: rows of each block, and the place of these among the wanted rows."""

    blocks: list[int]
    rows: list[Array]  # of each block
    inverse: Array  # of each wanted row, its place in the joined `rows`


class PackedShards:
    """Reads the named columns of rows of packed shards.

    `rows` is the number of rows of each file, `window_rows` that of rows which batches are picked
    from. With `in_memory`, the content of all files is kept; `folder` is kept as long as this is.
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
        self._file = lru_cache(None if self._in_memory else _OPEN_FILES)(self._opened)
        self._bounds = lru_cache(None)(lambda at, name: self._file(at).bounds(name))
        mean = sum(size for size, _ in self._stamps) / max(1, self._first_blocks[-1])
        in_windows = 2 * (2 + self._window_rows // self.layout.block_rows)
        # Number of blocks that are kept, also by those who make something else of them.
        self.kept_blocks = max(in_windows, int(_KEPT_BYTES / max(1.0, mean)))
        self._block = lru_cache(self.kept_blocks)(self._read_block)

    def __getstate__(self) -> dict[str, Any]:
        started = ("_lock", "_file", "_bounds", "_block")
        return {name: value for name, value in vars(self).items() if name not in started}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    @property
    def has_small(self) -> bool:
        return any(not column.is_large for column in self.columns)

    @cached_property
    def words(self) -> dict[str, pa.Array]:
        """The values of each column's dictionary, which are the same in all shards."""
        names = [column.name for column in self.columns if column.storage == "words"]
        return {name: self.column(0, name).dictionary for name in names}

    def row_bytes(self) -> float:
        """Returns the mean size of the wanted columns of a row, from the first rows."""
        size = 0.0
        if self.has_small:
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
        numbers, place = np.array([number]), number % self.layout.block_rows
        found: dict[str, Any] = {}
        for column in self.columns:
            if column.storage == "blob":
                [found[column.name]] = self.blobs(column.name, numbers)
            elif column.is_large:
                pixels = np.empty((1, column.width), np.uint8)
                self.read_pixels(column.name, numbers, pixels)
                found[column.name] = pixels.reshape(column.shape)
            else:
                array = self.column(number // self.layout.block_rows, column.name)
                found[column.name] = row_value(array, place, column)
        return found

    def column(self, number: int, name: str) -> pa.Array:
        """Returns a column of small values of a block."""
        block = self.block(number)
        return block.column(block.schema.get_field_index(name))

    def places(self, numbers: Numbers) -> Places:
        blocks = numbers // self.layout.block_rows
        found = np.unique(blocks)
        for at in np.unique(np.searchsorted(self._first_blocks, found, "right") - 1).tolist():
            require_stamp(self._files[at], self._stamps[at])  # blocks may be in memory
        which = np.searchsorted(found, blocks)
        # Sorted by block; for integers of so few bits, argsort is a radix sort.
        order = np.argsort(which.astype(np.min_scalar_type(len(found))), kind="stable")
        rows = (numbers - blocks * self.layout.block_rows)[order]
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        cuts = np.cumsum(np.bincount(which))[:-1]
        return Places(found.tolist(), np.split(rows, cuts), inverse)

    def take(self, numbers: Numbers) -> pa.RecordBatch:
        """Returns rows in any order, in columns as they are stored."""
        arrays: dict[str, pa.Array] = {}
        if self.has_small:
            batch = self._take_small(numbers)
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for column in self.columns:
            if column.storage == "blob":
                arrays[column.name] = pa.array(self.blobs(column.name, numbers), column.type)
            elif column.is_large:
                pixels = np.empty((len(numbers), column.width), np.uint8)
                self.read_pixels(column.name, numbers, pixels)
                buffers = [None, pa.py_buffer(pixels)]
                arrays[column.name] = pa.Array.from_buffers(column.type, len(numbers), buffers)
        names = [column.name for column in self.columns]
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], names)

    def _take_small(self, numbers: Numbers) -> pa.RecordBatch:
        places = self.places(numbers)
        batches = [self.block(block) for block in places.blocks]
        if len(batches) == 1 and (np.diff(numbers) == 1).all():
            return batches[0].slice(int(places.rows[0][0]), len(numbers))
        parts = [b.take(pa.array(rows)) for b, rows in zip(batches, places.rows, strict=True)]
        [joined] = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return joined.take(pa.array(places.inverse))

    def blobs(self, name: str, numbers: Numbers) -> list[bytes]:
        """Returns large values, each by one read."""
        return [file.read(begin, size) for file, begin, size in self._reads(name, numbers)]

    def read_pixels(self, name: str, numbers: Numbers, out: Array) -> None:
        """Fills `out`, uint8 [rows, width], with large images, each by one read."""
        for target, (file, begin, _) in zip(out, self._reads(name, numbers), strict=True):
            file.read_into(begin, target)

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
        return PackedFile(
            self._files[at],
            self._rows[at],
            self.layout,
            self.columns,
            self._stamps[at],
            in_memory=self._in_memory,
        )

    def _read_block(self, number: int) -> pa.RecordBatch:
        at = int(np.searchsorted(self._first_blocks, number, "right")) - 1
        batch = self._file(at).batch(number - int(self._first_blocks[at]))
        if number:
            self._require_same_words(batch, self._files[at])
        return batch

    def _require_same_words(self, batch: pa.RecordBatch, file: str) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not pa.types.is_dictionary(column.type):
                continue
            first = self._block(0)
            words = first.column(first.schema.get_field_index(name)).dictionary
            if column.dictionary is not words and not column.dictionary.equals(words):
                raise DataError(f"{file}: column {name!r} has other words than the first shard")
