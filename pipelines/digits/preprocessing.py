"""The `preprocessing_fn` of the digits, which Transform and served models run."""

from collections.abc import Mapping

import tensorflow as tf

from penstock.recipes import preprocessing


def preprocessing_fn(inputs: Mapping[str, tf.Tensor | tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """Return image and label unchanged, and list the classes, as `image_classes` does."""
    return preprocessing.image_classes(inputs)
