"""Packed rows as tensors: arrays of picked rows, and the graph that makes features of these.

Byte strings reach TensorFlow as one `TensorProto` a feature, made of the bytes that Arrow has:
one Python object for each would take ten times as long.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from penstock.components.packing.layout import PackedColumn
from penstock.components.readers.packed_shards import PackedShards
from penstock.components.tfrecord.encoder import varint

_DTYPES = {"INT": tf.int64, "FLOAT": tf.float32, "BYTES": tf.string}

Array = npt.NDArray[Any]


class PackedRows:
    """Makes tensors of the columns of `shards`."""

    def __init__(self, shards: PackedShards) -> None:
        self._shards, self._columns = shards, shards.columns
        shards.batch(np.arange(1))  # shards of another layout are refused at once
        # Types of the arrays in which rows are picked.
        self.kinds = [kind for column in self._columns for kind in _kinds(column)]
        self.has_texts = any(kind == tf.string for kind in self.kinds)

    def pick(self, numbers: npt.NDArray[np.int64]) -> list[Array]:
        """Returns the rows with the given numbers, int64 [rows], in any order."""
        pairs = zip(self._columns, self._shards.batch(numbers).columns, strict=True)
        return [part for column, array in pairs for part in _parts(column, array)]

    def tensors(self, picked: list[tf.Tensor], rows: int | None) -> dict[str, Any]:
        """Returns the features by name, lists as `tf.RaggedTensor`; `rows` is None if it varies."""
        parts = iter(picked)
        return {column.name: _tensor(column, parts, rows) for column in self._columns}


def _dtype(column: PackedColumn) -> tf.DType:
    if column.storage in ("text", "words", "blob", "list"):
        return _DTYPES[column.kind]
    return tf.as_dtype(column.storage)


def _kinds(column: PackedColumn) -> list[tf.DType]:
    return [*([tf.int64] if column.storage == "list" else []), _dtype(column)]


def _parts(column: PackedColumn, array: pa.Array) -> list[Array]:
    is_one = pa.types.is_primitive(array.type) or pa.types.is_binary(array.type)
    values = array if is_one else array.flatten()
    found = _proto(values) if pa.types.is_binary(values.type) else values.to_numpy()
    if column.storage != "list":
        return [found]
    return [np.diff(array.offsets.to_numpy()).astype(np.int64), found]


def _proto(texts: pa.Array) -> Array:
    """Returns a serialized `TensorProto` of texts: their sizes as varints, then their bytes."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
    content = memoryview(data)[ends[0] : ends[-1]] if data is not None else b""
    sizes = _varints(np.diff(ends))
    dim = b"\x08" + varint(len(texts))  # TensorShapeProto.Dim.size
    shape = b"\x12" + varint(len(dim)) + dim
    head = b"\x08\x07\x12" + varint(len(shape)) + shape  # dtype DT_STRING, tensor_shape
    # tensor_content
    parts = (head, b"\x22", varint(len(sizes) + len(content)), sizes, content)
    return np.array(b"".join(parts), object)


def _varints(values: npt.NDArray[np.int32]) -> bytes:
    if values.max(initial=0) < 128:
        return values.astype(np.uint8).tobytes()
    return b"".join(map(varint, values.tolist()))


def _tensor(column: PackedColumn, parts: Iterator[tf.Tensor], rows: int | None) -> Any:
    lengths = tf.ensure_shape(next(parts), [rows]) if column.storage == "list" else None
    values = next(parts)
    if _dtype(column) == tf.string:
        values = tf.io.parse_tensor(tf.ensure_shape(values, []), tf.string)
    if lengths is None:
        return tf.reshape(values, [-1 if rows is None else rows, *column.shape])
    values = tf.ensure_shape(values, [None])
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
