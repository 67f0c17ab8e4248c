"""Rows of packed shards by number: one row as Python values, or many as an Arrow batch."""

import struct
from collections.abc import Callable, Sequence
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
    view_block,
)
from penstock.components.packing.layout import PackedColumn, PackedLayout
from penstock.components.sources.base import ARROW_TYPES
from penstock.components.tfrecord.feature_kind import FeatureKind

# Blocks as Arrow batches: those of the windows that are being read.
_KEPT_BATCHES = 64
# Blocks whose texts are indexed, 8 bytes per text.
_KEPT_INDEXES = 1 << 16
_NUMBERS = ("int64", "float32", "int32")
_LIST_DTYPES: dict[str, np.dtype[Any]] = {"INT": np.dtype("<i8"), "FLOAT": np.dtype("<f4")}
_SCALARS = {
    "int64": struct.Struct("<q"),
    "float32": struct.Struct("<f"),
    "int32": struct.Struct("<i"),
}

# Reads a column of a row: (the shard's bytes, offset of the column's values, texts of the block).
_Read = Callable[[Any, int, "_Texts"], Any]


class PackedShards:
    """Reader of the rows of packed shards, by the index of the shard and the row in it.

    `content` returns a shard's bytes and int64 [blocks, 2], the bounds of its payloads.
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
        self._reads = [(name, *places[name], _reader(self._by_name[name])) for name in columns]
        self._has_texts = any(self._by_name[name].storage in ("cell", "list") for name in columns)

    def row(self, at: int, row: int) -> dict[str, Any]:
        """Returns a row's values by column; the first row of a block has the block indexed."""
        block, place = divmod(row, self._layout.block_rows)
        data, _ = self._content(at)
        starts, texts = self._block(at, block)
        return {
            name: read(data, starts[section] + first + place * row_bytes, texts)
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
        """Offsets of the block's sections in the shard, and its texts."""
        data, bounds = self._content(at)
        begin, end = bounds[block].tolist()
        view = view_block(memoryview(data)[begin:end], self._layout)
        dictionary = bytes(view.dictionary) if self._has_texts else b""
        starts = [begin + offset for offset in self._layout.section_offsets(view.rows)]
        return starts, _Texts(dictionary, starts[-1])


class _Texts:
    """Offsets of the byte strings of a block's dictionary in the shard: 16 bytes each.

    The dictionary is a tf.train.Example that ends with its values.
    """

    def __init__(self, dictionary: bytes, begin: int) -> None:
        values = example_values(dictionary)
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        # A value has a tag of one byte and its length in groups of 7 bits before it.
        heads = 2 + sum((lengths >= 1 << bits).astype(np.int64) for bits in (7, 14, 21, 28))
        ends = np.cumsum(heads + lengths)
        self._ends = ends + (begin + len(dictionary) - (int(ends[-1]) if len(ends) else 0))
        self._starts = self._ends - lengths

    def get(self, data: Any, cell: int) -> bytes:
        if not 0 <= cell < len(self._ends):
            raise DataError(
                f"a cell has the number {cell}, but the block's dictionary has "
                f"{len(self._ends):,} values"
            )
        return bytes(data[self._starts[cell] : self._ends[cell]])


def _reader(column: PackedColumn) -> _Read:
    width, shape, storage = column.width, column.shape, column.storage
    if storage in _SCALARS and width == 1 and shape in ((), (1,)):
        unpack = _SCALARS[storage].unpack_from
        return lambda data, offset, _: unpack(data, offset)[0]
    if storage in ("cell", "list"):
        cells = struct.Struct(f"<{width}i").unpack_from
        if storage == "list":
            return lambda data, at, texts: _listed(texts.get(data, cells(data, at)[0]), column.kind)
        if shape == (1,):
            return lambda data, offset, texts: texts.get(data, cells(data, offset)[0])
        return lambda data, offset, texts: np.array(
            [texts.get(data, cell) for cell in cells(data, offset)], object
        ).reshape(shape)
    dtype: np.dtype[Any] = np.dtype(storage).newbyteorder("<")
    return lambda data, offset, _: np.frombuffer(data, dtype, width, offset).reshape(shape)


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
