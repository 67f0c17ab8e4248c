"""Stored images to uint8 tensors of one size: the same ops in training, evaluation and serving.

Flows in: `image/encoded`, a JPEG or PNG, or raw pixels with their height, width and channels.
Flows out: uint8 [height, width, channels]. Resizing is bilinear and takes no mean where it makes
images smaller, as `keras.utils.image_dataset_from_directory` does it: of an image much larger
than the size, that is worse than what an ingest resizes.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from penstock.components import image_features as names
from penstock.components.trainer.image_input_config import ImageInputOptions

Features = Mapping[str, tf.Tensor]
Decode = Callable[[Features], tf.Tensor]

# Of a random part: its width over its height, at least and at most.
_ASPECTS = (3 / 4, 4 / 3)


def image_spec(stored_format: str) -> dict[str, tf.io.FixedLenFeature]:
    """What `parse_single_example` must give for an image of that `image/format`."""
    spec = {names.ENCODED: tf.io.FixedLenFeature([], tf.string)}
    if stored_format == names.RAW:
        for name in (names.HEIGHT, names.WIDTH, names.CHANNELS):
            spec[name] = tf.io.FixedLenFeature([], tf.int64)
    return spec


def decode_whole(
    features: Features, *, stored_format: str, options: ImageInputOptions
) -> tf.Tensor:
    """The whole image, resized: uint8 [height, width, channels].

    Args:
        features: Of one image, as `image_spec` parses them.
        stored_format: The `image/format` of all images.
        options: Height, width and channels.
    """
    if stored_format == names.RAW:
        return _fitted(_raw_pixels(features, options.channels), options)
    return decode_encoded(features[names.ENCODED], options=options)


def decode_encoded(encoded: tf.Tensor, *, options: ImageInputOptions) -> tf.Tensor:
    """A JPEG or PNG as uint8 [height, width, channels]: what serving is given."""
    image = tf.io.decode_image(encoded, channels=options.channels, expand_animations=False)
    return _fitted(tf.ensure_shape(image, [None, None, options.channels]), options)


def decode_random_part(
    features: Features, seed: tf.Tensor, *, stored_format: str, options: ImageInputOptions
) -> tf.Tensor:
    """A part of the image, resized: uint8 [height, width, channels].

    Args:
        features: Of one image, as `image_spec` parses them.
        seed: int64 [2]; decides the part.
        stored_format: The `image/format` of all images.
        options: Height, width, channels and the least part.
    """
    encoded, channels = features[names.ENCODED], options.channels

    def of_pixels(image: tf.Tensor) -> tf.Tensor:
        top, left, height, width = tf.unstack(_random_window(tf.shape(image), seed, options))
        return image[top : top + height, left : left + width]

    def of_jpeg() -> tf.Tensor:
        window = _random_window(tf.image.extract_jpeg_shape(encoded), seed, options)
        return tf.image.decode_and_crop_jpeg(encoded, window, channels=channels)

    if stored_format == names.RAW:
        return _resized(of_pixels(_raw_pixels(features, channels)), options)
    part = tf.cond(
        tf.io.is_jpeg(encoded),
        of_jpeg,
        lambda: of_pixels(tf.io.decode_png(encoded, channels=channels)),
    )
    return _resized(tf.ensure_shape(part, [None, None, channels]), options)


def _raw_pixels(features: Features, channels: int) -> tf.Tensor:
    """uint8 [any height, any width, channels]."""
    stored = features[names.CHANNELS]
    shape = tf.stack([features[names.HEIGHT], features[names.WIDTH], stored])
    image = tf.reshape(tf.io.decode_raw(features[names.ENCODED], tf.uint8), shape)
    if channels == 3:
        image = tf.cond(tf.equal(stored, 1), lambda: tf.repeat(image, 3, axis=-1), lambda: image)
    else:
        image = tf.cond(
            tf.equal(stored, 3), lambda: tf.image.rgb_to_grayscale(image[..., :3]), lambda: image
        )
    return tf.ensure_shape(image, [None, None, channels])


def _fitted(image: tf.Tensor, options: ImageInputOptions) -> tf.Tensor:
    """The whole image, or as much of its middle as has the right proportions, resized."""
    if options.fit == "crop":
        shape = tf.shape(image)
        height = tf.minimum(shape[0], tf.maximum(shape[1] * options.height // options.width, 1))
        width = tf.minimum(shape[1], tf.maximum(shape[0] * options.width // options.height, 1))
        top, left = (shape[0] - height) // 2, (shape[1] - width) // 2
        image = image[top : top + height, left : left + width]
    return _resized(image, options)


def _resized(image: tf.Tensor, options: ImageInputOptions) -> tf.Tensor:
    size = [options.height, options.width]

    def resize() -> tf.Tensor:
        # Bilinear gives nothing beyond the pixels' own range, so that rounding needs no clipping.
        return tf.cast(tf.image.resize(image, size) + 0.5, tf.uint8)

    # Stored at that size already: nothing to be done, which the op itself would not notice.
    is_right = tf.reduce_all(tf.equal(tf.shape(image)[:2], size))
    return tf.ensure_shape(tf.cond(is_right, lambda: image, resize), [*size, options.channels])


def _random_window(shape: tf.Tensor, seed: tf.Tensor, options: ImageInputOptions) -> tf.Tensor:
    """int32 [4]: top, left, height and width of a part of an image of int32 `shape`."""
    draws = tf.random.stateless_uniform([4], seed)
    full = tf.cast(shape[:2], tf.float32)
    area = options.min_crop_area + draws[0] * (1 - options.min_crop_area)
    low, high = (tf.math.log(aspect) for aspect in _ASPECTS)
    aspect = tf.exp(low + draws[1] * (high - low))
    side = tf.sqrt(area * full[0] * full[1])
    # Cut to the image: a long one has no part of all its height that is wide as well.
    wanted = tf.minimum(tf.stack([side / tf.sqrt(aspect), side * tf.sqrt(aspect)]), full)
    size = tf.maximum(tf.cast(tf.round(wanted), tf.int32), 1)
    room = tf.cast(shape[:2] - size + 1, tf.float32)
    corner = tf.minimum(tf.cast(draws[2:] * room, tf.int32), shape[:2] - size)
    return tf.concat([corner, size], axis=0)
