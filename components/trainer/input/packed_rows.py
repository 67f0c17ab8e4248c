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
from penstock.components.readers.packed_values import numbers
from penstock.components.tfrecord.encoder import varint

_TEXTS = ("text", "words")
_LIST_DTYPES = {"INT": tf.int64, "FLOAT": tf.float32, "BYTES": tf.string}

Array = npt.NDArray[Any]


class PackedRows:
    """Makes tensors of the columns of `shards`."""

    def __init__(self, shards: PackedShards) -> None:
        self._shards, self._columns = shards, shards.columns
        # Types of the arrays in which rows are picked.
        self.kinds = [kind for column in self._columns for kind in _kinds(column)]
        self.has_texts = any(kind == tf.string for kind in self.kinds)
        # Sparse tensors of several batches cannot be cut without a copy.
        self.can_be_cut = all(column.storage != "list" for column in self._columns)

    def pick(self, numbers: npt.NDArray[np.int64]) -> list[Any]:
        """Returns the rows with the given numbers, int64 [rows], in any order."""
        taken = self._shards.take(numbers)
        return [part for c in self._columns for part in self._picked(c, taken[c.name])]

    def tensors(self, picked: list[tf.Tensor], rows: int | None) -> dict[str, Any]:
        """Returns the features by name; `rows` is None if it varies."""
        parts = iter(picked)
        return {column.name: _tensor(column, parts, rows) for column in self._columns}

    def _picked(self, column: PackedColumn, found: Any) -> list[Any]:
        if column.storage == "list":
            lengths, values = np.diff(found.offsets.to_numpy()), found.flatten()
            is_bytes = column.kind == "BYTES"
            return [lengths.astype(np.int64), _proto(values) if is_bytes else values.to_numpy()]
        if column.storage == "blob":
            return [np.array(found, object)]
        if column.storage in _TEXTS:
            words = self._shards.words.get(column.name)
            texts = found if words is None else words.take(found)
            return [_proto(texts.flatten() if pa.types.is_fixed_size_list(texts.type) else texts)]
        return [numbers(found, column)]


def _kinds(column: PackedColumn) -> list[tf.DType]:
    if column.storage == "list":
        return [tf.int64, _LIST_DTYPES[column.kind]]
    is_bytes = column.storage in (*_TEXTS, "blob")
    return [tf.string if is_bytes else tf.as_dtype(column.storage)]


def _proto(texts: pa.Array) -> Array:
    """Returns a serialized `TensorProto` of texts: their sizes as varints, then their bytes."""
    ends = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)
    data = texts.buffers()[2]
    content = memoryview(data)[ends[0] : ends[-1]] if data is not None else b""
    sizes = _varints(np.diff(ends))
    dim = b"\x08" + varint(len(texts))  # TensorShapeProto.Dim.size
    shape = b"\x12" + varint(len(dim)) + dim
    head = b"\x08\x07\x12" + varint(len(shape)) + shape  # dtype DT_STRING, tensor_shape
    # tensor_content
    parts = (head, b"\x22", varint(len(sizes) + len(content)), sizes, content)
    return np.array(b"".join(parts), object)


def _varints(values: npt.NDArray[np.int64]) -> bytes:
    if values.max(initial=0) < 128:
        return values.astype(np.uint8).tobytes()
    return b"".join(map(varint, values.tolist()))


def _tensor(column: PackedColumn, parts: Iterator[tf.Tensor], rows: int | None) -> Any:
    part = next(parts)
    if column.storage == "list":
        lengths, values = tf.ensure_shape(part, [None]), next(parts)
        if column.kind == "BYTES":
            values = tf.io.parse_tensor(tf.ensure_shape(values, []), tf.string)
        values = tf.ensure_shape(values, [None])
        return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False).to_sparse()
    if column.storage in _TEXTS:
        part = tf.io.parse_tensor(tf.ensure_shape(part, []), tf.string)
    return tf.reshape(part, [-1 if rows is None else rows, *column.shape])
