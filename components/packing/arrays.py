"""Converts Arrow columns of lists to a record batch of a packed shard."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.packing.facts import row_lengths
from penstock.components.packing.images import ImageDecoder
from penstock.components.packing.layout import PackedColumn, PackedLayout

Array = npt.NDArray[Any]


class BlockMaker:
    """Makes record batches of one layout.

    `values` has the words or the vocabulary of each column that has one, in the order of ids.
    """

    def __init__(
        self,
        layout: PackedLayout,
        values: Mapping[str, pa.BinaryArray],
        images: Mapping[str, ImageDecoder],
    ) -> None:
        self._layout, self._values, self._images = layout, values, images

    def block(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.num_rows
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = [self._array(c, columns.get(c.name), rows) for c in self._layout.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._layout.schema)

    def _array(self, column: PackedColumn, values: pa.Array | None, rows: int) -> pa.Array:
        if values is not None and pa.types.is_null(values.type):
            values = None
        if column.storage == "uint8":
            assert values is not None  # rows without an image are refused before
            pixels = self._images[column.name].decode(values.flatten())
            buffers = [None, pa.py_buffer(pixels)]
            return pa.FixedSizeBinaryArray.from_buffers(column.type, rows, buffers)
        if column.storage == "list":
            return _lists(column, values, rows)
        if column.kind == "BYTES":
            flat = _texts(column, values, rows)
        else:
            flat = pa.array(_numbers(column, values, rows))
        if column.storage in ("words", "int32"):
            flat = pc.index_in(flat, value_set=self._values[column.name])
        if column.storage == "words":
            words = self._values[column.name].cast(column.type.value_type)
            return pa.DictionaryArray.from_arrays(flat, words)
        if column.width == 1:
            return flat.cast(column.type)
        flat = flat.cast(column.type.value_type)
        return pa.FixedSizeListArray.from_arrays(flat, column.width)


def _numbers(column: PackedColumn, values: pa.Array | None, rows: int) -> Array:
    """Returns rows x width values; 0 if a row has no value."""
    if values is None:
        return np.zeros(rows * column.width, column.storage)
    flat = values.flatten().to_numpy(zero_copy_only=False)
    if len(flat) == rows * column.width:
        return flat
    filled = np.zeros((rows, column.width), column.storage)
    filled[row_lengths(values) > 0] = flat.reshape(-1, column.width)
    return filled.reshape(-1)


def _texts(column: PackedColumn, values: pa.Array | None, rows: int) -> pa.Array:
    """Returns rows x width values; the empty string if a row has no value."""
    if values is None:
        return pa.array([b""] * (rows * column.width), pa.large_binary())
    flat = values.flatten().cast(pa.large_binary())
    if len(flat) == rows * column.width:
        return flat
    present = np.repeat(row_lengths(values) > 0, column.width)
    places = pa.array(np.cumsum(present) - 1, mask=~present)
    return pc.fill_null(flat.take(places), b"")


def _lists(column: PackedColumn, values: pa.Array | None, rows: int) -> pa.ListArray:
    if values is None:
        return pa.array([[]] * rows, column.type)
    ends = np.concatenate([[0], np.cumsum(row_lengths(values))]).astype(np.int32)
    flat = values.flatten()
    if column.kind == "BYTES":
        flat = flat.cast(pa.large_binary())
    return pa.ListArray.from_arrays(pa.array(ends), flat.cast(column.type.value_type))
