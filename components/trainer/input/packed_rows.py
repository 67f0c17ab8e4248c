"""Packed rows as tensors: NumPy arrays of picked rows, and the graph that splits these.

A group of columns with one dtype and width is one array, whose columns are cut without a copy.
Texts of few values stay ids until their tensor is made; other texts are written as one
tf.train.Example, which TensorFlow parses faster than it takes over Python's byte strings.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from penstock.components.packing.layout import PackedColumn
from penstock.components.readers.packed_shards import PackedShards, Places
from penstock.components.tfrecord.encoder import TAG_1, example_head, varint

# Alignment with which TensorFlow can use memory without a copy.
_TENSOR_ALIGNMENT = 64
# The only feature of an Example of texts.
_VALUES = "values"
_STRINGS = "string"
_LIST_DTYPES = {"INT": tf.int64, "FLOAT": tf.float32, "BYTES": tf.string}
_EMPTY = pa.scalar(b"", pa.large_binary())

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Group:
    """Columns that are one array: [columns, rows, width], or [rows, columns x width] if stacked."""

    name: str
    dtype: str
    columns: tuple[PackedColumn, ...]
    is_stacked: bool

    @property
    def width(self) -> int:
        return sum(c.width for c in self.columns) if self.is_stacked else self.columns[0].width


class PackedRows:
    """Makes tensors of the columns of `shards`; those of `stacked` become one tensor a type."""

    def __init__(self, shards: PackedShards, stacked: Collection[str] = ()) -> None:
        self._shards = shards
        columns = shards.columns
        self._groups = _groups(columns, stacked)
        self._texts = tuple(c for c in columns if c.storage == "text")
        self._lists = tuple(c for c in columns if c.storage == "list")
        self._blobs = tuple(c for c in columns if c.storage == "blob")
        self._images = tuple(c for c in columns if c.is_large and c.storage == "uint8")
        self._stacked = tuple(c for c in columns if c.name in stacked and c.kind == "BYTES")
        self._words = {
            name: words.cast(pa.large_binary()).to_numpy(zero_copy_only=False)
            for name, words in shards.words.items()
        }
        self._free: dict[int, list[Array]] = defaultdict(list)
        self._parts = lru_cache(shards.kept_blocks * max(1, len(self._groups)))(self._parts_of)
        self._tagged = lru_cache(shards.kept_blocks * max(1, len(self._texts)))(self._tagged_of)

    @property
    def has_texts(self) -> bool:
        return any(c.storage in ("words", "text", "blob", "list") for c in self._shards.columns)

    @property
    def can_be_cut(self) -> bool:
        """Whether batches can be cut from a group of them: sparse tensors cannot without a copy."""
        return not self._lists

    @property
    def kinds(self) -> list[tf.DType]:
        """The types of what `pick` returns."""
        kinds = [tf.as_dtype(group.dtype) for group in self._groups]
        kinds += [tf.uint8] * len(self._images) + [tf.string] * (len(self._blobs) + 1)
        return kinds + [k for c in self._lists for k in (tf.int64, _LIST_DTYPES[c.kind])]

    def pick(self, numbers: npt.NDArray[np.int64]) -> list[Array]:
        """Returns the rows with the given numbers, int64 [rows], in any order."""
        rows, picked = len(numbers), []
        places = self._shards.places(numbers) if self._shards.has_small else None
        for at, group in enumerate(self._groups):
            assert places is not None
            count = 1 if group.is_stacked else len(group.columns)
            target = self._array((count, rows, group.width), group.dtype)
            passing = self._array((rows, group.width), group.dtype)
            blocks = [self._parts(block, at) for block in places.blocks]
            for number in range(count):
                begin = 0
                # Two copies, each sequential on one side, take half the time of a random one.
                for parts, taken in zip(blocks, places.rows, strict=True):
                    end = begin + len(taken)
                    # With the default mode, NumPy would buffer `out`.
                    np.take(parts[number], taken, axis=0, out=passing[begin:end], mode="clip")
                    begin = end
                np.take(passing, places.inverse, axis=0, out=target[number], mode="clip")
            picked.append(target[0] if group.is_stacked else target)
        for column in self._images:
            picked.append(self._array((rows, column.width), "uint8"))
            self._shards.read_pixels(column.name, numbers, picked[-1])
        picked += [self._blob(column, numbers) for column in self._blobs]
        texts = [self._text(column, places) for column in self._texts] if places else []
        picked.append(np.array(texts, object))
        for column in self._lists:
            assert places is not None
            picked += self._list(column, places)
        return picked

    def tensors(self, picked: list[tf.Tensor], rows: int | None) -> tuple[dict[str, Any], ...]:
        """Returns the stacked tensors and the columns by name; `rows` is None if it varies."""
        parts = iter(picked)
        found: dict[str, Any] = {}
        together: dict[str, Any] = {}
        for group in self._groups:
            part = next(parts)
            if group.is_stacked:
                together[group.name] = tf.ensure_shape(part, [rows, group.width])
                continue
            part = tf.ensure_shape(part, [len(group.columns), rows, group.width])
            for column, values in zip(group.columns, tf.unstack(part), strict=True):
                if column.storage == "words":
                    values = tf.gather(tf.constant(self._words[column.name]), values)
                found[column.name] = _shaped(values, column)
        for column in self._images:
            found[column.name] = _shaped(tf.ensure_shape(next(parts), [rows, column.width]), column)
        for column in self._blobs:
            found[column.name] = _shaped(tf.ensure_shape(next(parts), [rows]), column)
        found |= self._parsed(tf.ensure_shape(next(parts), [len(self._texts)]), rows)
        for column in self._lists:
            found[column.name] = _sparse(next(parts), next(parts), column)
        if self._stacked:
            words = together.pop("words", None)
            strings = self._together(words, found)
            together |= {_STRINGS: strings} if strings is not None else {}
        return together, found

    def _all_words(self) -> Array:
        return np.concatenate(
            [self._words[column.name] for column in self._stacked if column.storage == "words"]
        )

    def _together(self, ids: tf.Tensor | None, found: dict[str, Any]) -> tf.Tensor | None:
        """Returns the stacked texts [rows, width], and removes them from `found`."""
        columns = [c for c in self._stacked if c.storage in ("words", "text")]
        if not columns:
            return None
        words: Any = None if ids is None else tf.gather(tf.constant(self._all_words()), ids)
        if all(column.storage == "words" for column in columns):
            return words
        parts, at = [], 0
        for column in columns:
            if column.storage == "words":
                parts.append(words[:, at : at + 1])
                at += 1
            else:
                parts.append(tf.reshape(found.pop(column.name), [-1, column.width]))
        return tf.concat(parts, axis=1)

    def _blob(self, column: PackedColumn, numbers: npt.NDArray[np.int64]) -> Array:
        values = np.empty(len(numbers), object)
        values[:] = self._shards.blobs(column.name, numbers)
        return values

    def _parts_of(self, block: int, group: int) -> list[Array]:
        """Returns the arrays [rows, width] of a group in a block: of each column, or stacked."""
        batch, of = self._shards.block(block), self._groups[group]
        parts = [_values(batch.column(batch.schema.get_field_index(c.name)), c) for c in of.columns]
        if not of.is_stacked:
            return parts
        if of.name == "words":
            firsts = np.cumsum([0, *(len(self._shards.words[c.name]) for c in of.columns)])
            parts = [part + first for part, first in zip(parts, firsts.tolist(), strict=False)]
        return [np.concatenate(parts, axis=1, dtype=of.dtype)]

    def _tagged_of(self, block: int, name: str) -> pa.Array:
        column = self._shards.column(block, name)
        is_fixed = pa.types.is_fixed_size_list(column.type)
        return _tagged(column.flatten() if is_fixed else column)

    def _text(self, column: PackedColumn, places: Places) -> bytes:
        """Returns an Example of a column's texts."""
        parts = [self._tagged(block, column.name) for block in places.blocks]
        taken = [_each(rows, column.width) for rows in places.rows]
        wanted = sum(map(len, taken))
        if 2 * wanted < sum(map(len, parts)):
            # If few rows are wanted, those of each block are taken before blocks are joined.
            parts = [part.take(pa.array(some)) for part, some in zip(parts, taken, strict=True)]
            index = _each(places.inverse, column.width)
        else:
            firsts = np.cumsum([0, *map(len, parts)]).tolist()
            places_in_all = [some + first for some, first in zip(taken, firsts, strict=False)]
            index = np.concatenate(places_in_all)[_each(places.inverse, column.width)]
        return _example_of(pa.concat_arrays(parts).take(pa.array(index)))

    def _list(self, column: PackedColumn, places: Places) -> list[Array]:
        """Returns the number of values of each row, and the values, texts as an Example."""
        parts = [
            self._shards.column(block, column.name).take(pa.array(rows))
            for block, rows in zip(places.blocks, places.rows, strict=True)
        ]
        joined = pa.concat_arrays(parts).take(pa.array(places.inverse))
        lengths, values = np.diff(joined.offsets.to_numpy()).astype(np.int64), joined.flatten()
        if column.kind == "BYTES":
            return [lengths, np.array(_example_of(_tagged(values)), object)]
        return [lengths, values.to_numpy()]

    def _parsed(self, texts: tf.Tensor, rows: int | None) -> dict[str, tf.Tensor]:
        found = {}
        for at, column in enumerate(self._texts):
            found[column.name] = _shaped(_strings(texts[at], column.width, rows), column)
        return found

    def _array(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Returns an uninitialised array, aligned so that TensorFlow needs no copy."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        data = np.asarray(_Lent(self._free[size], size + _TENSOR_ALIGNMENT))
        begin = -data.ctypes.data % _TENSOR_ALIGNMENT
        return data[begin : begin + size].view(dtype).reshape(shape)


def _groups(columns: Sequence[PackedColumn], stacked: Collection[str]) -> tuple[_Group, ...]:
    found: dict[tuple[str, str, int], list[PackedColumn]] = defaultdict(list)
    for column in columns:
        if column.is_large or column.storage in ("text", "list"):
            continue
        dtype = "int32" if column.storage == "words" else column.storage
        if column.name in stacked and column.storage != "uint8":
            found[column.storage, dtype, 0].append(column)
        else:
            found["", dtype, column.width].append(column)
    return tuple(
        _Group(name, dtype, tuple(of_group), is_stacked=not width)
        for (name, dtype, width), of_group in found.items()
    )


def _values(column: pa.Array, of: PackedColumn) -> Array:
    """Returns the values of a block, [rows, width], without a copy."""
    if of.storage == "uint8":
        pixels = np.frombuffer(column.buffers()[1], np.uint8)
        return pixels[: len(column) * of.width].reshape(-1, of.width)
    if of.storage == "words":
        column = column.indices
    elif pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    return column.to_numpy().reshape(-1, of.width)


def _each(rows: Array, width: int) -> Array:
    """Returns the places of the values of rows that have `width` values each."""
    return rows if width == 1 else (rows[:, np.newaxis] * width + np.arange(width)).reshape(-1)


def _tagged(values: pa.Array) -> pa.Array:
    """Puts before each text the tag and the length that it has in a tf.train.Example."""
    values = values.cast(pa.large_binary())
    lengths = pc.binary_length(values).dictionary_encode()
    heads = [TAG_1 + varint(length) for length in lengths.dictionary.to_pylist()]
    heads = pa.array(heads, pa.large_binary()).take(lengths.indices)
    return pc.binary_join_element_wise(heads, values, _EMPTY)


def _example_of(tagged: pa.Array) -> bytes:
    ends = np.frombuffer(tagged.buffers()[1], np.int64, len(tagged) + 1, 8 * tagged.offset)
    begin, end = int(ends[0]), int(ends[-1])
    data = tagged.buffers()[2]
    texts = memoryview(data)[begin:end] if data is not None else b""
    return b"".join((example_head(_VALUES, end - begin), texts))


def _strings(example: tf.Tensor, width: int, rows: int | None) -> tf.Tensor:
    """Returns the texts of an Example; with a known number of rows in half the time."""
    spec = (
        tf.io.RaggedFeature(tf.string)
        if rows is None
        else tf.io.FixedLenFeature([rows * width], tf.string)
    )
    return tf.io.parse_single_example(example, {_VALUES: spec})[_VALUES]


def _shaped(values: tf.Tensor, column: PackedColumn) -> tf.Tensor:
    return tf.reshape(values, [-1, *column.shape])


def _sparse(lengths: tf.Tensor, values: tf.Tensor, column: PackedColumn) -> tf.SparseTensor:
    if column.kind == "BYTES":
        values = _strings(tf.ensure_shape(values, []), 1, None)
    lengths, values = tf.ensure_shape(lengths, [None]), tf.ensure_shape(values, [None])
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False).to_sparse()


class _Lent:
    """Memory that arrays point into; it can be reused when the last of them is gone.

    New memory comes from the system page by page, which takes longer than to copy rows into it.
    """

    def __init__(self, free: list[Array], size: int) -> None:
        self._free = free
        try:
            self._data = free.pop()
        except IndexError:
            self._data = np.empty(size, np.uint8)
        self.__array_interface__ = self._data.__array_interface__

    def __del__(self) -> None:
        self._free.append(self._data)
