"""Values of packed columns: the types in which rows are moved, and those that readers return."""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.components.packing.layout import PackedColumn


def moved(array: pa.Array, column: PackedColumn) -> pa.Array:
    """Returns a column of a block in a type whose rows are cheap to pick, without a copy.

    Words are their ids, texts are binary, and several numbers in a row are bytes.
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


def plain(values: Any, column: PackedColumn, words: pa.Array | None) -> pa.Array:
    """Returns picked rows of a column as int64, float32, int32 and binary, and lists of these.

    Args:
        values: Array of a type of `moved`, a list of bytes, or pixels, uint8 [rows, width].
        column: Description of the column.
        words: Values of the column's dictionary, if it has one.
    """
    if column.storage == "blob":
        found = pa.array(values, pa.binary())
    elif column.storage == "list":
        ends = values.offsets.to_numpy()
        return pa.ListArray.from_arrays(ends - ends[0], _short(values.flatten()))
    elif column.kind == "BYTES" and column.storage in ("words", "text"):
        values = values if words is None else words.take(values)
        found = _short(values.flatten() if pa.types.is_fixed_size_list(values.type) else values)
    else:
        found = pa.array(numbers(values, column).reshape(-1))
    is_single = column.shape in ((), (1,))
    return found if is_single else pa.FixedSizeListArray.from_arrays(found, column.width)


def numbers(values: Any, column: PackedColumn) -> np.ndarray[Any, Any]:
    """Returns picked rows of numbers or pixels as an array [rows, width], without a copy."""
    if isinstance(values, np.ndarray):
        return values
    first, count = values.offset * column.width, len(values) * column.width
    flat = np.frombuffer(values.buffers()[1], column.storage)
    return flat[first : first + count].reshape(-1, column.width)


def row_value(array: pa.Array, row: int, column: PackedColumn, words: pa.Array | None) -> Any:
    """Returns an int, float or bytes; an array for several values."""
    if column.width == 1 and column.storage not in ("list", "uint8"):
        value = array[row].as_py() if words is None else words[array[row].as_py()].as_py()
        return value if column.shape in ((), (1,)) else np.array([value]).reshape(column.shape)
    if pa.types.is_fixed_size_binary(array.type):
        return np.frombuffer(array[row].as_buffer(), column.storage).reshape(column.shape)
    values = array[row].values.to_numpy(zero_copy_only=False)
    return values if column.storage == "list" else values.reshape(column.shape)


def _binary(array: pa.Array) -> pa.Array:
    return array.view(pa.large_binary()) if pa.types.is_large_string(array.type) else array


def _short(array: pa.Array) -> pa.Array:
    return array.cast(pa.binary()) if pa.types.is_large_binary(array.type) else array
