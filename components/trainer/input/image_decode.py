"""Detects how images are stored, and decodes them by the same ops in training and serving.

Input: a file (JPEG, PNG, ...) or raw uint8 pixels. Output: uint8 [height, width, channels] of one
size. Resizing is bilinear without antialiasing, as in `keras.utils.image_dataset_from_directory`.
If an image is more than twice as large as wanted, some of its pixels have no effect. For JPEGs,
`scaled_decode` makes libjpeg average squares with sides of 2, 4 or 8 pixels first.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from penstock.components import image_features as names
from penstock.components.trainer.input.options import ImageInputOptions

Features = Mapping[str, tf.Tensor]

# Factors by which libjpeg can reduce the sides of a JPEG.
_RATIOS = (1, 2, 4, 8)
# Names of the features with height and width: those that Penstock writes, then other common ones.
_SIZES = ((names.HEIGHT, names.WIDTH), ("height", "width"))
_CHANNELS = (1, 3)


@dataclass(frozen=True)
class StoredImages:
    """Form in which images are stored: as files, such as JPEG, or as raw pixels."""

    image: str = names.ENCODED  # name of the feature that contains the image
    channels: int = 0  # number of channels of raw pixels; 0 for files
    # Names of the features with height and width of raw pixels; empty for files, and if all images
    # have `first_size`.
    sizes: tuple[str, ...] = ()
    # (height, width) of the first image. If this is the wanted size, images of this size are not
    # resized.
    first_size: tuple[int, ...] = (0, 0)

    @property
    def spec(self) -> dict[str, Any]:
        return {
            self.image: tf.io.FixedLenFeature([], tf.string),
            **dict.fromkeys(self.sizes, tf.io.FixedLenFeature([], tf.int64)),
        }


def stored_as(features: Any, image: str, options: ImageInputOptions) -> StoredImages:
    """Returns how a record stores an image; `features` maps names to `tf.train.Feature`.

    A value that is not an image file is raw pixels if its number of bytes fits the size that the
    record states or, failing that, the wanted size.

    Raises:
        tf.errors.InvalidArgumentError: The value is not an image file, and its number of bytes fits
            none of these sizes.
    """
    values = features[image].bytes_list.value
    data, reason = values[0] if len(values) == 1 else b"", ""
    if data and names.RAW.encode() not in features[names.FORMAT].bytes_list.value:
        try:
            file = tf.io.decode_image(data, expand_animations=False)
            return StoredImages(image, first_size=tuple(file.shape[:2]))
        except tf.errors.InvalidArgumentError as error:
            reason = f": {error.message}"
    found: dict[tuple[str, ...], tuple[int, ...]] = {
        pair: tuple(value for name in pair for value in features[name].int64_list.value)
        for pair in _SIZES
    }
    found = {pair: size for pair, size in found.items() if len(size) == 2}
    found[()] = (options.height, options.width)
    for (sizes, size), channels in itertools.product(found.items(), _CHANNELS):
        if 0 < math.prod(size) * channels == len(data):
            return StoredImages(image, channels, sizes, size)
    told = " or ".join("x".join(map(str, size)) for size in found.values())
    reason = (
        f"{image} has {len(data):,} bytes, neither {told} uint8 pixels of 1 or 3 channels nor a "
        f"file{reason}"
    )
    raise tf.errors.InvalidArgumentError(None, None, reason)


def decode_whole(
    features: Features, *, stored: StoredImages, options: ImageInputOptions
) -> tf.Tensor:
    """Returns the image, cut and resized as the options say: uint8 [height, width, channels]."""
    if stored.channels:
        image = _pixels(features, stored, options.channels)
    else:
        image = _decoded(features[stored.image], options)
    if stored.first_size != (options.height, options.width):
        return _fitted(image, options)
    is_right = tf.reduce_all(tf.equal(tf.shape(image)[:2], stored.first_size))
    image = tf.cond(is_right, lambda: image, lambda: _fitted(image, options))
    return tf.ensure_shape(image, [options.height, options.width, options.channels])


def _decoded(encoded: tf.Tensor, options: ImageInputOptions) -> tf.Tensor:
    """Returns uint8 [height, width, channels].

    If `scaled_decode` is set, a large JPEG is decoded at a reduced size.
    """
    channels = options.channels

    def decode(ratio: int) -> tf.Tensor:
        if ratio == 1:
            return tf.io.decode_image(encoded, channels=channels, expand_animations=False)
        return tf.io.decode_jpeg(encoded, channels=channels, ratio=ratio)

    if options.scaled_decode:
        sides = tf.cond(
            tf.io.is_jpeg(encoded),
            lambda: tf.image.extract_jpeg_shape(encoded)[:2],
            lambda: tf.zeros([2], tf.int32),
        )
        # `times` is the largest whole number by which both sides can be divided without falling
        # below the wanted lengths. This holds for `crop` and for `stretch`.
        times = tf.reduce_min(sides // [options.height, options.width])
        halvings = tf.reduce_sum(tf.cast(times >= _RATIOS[1:], tf.int32))
        image = tf.switch_case(halvings, [partial(decode, ratio) for ratio in _RATIOS])
    else:
        image = decode(1)
    return tf.ensure_shape(image, [None, None, channels])


def _pixels(features: Features, stored: StoredImages, channels: int) -> tf.Tensor:
    """Returns uint8 [height, width, channels] from raw pixels."""
    values = tf.io.decode_raw(features[stored.image], tf.uint8)
    size = [features[name] for name in stored.sizes] or stored.first_size
    image = tf.reshape(values, tf.stack([*size, stored.channels]))
    image = tf.ensure_shape(image, [None, None, stored.channels])
    if stored.channels == channels:
        return image
    return tf.repeat(image, 3, axis=-1) if channels == 3 else tf.image.rgb_to_grayscale(image)


def _fitted(image: tf.Tensor, options: ImageInputOptions) -> tf.Tensor:
    """Returns the image in the wanted size; `crop` first cuts it to its centre."""
    if options.fit == "crop":
        shape = tf.shape(image)
        height = tf.minimum(shape[0], tf.maximum(shape[1] * options.height // options.width, 1))
        width = tf.minimum(shape[1], tf.maximum(shape[0] * options.width // options.height, 1))
        top, left = (shape[0] - height) // 2, (shape[1] - width) // 2
        image = image[top : top + height, left : left + width]
    # Bilinear resizing yields no values outside the range of the pixels, and does not change an
    # image of the right size. The cast truncates, so a value may be too low by less than 1 (of
    # 255). Rounding would halve the largest error, but would take 3 % longer.
    return tf.cast(tf.image.resize(image, [options.height, options.width]), image.dtype)
