"""From raw records to label and classes: the `preprocessing_fn` of Transform and of serving."""

from collections.abc import Mapping

import tensorflow as tf

from penstock.recipes import preprocessing


def preprocessing_fn(inputs: Mapping[str, tf.Tensor | tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """Return image and label unchanged, and list the classes, as `image_classes` does."""
    return preprocessing.image_classes(inputs)
