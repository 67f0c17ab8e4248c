"""Finds out how records store an image: as a file (JPEG, PNG, ...) or as raw uint8 pixels."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from penstock.components import image_features as names
from penstock.components.trainer.input.options import ImageInputOptions

# Names of the features of height and width, in Penstock's records and in most others.
_SIZES = ((names.HEIGHT, names.WIDTH), ("height", "width"))
_CHANNELS = (1, 3)


@dataclass(frozen=True)
class StoredImages:
    """Storage of the images of a feature: pixels need other ops than files."""

    image: str = names.ENCODED
    channels: int = 0  # number of raw pixels' channels; 0 for files: headers say it
    # Features of the height and width of raw pixels; empty if all have `first_size`.
    sizes: tuple[str, ...] = ()
    # (height, width) of the first image; if it is the wanted size, that of each image is checked.
    first_size: tuple[int, ...] = (0, 0)

    @property
    def spec(self) -> dict[str, Any]:
        return {
            self.image: tf.io.FixedLenFeature([], tf.string),
            **dict.fromkeys(self.sizes, tf.io.FixedLenFeature([], tf.int64)),
        }


def stored_as(features: Any, image: str, options: ImageInputOptions) -> StoredImages:
    """Returns how a record stores an image, given the record's map of `tf.train.Feature`.

    Raw pixels have the record's height and width, or else the wanted ones.

    Raises:
        tf.errors.InvalidArgumentError: It is neither a file nor so many bytes as pixels.
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
