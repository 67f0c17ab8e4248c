"""Converts columns of rows to columns of a packed shard; images become uint8 of one shape."""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError
from penstock.components.packing.facts import flat, row_lengths
from penstock.components.packing.layout import PackedColumn, PackedLayout
from penstock.components.packing.options import ImageColumn
from penstock.components.tfrecord.image_header import image_header

Array = npt.NDArray[Any]

# Threads help: TensorFlow releases the interpreter's lock while it decodes.
_THREADS = 4
_MAGICS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM")


def image_shape(column: ImageColumn, first: bytes) -> tuple[int, ...]:
    """Returns height, width and channels of all images: as configured, or as in the first image."""
    if column.size:
        return (*column.size, column.channels)
    if first.startswith(_MAGICS):
        return tuple(_pixels(column, first).shape)
    raise DataError(
        f"column {column.name!r} holds no JPEG, PNG, GIF or BMP; for raw pixels, state the "
        f"shape: --image {column.name}=HxWxC"
    )


def _decoded(
    column: ImageColumn, shape: tuple[int, ...], values: pa.Array
) -> npt.NDArray[np.uint8]:
    """Decodes images to uint8 [rows, height * width * channels]."""
    pixels = np.empty((len(values), math.prod(shape)), np.uint8)
    with ThreadPoolExecutor(_THREADS) as pool:
        images = pool.map(partial(_image, column, shape), values.to_pylist())
        for row, image in enumerate(images):
            pixels[row] = image.reshape(-1)
    return pixels


def _image(column: ImageColumn, shape: tuple[int, ...], data: bytes) -> npt.NDArray[np.uint8]:
    # Raw pixels may by chance begin with a BMP's first bytes, so the whole header is checked.
    if len(data) == math.prod(shape) and image_header(data) is None:
        return np.frombuffer(data, np.uint8)
    if not data.startswith(_MAGICS):
        raise DataError(
            f"column {column.name!r}: a value of {len(data):,} bytes is neither a JPEG, PNG, GIF "
            f"or BMP nor raw pixels of shape {shape}"
        )
    pixels = _pixels(column, data)
    if pixels.shape == shape:
        return pixels
    if not column.size:
        raise DataError(
            f"column {column.name!r}: an image of shape {pixels.shape}, the first has {shape}; "
            f"state a size to resize to: --image {column.name}=HxW"
        )
    import tensorflow as tf

    resized: Any = tf.image.resize(pixels, shape[:2], antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8).numpy()


def _pixels(column: ImageColumn, data: bytes) -> npt.NDArray[np.uint8]:
    import tensorflow as tf

    try:
        return tf.io.decode_image(data, channels=column.channels, expand_animations=False).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise DataError(
            f"column {column.name!r}: an image of {len(data):,} bytes cannot be decoded "
            f"({error.message})"
        ) from error


@dataclass(frozen=True)
class BlockMaker:
    """Makes record batches of one layout.

    `values` has the dictionary or the vocabulary of each column that has one, in the order of ids.
    """

    layout: PackedLayout
    values: Mapping[str, pa.BinaryArray]
    images: Mapping[str, ImageColumn]

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the columns as they are stored, except images, which are not decoded yet."""
        found = dict(zip(batch.schema.names, batch.columns, strict=True))
        missing = pa.nulls(batch.num_rows)
        arrays = [self._array(c, found.get(c.name, missing)) for c in self.layout.columns]
        return pa.RecordBatch.from_arrays(arrays, self.layout.schema.names)

    def with_pixels(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        arrays = stored.columns
        for at, column in enumerate(self.layout.columns):
            if column.storage == "uint8":
                pixels = _decoded(self.images[column.name], column.shape, arrays[at])
                buffers = [None, pa.py_buffer(pixels)]
                arrays[at] = pa.Array.from_buffers(column.type, stored.num_rows, buffers)
        return pa.RecordBatch.from_arrays(arrays, schema=self.layout.schema)

    def _array(self, column: PackedColumn, values: pa.Array) -> pa.Array:
        if column.storage == "uint8":
            return flat(values)  # rows without an image were refused earlier
        if column.storage == "list":
            ends = np.append(0, np.cumsum(row_lengths(values))).astype(np.int32)
            return pa.ListArray.from_arrays(ends, flat(values).cast(column.type.value_type))
        filled = _filled(column, values)
        if column.storage in ("words", "int32"):
            filled = pc.index_in(filled, value_set=self.values[column.name])
        if column.storage == "words":
            words = self.values[column.name].cast(column.type.value_type)
            return pa.DictionaryArray.from_arrays(filled, words)
        if column.width == 1:
            return filled.cast(column.type)
        filled = filled.cast(column.type.value_type)
        return pa.FixedSizeListArray.from_arrays(filled, column.width)


def _filled(column: PackedColumn, values: pa.Array) -> pa.Array:
    """Returns `width` values for each row; those of a row without a value are 0, 0.0 or ""."""
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
