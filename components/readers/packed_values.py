"""Values of packed columns in the types that readers of rows return, as of row Examples."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.packing.layout import PackedColumn


def plain_batch(stored: pa.RecordBatch, columns: tuple[PackedColumn, ...]) -> pa.RecordBatch:
    """Returns columns of int64, float32, int32 and binary, and lists of these and of pixels."""
    pairs = zip(columns, stored.columns, strict=True)
    arrays = [_plain(array, column) for column, array in pairs]
    return pa.RecordBatch.from_arrays(arrays, stored.schema.names)


def row_value(array: pa.Array, row: int, column: PackedColumn) -> Any:
    """Returns an int, float or bytes; an array for several values."""
    if column.storage == "uint8":
        return np.frombuffer(array[row].as_buffer(), np.uint8).reshape(column.shape)
    if column.storage == "list":
        return _numpy(array[row].values, column)
    if column.width == 1:
        value = array[row].as_py()
        value = value.encode() if isinstance(value, str) else value
        return value if _is_single(column) else np.array([value]).reshape(column.shape)
    return _numpy(array.slice(row, 1).flatten(), column).reshape(column.shape)


def _is_single(column: PackedColumn) -> bool:
    return column.shape in ((), (1,))


def _numpy(values: pa.Array, column: PackedColumn) -> npt.NDArray[Any]:
    if column.kind == "BYTES" and column.storage != "int32":
        values = values.cast(pa.large_binary())
    return values.to_numpy(zero_copy_only=False)


def _plain(array: pa.Array, column: PackedColumn) -> pa.Array:
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        width = column.width
        buffers = [None, array.buffers()[1]]
        flat = pa.Array.from_buffers(
            pa.uint8(), len(array) * width, buffers, offset=array.offset * width
        )
        return flat if _is_single(column) else pa.FixedSizeListArray.from_arrays(flat, width)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(_binary(array.flatten()), column.width)
    if pa.types.is_list(kind):
        ends = array.offsets.to_numpy()
        return pa.ListArray.from_arrays(pa.array(ends - ends[0]), _binary(array.flatten()))
    flat = _binary(array)
    return flat if _is_single(column) else pa.FixedSizeListArray.from_arrays(flat, 1)


def _binary(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = array.cast(pa.large_binary())
    return array.cast(pa.binary()) if pa.types.is_large_binary(array.type) else array
