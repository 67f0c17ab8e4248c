"""Rows of packed shards by index: one row as Python values, or many as an Arrow batch."""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.packing.block import (
    column_values,
    decode_block,
    example_values,
    tagged_lengths,
    value_head,
    view_block,
)
from penstock.components.packing.layout import PackedColumn, PackedLayout
from penstock.components.tfrecord.feature_kind import ARROW_TYPES, FeatureKind

# Number of blocks kept as Arrow batches: those of the windows being read.
_KEPT_BATCHES = 64
# Number of blocks whose texts are indexed, at 8 bytes per text.
_KEPT_INDEXES = 1 << 16
_NUMBERS = ("int64", "float32", "int32")
_LIST_DTYPES: dict[str, np.dtype[Any]] = {"INT": np.dtype("<i8"), "FLOAT": np.dtype("<f4")}
_SCALARS = {
    "int64": struct.Struct("<q"),
    "float32": struct.Struct("<f"),
    "int32": struct.Struct("<i"),
}

_CELL = struct.Struct("<i")

# Reads a column of a row; the arguments are the shard's bytes, offset of the column's values, the
# block's texts, and the row in the block.
_Read = Callable[[Any, int, "_Texts", int], Any]


class PackedShards:
    """Reads rows of packed shards, by index of the shard and row in it.

    `content` returns a shard's bytes, and int64 [blocks, 2], the begin and end of its payloads.
    """

    def __init__(
        self,
        layout: PackedLayout,
        columns: Sequence[str],
        content: Callable[[int], tuple[Any, npt.NDArray[np.int64]]],
    ) -> None:
        self._layout, self._columns, self._content = layout, columns, content
        self._batch = lru_cache(_KEPT_BATCHES)(self._read_batch)
        self._block = lru_cache(_KEPT_INDEXES)(self._read_index)
        self._by_name = {column.name: column for column in layout.columns}
        places = {}
        for number, section in enumerate(layout.sections):
            first = 0
            for column in section.columns:
                places[column.name] = (number, first, section.row_bytes)
                first += column.row_bytes
        self._reads = [
            (name, *places[name], _reader(self._by_name[name], layout.slots.get(name, range(0))))
            for name in columns
        ]
        self._has_texts = any(self._by_name[name].storage in ("cell", "list") for name in columns)

    def row(self, at: int, row: int) -> dict[str, Any]:
        """Returns a row's values by column; the first access to a block builds its index."""
        block, place = divmod(row, self._layout.block_rows)
        data, _ = self._content(at)
        starts, texts = self._block(at, block)
        return {
            name: read(data, starts[section] + first + place * row_bytes, texts, place)
            for name, section, first, row_bytes, read in self._reads
        }

    def take(self, shards: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        blocks = np.stack([shards, rows // self._layout.block_rows], axis=1)
        found, which = np.unique(blocks, axis=0, return_inverse=True)
        places = rows % self._layout.block_rows
        batches = [self._batch(int(at), int(block)) for at, block in found]
        if len(found) == 1 and (np.diff(places) == 1).all():
            return batches[0].slice(int(places[0]), len(places))
        order = np.argsort(which, kind="stable")
        cuts = np.cumsum(np.bincount(which))[:-1]
        parts = [
            batch.take(pa.array(some))
            for batch, some in zip(batches, np.split(places[order], cuts), strict=True)
        ]
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        [joined] = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return joined.take(pa.array(inverse))

    def _read_batch(self, at: int, block: int) -> pa.RecordBatch:
        data, bounds = self._content(at)
        begin, end = bounds[block].tolist()
        values = column_values(decode_block(bytes(data[begin:end]), self._layout), self._layout)
        arrays = [_array(values[name], self._by_name[name]) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, list(self._columns))

    def _read_index(self, at: int, block: int) -> tuple[list[int], "_Texts"]:
        """Returns the offsets of the block's sections in the shard, and the block's texts."""
        data, bounds = self._content(at)
        begin, end = bounds[block].tolist()
        view = view_block(memoryview(data)[begin:end], self._layout)
        dictionary = bytes(view.dictionary) if self._has_texts else b""
        starts = [begin + offset for offset in self._layout.section_offsets(view.rows)]
        plain = {slot: begin + first for slot, (first, _) in view.texts.items()}
        row_bytes = next((s.row_bytes for s in self._layout.sections if s.name == "cell"), 0)
        return starts, _Texts(dictionary, starts[-1], plain, row_bytes)


class _Texts:
    """Offsets of a block's texts in the shard: 16 bytes for each text in the dictionary.

    The dictionary is a tf.train.Example that ends with its values. `plain` has the offset of the
    texts of each plain slot; the cells of a plain slot are the ends of its texts.
    """

    def __init__(
        self, dictionary: bytes, begin: int, plain: Mapping[int, int], row_bytes: int
    ) -> None:
        values = example_values(dictionary)
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        ends = np.cumsum(tagged_lengths(lengths))
        self._ends = ends + (begin + len(dictionary) - (int(ends[-1]) if len(ends) else 0))
        self._starts = self._ends - lengths
        self._plain, self._row_bytes = plain, row_bytes

    def get(self, data: Any, slot: int, offset: int, row: int) -> bytes:
        """Returns the text of the cell at `offset` in the shard's bytes."""
        (cell,) = _CELL.unpack_from(data, offset)
        if slot in self._plain:
            first = self._plain[slot]
            begin = _CELL.unpack_from(data, offset - self._row_bytes)[0] if row else 0
            return bytes(data[first + begin + value_head(cell - begin) : first + cell])
        if not 0 <= cell < len(self._ends):
            raise DataError(
                f"a cell has the number {cell}, but the block's dictionary has "
                f"{len(self._ends):,} values"
            )
        return bytes(data[self._starts[cell] : self._ends[cell]])


def _reader(column: PackedColumn, slots: range) -> _Read:
    width, shape, storage = column.width, column.shape, column.storage
    if storage in _SCALARS and width == 1 and shape in ((), (1,)):
        unpack = _SCALARS[storage].unpack_from
        return lambda data, offset, _texts, _row: unpack(data, offset)[0]
    if storage == "list":
        return lambda data, offset, texts, row: _listed(
            texts.get(data, slots[0], offset, row), column.kind
        )
    if storage == "cell" and shape == (1,):
        return lambda data, offset, texts, row: texts.get(data, slots[0], offset, row)
    if storage == "cell":
        return lambda data, offset, texts, row: np.array(
            [texts.get(data, slot, offset + 4 * at, row) for at, slot in enumerate(slots)], object
        ).reshape(shape)
    dtype: np.dtype[Any] = np.dtype(storage).newbyteorder("<")
    return lambda data, offset, _texts, _row: np.frombuffer(data, dtype, width, offset).reshape(
        shape
    )


def _listed(value: bytes, kind: str) -> npt.NDArray[Any]:
    if kind == "BYTES":
        return np.array(example_values(value), object)
    return np.frombuffer(value, _LIST_DTYPES[kind])


def _array(values: Any, column: PackedColumn) -> pa.Array:
    if column.shape == (1,) and column.storage != "list":
        values = values[:, 0]
    kind = pa.from_numpy_dtype(values.dtype) if column.storage in ("uint8", "int32") else None
    kind = kind or ARROW_TYPES[FeatureKind(column.kind)]
    if column.storage == "list":
        return pa.array(values, pa.list_(kind))
    flat = pa.array(values.reshape(-1), kind)
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, column.width)
