"""Packed rows as tensors: arrays of picked rows, and the graph that makes features of these.

Byte strings reach TensorFlow as one `TensorProto` a feature, made of the bytes that Arrow has:
one Python object for each would take ten times as long.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from penstock.components.packing.layout import PackedColumn
from penstock.components.readers.packed_shards import PackedShards, aligned
from penstock.components.readers.packed_values import numbers
from penstock.components.tfrecord.encoder import varint

_TEXTS = ("text", "words")
_LIST_DTYPES = {"INT": tf.int64, "FLOAT": tf.float32, "BYTES": tf.string}

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Feature:
    """A tensor of a batch: a column, or the stacked columns of a type."""

    name: str
    columns: tuple[PackedColumn, ...]
    shape: tuple[int, ...]  # of a row

    @property
    def storage(self) -> str:
        return self.columns[0].storage

    @property
    def kinds(self) -> list[tf.DType]:
        """Types of the arrays in which rows are picked."""
        if self.storage == "list":
            return [tf.int64, _LIST_DTYPES[self.columns[0].kind]]
        is_bytes = self.storage in (*_TEXTS, "blob")
        return [tf.string if is_bytes else tf.as_dtype(self.storage)]


class PackedRows:
    """Makes tensors of the columns of `shards`; those of `stacked` become one tensor a type."""

    def __init__(self, shards: PackedShards, stacked: Collection[str] = ()) -> None:
        self._shards = shards
        self._features = tuple(_features(shards.columns, stacked))
        self.kinds = [kind for feature in self._features for kind in feature.kinds]
        self.has_texts = any(kind == tf.string for kind in self.kinds)
        # Sparse tensors of several batches cannot be cut without a copy.
        self.can_be_cut = all(feature.storage != "list" for feature in self._features)

    def pick(self, numbers: npt.NDArray[np.int64]) -> list[Any]:
        """Returns the rows with the given numbers, int64 [rows], in any order."""
        taken = self._shards.take(numbers)
        return [part for f in self._features for part in self._picked(f, taken, len(numbers))]

    def tensors(self, picked: list[tf.Tensor], rows: int | None) -> dict[str, Any]:
        """Returns the features by name; `rows` is None if it varies."""
        parts = iter(picked)
        return {feature.name: _tensor(feature, parts, rows) for feature in self._features}

    def _picked(self, feature: _Feature, taken: dict[str, Any], rows: int) -> list[Any]:
        columns = feature.columns
        if feature.storage == "list":
            found = taken[columns[0].name]
            lengths, values = np.diff(found.offsets.to_numpy()), found.flatten()
            is_bytes = columns[0].kind == "BYTES"
            return [lengths.astype(np.int64), _proto(values) if is_bytes else values.to_numpy()]
        if feature.storage == "blob":
            values = np.empty(rows, object)
            values[:] = taken[columns[0].name]
            return [values]
        if feature.storage in _TEXTS:
            return [_proto(_row_by_row([self._texts(column, taken) for column in columns], rows))]
        arrays = [numbers(taken[column.name], column) for column in columns]
        if len(arrays) == 1:
            return arrays
        stacked, at = aligned((rows, sum(c.width for c in columns)), feature.storage), 0
        for array in arrays:
            stacked[:, at : at + array.shape[1]] = array
            at += array.shape[1]
        return [stacked]

    def _texts(self, column: PackedColumn, taken: dict[str, Any]) -> pa.Array:
        found = taken[column.name]
        return self._shards.words[column.name].take(found) if column.storage == "words" else found


def _features(columns: Sequence[PackedColumn], stacked: Collection[str]) -> Iterator[_Feature]:
    together: dict[str, list[PackedColumn]] = {}
    for column in columns:
        if column.name not in stacked or column.storage in ("uint8", "list", "blob"):
            yield _Feature(column.name, (column,), column.shape)
        else:
            name = "string" if column.storage in _TEXTS else column.storage
            together.setdefault(name, []).append(column)
    for name, found in together.items():
        yield _Feature(name, tuple(found), (sum(column.width for column in found),))


def _row_by_row(texts: Sequence[pa.Array], rows: int) -> pa.Array:
    """Returns the texts of several columns in one array, each row's texts together."""
    flat = [t.flatten() if pa.types.is_fixed_size_list(t.type) else t for t in texts]
    if len(flat) == 1:
        return flat[0]
    index = np.empty((rows, sum(map(len, flat)) // rows), np.int64)
    first = at = 0
    for part in flat:
        width = len(part) // rows
        index[:, at : at + width] = np.arange(first, first + len(part)).reshape(rows, width)
        first, at = first + len(part), at + width
    return pa.concat_arrays(flat).take(pa.array(index.reshape(-1)))


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


def _tensor(feature: _Feature, parts: Iterator[tf.Tensor], rows: int | None) -> Any:
    part = next(parts)
    if feature.storage == "list":
        return _sparse(part, next(parts), feature.columns[0])
    if feature.storage in _TEXTS:
        part = tf.io.parse_tensor(tf.ensure_shape(part, []), tf.string)
    return tf.reshape(part, [-1 if rows is None else rows, *feature.shape])


def _sparse(lengths: tf.Tensor, values: tf.Tensor, column: PackedColumn) -> tf.SparseTensor:
    if column.kind == "BYTES":
        values = tf.io.parse_tensor(tf.ensure_shape(values, []), tf.string)
    lengths, values = tf.ensure_shape(lengths, [None]), tf.ensure_shape(values, [None])
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False).to_sparse()
