"""Converts columns of rows to those of a packed shard."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.packing.facts import flat, row_lengths
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

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the columns as they are stored, but images, which are not decoded yet."""
        found = dict(zip(batch.schema.names, batch.columns, strict=True))
        missing = pa.nulls(batch.num_rows)
        arrays = [self._array(c, found.get(c.name, missing)) for c in self._layout.columns]
        return pa.RecordBatch.from_arrays(arrays, self._layout.schema.names)

    def with_pixels(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        arrays = stored.columns
        for at, column in enumerate(self._layout.columns):
            if column.storage == "uint8":
                pixels = self._images[column.name].decode(arrays[at])
                buffers = [None, pa.py_buffer(pixels)]
                arrays[at] = pa.Array.from_buffers(column.type, stored.num_rows, buffers)
        return pa.RecordBatch.from_arrays(arrays, schema=self._layout.schema)

    def _array(self, column: PackedColumn, values: pa.Array) -> pa.Array:
        if column.storage == "uint8":
            return flat(values)  # rows without an image are refused before
        if column.storage == "list":
            ends = np.append(0, np.cumsum(row_lengths(values))).astype(np.int32)
            return pa.ListArray.from_arrays(ends, flat(values).cast(column.type.value_type))
        filled = _filled(column, values)
        if column.storage in ("words", "int32"):
            filled = pc.index_in(filled, value_set=self._values[column.name])
        if column.storage == "words":
            words = self._values[column.name].cast(column.type.value_type)
            return pa.DictionaryArray.from_arrays(filled, words)
        if column.width == 1:
            return filled.cast(column.type)
        filled = filled.cast(column.type.value_type)
        return pa.FixedSizeListArray.from_arrays(filled, column.width)


def _filled(column: PackedColumn, values: pa.Array) -> pa.Array:
    """Returns rows x width values; 0, 0.0 or the empty string for a row without any."""
    wanted = len(values) * column.width
    found = flat(values)
    if len(found) == wanted:
        return found
    nothing = pa.scalar(*_NOTHING[column.kind])
    if not len(found):
        return pa.array([nothing.as_py()] * wanted, nothing.type)
    present = np.repeat(row_lengths(values) > 0, column.width)
    return pc.fill_null(found.take(pa.array(np.cumsum(present) - 1, mask=~present)), nothing)


_NOTHING: dict[str, tuple[Any, pa.DataType]] = {
    "INT": (0, pa.int64()),
    "FLOAT": (0.0, pa.float32()),
    "BYTES": (b"", pa.large_binary()),
}
