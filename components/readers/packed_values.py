"""Values of packed columns: the types in which rows are moved, and those that readers return."""

from typing import Any

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


def plain(values: pa.Array, column: PackedColumn, words: pa.Array | None) -> pa.Array:
    """Returns picked rows of a column as int64, float32, int32 and binary, and lists of these.

    Args:
        values: Array of a type of `moved`.
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
    """Returns rows of `column.width` values each, as lists if the shape is not that of one."""
    is_single = column.shape in ((), (1,))
    return values if is_single else pa.FixedSizeListArray.from_arrays(values, column.width)


def row_value(array: pa.Array, column: PackedColumn) -> Any:
    """Returns the first row of `plain` values: int, float or bytes; an array for several values."""
    if column.storage != "list" and column.shape in ((), (1,)):
        return array[0].as_py()
    values = array.flatten().to_numpy(zero_copy_only=False)
    return values if column.storage == "list" else values.reshape(column.shape)


def _binary(array: pa.Array) -> pa.Array:
    return array.view(pa.large_binary()) if pa.types.is_large_string(array.type) else array


def short(array: pa.Array) -> pa.Array:
    return array.cast(pa.binary()) if pa.types.is_large_binary(array.type) else array
