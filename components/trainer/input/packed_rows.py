"""Maps packed shards into memory and returns the arrays of rows with given numbers.

A row is copied only once, from the page cache to its place in the batch, without a system call;
only wanted sections are touched. A row's number is `block * block_rows + row in the block`; blocks
are counted through all shards in order.
"""

import posixpath
import tempfile
from collections import defaultdict
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.components.packing.block import BlockView, example_of, view_block
from penstock.components.packing.layout import PackedLayout, Section
from penstock.components.tfrecord.checked import require_stamp, stamp_of
from penstock.components.tfrecord.framing import payload_bounds
from penstock.components.tfrecord.records import read_records
from penstock.components.trainer.input.files import InputFiles

# Each map holds a file open; a process may have 1,024 open files.
_MAX_MAPS = 256
_MAX_VIEWS = 64
# Rows of this size or more are copied one by one, smaller ones by NumPy.
_LARGE_ROW_BYTES = 4096
# Alignment with which TensorFlow can use memory without a copy.
_TENSOR_ALIGNMENT = 64

Array = npt.NDArray[Any]
Picked = list[Array]


class PackedRows:
    """The rows of some shards; remote shards are copied to a temporary folder of this machine.

    Only sections with a wanted column are touched. `first_numbers` has the number of the first row
    of each file; `plain` has the text slots that are plain in any block.
    """

    def __init__(
        self,
        files: InputFiles,
        layout: PackedLayout,
        wanted: Collection[str],
        *,
        in_memory: bool = False,
    ) -> None:
        self.layout = layout
        self.sections = tuple(
            s for s in layout.sections if any(c.name in wanted for c in s.columns)
        )
        self.has_cells = any(section.name == "cell" for section in self.sections)
        self._files = files.files
        self._rows = files.counted()
        self._local = self._copied() if "://" in files.files[0] else files.files
        self._stamps = {path: stamp_of(path) for path in self._local}
        self._read = _whole if in_memory else _mapped
        self._map = lru_cache(None if in_memory else _MAX_MAPS)(self._unchanged)
        self._view = lru_cache(_MAX_VIEWS)(self._view_of)
        self._tagged = lru_cache(_MAX_VIEWS * max(1, sum(map(len, layout.slots.values()))))(
            self._tagged_of
        )
        self._free: dict[int, list[Array]] = defaultdict(list)
        self._payloads = [self._find_payloads(number) for number in range(len(files.files))]
        self._first_blocks = np.cumsum([0, *map(len, self._payloads)])
        self.first_numbers = self._first_blocks[:-1] * layout.block_rows
        self.text_bytes = 0  # maximum, over blocks, of bytes per row of plain texts
        self.plain = self._plain_slots(wanted) if self.has_cells else ()

    @property
    def row_bytes(self) -> int:
        return sum(section.row_bytes for section in self.sections)

    def all_numbers(self) -> npt.NDArray[np.int64]:
        """Returns the numbers of all rows, int64 [rows], file after file."""
        pairs = zip(self.first_numbers, self._rows, strict=True)
        return np.concatenate([np.arange(first, first + rows) for first, rows in pairs])

    def pick(self, numbers: npt.NDArray[np.int64]) -> Picked:
        """Returns the rows with the given numbers, int64 [rows], in any order.

        The result has one array `[rows, width]` per section of `sections`; then int32 [rows], the
        index of each row's dictionary; then the serialised dictionaries, empty if no wanted column
        has cells; then an Example with the texts of each slot of `plain`.
        """
        blocks = numbers // self.layout.block_rows
        found = np.unique(blocks)
        places = np.searchsorted(found, blocks)
        # Sorted by block; for integers of so few bits, argsort is a radix sort.
        order = np.argsort(places.astype(np.min_scalar_type(len(found))), kind="stable")
        rows = (numbers - blocks * self.layout.block_rows)[order]
        views = [self._view(int(block)) for block in found]
        cuts = np.cumsum(np.bincount(places))[:-1]
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        picked = []
        for section in self.sections:
            target = self._array(len(numbers), section)
            parts = [view.sections[section.name] for view in views]
            some = zip(parts, np.split(rows, cuts), strict=True)
            if section.row_bytes < _LARGE_ROW_BYTES:
                # Two copies, each sequential on one side, take half the time of a random one.
                by_block, begin = self._array(len(numbers), section), 0
                for part, taken in some:
                    end = begin + len(taken)
                    # With the default mode, NumPy would buffer `out`.
                    np.take(part, taken, axis=0, out=by_block[begin:end], mode="clip")
                    begin = end
                np.take(by_block, inverse, axis=0, out=target, mode="clip")
            else:
                sources = (part[row] for part, taken in some for row in taken.tolist())
                for place, row in zip(order.tolist(), sources, strict=True):
                    target[place] = row
            picked.append(target)
        dictionaries = [bytes(view.dictionary) for view in views] if self.has_cells else []
        texts: list[bytes] = []
        if self.plain:
            first = np.cumsum([0, *(view.rows for view in views)])
            # If few rows are wanted, the rows of each block are taken before blocks are joined.
            is_part = 2 * len(numbers) < first[-1]
            within = numbers % self.layout.block_rows
            index = pa.array(inverse if is_part else first[places] + within)
            of_blocks = [pa.array(some) for some in np.split(rows, cuts)] if is_part else None
            texts = [self._text(slot, found.tolist(), of_blocks, index) for slot in self.plain]
        return [
            *picked,
            places.astype(np.int32),
            np.array(dictionaries, object),
            np.array(texts, object),
        ]

    def _text(
        self, slot: int, blocks: list[int], taken: list[pa.Array] | None, index: pa.Array
    ) -> bytes:
        """Returns an Example of texts at `index` in the joined blocks, or in their `taken` rows."""
        parts = [self._tagged(block, slot) for block in blocks]
        if taken is not None:
            parts = [part.take(some) for part, some in zip(parts, taken, strict=True)]
        return example_of(pa.concat_arrays(parts).take(index))

    def _array(self, rows: int, section: Section) -> Array:
        """Returns [rows, width], uninitialised, aligned so that TensorFlow needs no copy."""
        dtype: np.dtype[Any] = np.dtype(section.dtype)
        size = rows * section.width * dtype.itemsize
        data = np.asarray(_Lent(self._free[size], size + _TENSOR_ALIGNMENT))
        begin = -data.ctypes.data % _TENSOR_ALIGNMENT
        return data[begin : begin + size].view(dtype).reshape(rows, section.width)

    def _payload(self, block: int) -> Array:
        file = int(np.searchsorted(self._first_blocks, block, "right")) - 1
        begin, end = self._payloads[file][block - self._first_blocks[file]]
        return self._map(self._local[file])[begin:end]

    def _view_of(self, block: int) -> BlockView:
        return view_block(self._payload(block), self.layout)

    def _tagged_of(self, block: int, slot: int) -> pa.BinaryArray:
        return self._view(block).tagged_texts(self._payload(block), slot)

    def _plain_slots(self, wanted: Collection[str]) -> tuple[int, ...]:
        """Returns wanted slots that are plain in any block: 5 us and a page or two per block."""
        found: set[int] = set()
        for block in range(self._first_blocks[-1]):
            view = self._view_of(block)
            found.update(view.texts)
            ends = [end for _, end in view.texts.values()]
            self.text_bytes = max(self.text_bytes, max(ends, default=0) // view.rows)
        slots = self.layout.slots
        return tuple(s for name in slots if name in wanted for s in slots[name] if s in found)

    def _unchanged(self, path: str) -> npt.NDArray[np.uint8]:
        require_stamp(path, self._stamps[path])
        return self._read(path)

    def _find_payloads(self, file: int) -> npt.NDArray[np.int64]:
        found, is_whole = payload_bounds(self._map(self._local[file]))
        blocks = -(-self._rows[file] // self.layout.block_rows)
        if len(found) != blocks or not is_whole:
            raise DataError(
                f"{self._files[file]}: {len(found):,} blocks, where {self._rows[file]:,} rows in "
                f"blocks of {self.layout.block_rows:,} make {blocks:,}; pack again"
            )
        return found

    def _copied(self) -> list[str]:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-packed-")
        copies = []
        for number, file in enumerate(self._files):
            copies.append(posixpath.join(self._folder.name, str(number)))
            tf.io.gfile.copy(file, copies[-1])
            # Of remote shards only sizes were compared with the manifest; reading checks the rest.
            for _ in read_records(copies[-1]):
                pass
        return copies


def _mapped(path: str) -> npt.NDArray[np.uint8]:
    return np.asarray(np.memmap(path, np.uint8, "r"))


def _whole(path: str) -> npt.NDArray[np.uint8]:
    return np.fromfile(path, np.uint8)


class _Lent:
    """Memory that arrays point into; it can be reused when the last of them is gone.

    New memory comes from the system page by page, which takes longer than to copy rows into it.
    """

    def __init__(self, free: list[Array], size: int) -> None:
        self._free = free
        try:
            self._data = free.pop()
        except IndexError:
            self._data = np.empty(size, np.uint8)
        self.__array_interface__ = self._data.__array_interface__

    def __del__(self) -> None:
        self._free.append(self._data)
