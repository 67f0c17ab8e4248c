"""The `preprocessing_fn` of the digits, which Transform and served models run."""

from collections.abc import Mapping

import tensorflow as tf

from penstock.recipes import preprocessing


def preprocessing_fn(inputs: Mapping[str, tf.Tensor | tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """Returns what `image_classes` returns: image and label unchanged."""
    return preprocessing.image_classes(inputs)
