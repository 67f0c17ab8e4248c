"""Finds out how a record stores its images: as files, raw pixels or serialized tensors."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework.tensor_pb2 import TensorProto

from penstock.components import image_features as names
from penstock.components.trainer.input.options import ImageInputOptions

# Names of the features of height and width, in Penstock's records and in most others.
_SIZES = ((names.HEIGHT, names.WIDTH), ("height", "width"))
_CHANNELS = (1, 3)
_DTYPES = (tf.uint8, tf.float32)


@dataclass(frozen=True)
class StoredImages:
    """How the images of a feature are stored: pixels need other ops than files."""

    image: str = names.ENCODED
    # `file` (JPEG, PNG, ...), raw pixels as `bytes` or `floats`, or `tensor` from
    # `tf.io.serialize_tensor`
    form: str = "file"
    dtype: tf.DType = tf.uint8  # uint8, or float32 for float pixels
    channels: int = 0  # number of raw pixels' channels; 0 for files: headers say it
    # Features of the height and width of raw pixels; empty if all have `first_size`.
    sizes: tuple[str, ...] = ()
    # (height, width) of the first image; if it is the wanted size, that of each image is checked.
    first_size: tuple[int, ...] = (0, 0)

    @property
    def spec(self) -> dict[str, Any]:
        floats = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
        image = floats if self.form == "floats" else tf.io.FixedLenFeature([], tf.string)
        return {self.image: image, **dict.fromkeys(self.sizes, tf.io.FixedLenFeature([], tf.int64))}


def stored_as(features: Any, image: str, options: ImageInputOptions) -> StoredImages:
    """Returns how a record stores an image, given the record's map of `tf.train.Feature`.

    Raw pixels have the record's height and width, or else the wanted ones.
    """
    floats, values = features[image].float_list.value, features[image].bytes_list.value
    data, reason = values[0] if len(values) == 1 else b"", ""
    if data and names.RAW.encode() not in features[names.FORMAT].bytes_list.value:
        if tensor := _tensor(data, image):
            return tensor
        try:
            file = tf.io.decode_image(data, expand_animations=False)
            return StoredImages(image, first_size=tuple(file.shape[:2]))
        except tf.errors.InvalidArgumentError as error:
            reason = f": {error.message}"
    wanted = (options.height, options.width)
    found: dict[tuple[str, ...], tuple[int, ...]] = {
        pair: tuple(value for name in pair for value in features[name].int64_list.value)
        for pair in _SIZES
    }
    found = {**{pair: size for pair, size in found.items() if len(size) == 2}, (): wanted}
    for (sizes, size), channels in itertools.product(found.items(), _CHANNELS):
        pixels = math.prod(size) * channels
        if 0 < pixels == len(floats):
            return StoredImages(image, "floats", tf.float32, channels, sizes, size)
        for dtype in _DTYPES:
            if 0 < pixels * dtype.size == len(data):
                return StoredImages(image, "bytes", dtype, channels, sizes, size)
    told = " or ".join("x".join(map(str, size)) for size in found.values())
    reason = (
        f"{image} has {len(data):,} bytes and {len(floats):,} floats, neither {told} pixels of 1 "
        f"or 3 channels nor a file{reason}"
    )
    raise tf.errors.InvalidArgumentError(None, None, reason)


def _tensor(data: bytes, image: str) -> StoredImages | None:
    # Every serialized tensor begins with its dtype and then its shape, each with a tag of one byte.
    if data[:1] != b"\x08" or data[2:3] != b"\x12":
        return None
    try:
        proto = TensorProto.FromString(data)
    except DecodeError:
        return None
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    dtype = next((one for one in _DTYPES if one.as_datatype_enum == proto.dtype), None)
    channels = (*shape[2:], 1)[0]
    if dtype is None or len(shape) not in (2, 3) or channels not in _CHANNELS:
        return None
    return StoredImages(image, "tensor", dtype, channels, (), shape[:2])
