"""Decodes image features to uint8 pixels of one shape."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.packing.options import ImageColumn
from penstock.components.tfrecord.image_header import image_header

# Threads help: TensorFlow releases the interpreter's lock while it decodes.
_THREADS = 4
_MAGICS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM")


def image_shape(column: ImageColumn, first: bytes) -> tuple[int, ...]:
    """Returns height, width and channels of all images: as configured, or as in the first."""
    if column.size:
        return (*column.size, column.channels)
    if first.startswith(_MAGICS):
        return tuple(_pixels(column, first).shape)
    raise DataError(
        f"column {column.name!r} holds no JPEG, PNG, GIF or BMP; for raw pixels, state the "
        f"shape: --image {column.name}=HxWxC"
    )


@dataclass(frozen=True)
class ImageDecoder:
    _column: ImageColumn
    _shape: tuple[int, ...]

    def decode(self, values: pa.Array) -> npt.NDArray[np.uint8]:
        """Decodes images to uint8 [rows, height * width * channels]."""
        pixels = np.empty((len(values), math.prod(self._shape)), np.uint8)
        with ThreadPoolExecutor(_THREADS) as pool:
            for row, image in enumerate(pool.map(self._one, values.to_pylist())):
                pixels[row] = image.reshape(-1)
        return pixels

    def _one(self, data: bytes) -> npt.NDArray[np.uint8]:
        # Raw pixels may begin like a BMP.
        if len(data) == math.prod(self._shape) and image_header(data) is None:
            return np.frombuffer(data, np.uint8)
        if not data.startswith(_MAGICS):
            raise DataError(
                f"column {self._column.name!r}: a value of {len(data):,} bytes is neither a "
                f"JPEG, PNG, GIF or BMP nor raw pixels of shape {self._shape}"
            )
        pixels = _pixels(self._column, data)
        if self._column.size and pixels.shape != self._shape:
            return self._resized(pixels)
        if pixels.shape != self._shape:
            raise DataError(
                f"column {self._column.name!r}: an image of shape {pixels.shape}, the first has "
                f"{self._shape}; state a size to resize to: --image {self._column.name}=HxW"
            )
        return pixels

    def _resized(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        import tensorflow as tf

        resized: Any = tf.image.resize(pixels, self._shape[:2], antialias=True)
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
