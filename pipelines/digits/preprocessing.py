"""Raw records to label and classes: the `preprocessing_fn` of Transform and of serving."""

from collections.abc import Mapping

import tensorflow as tf
import tensorflow_transform as tft

from penstock import image_features
from penstock.pipelines.digits import features


def preprocessing_fn(inputs: Mapping[str, tf.Tensor | tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """Pass the image on, give the label, and list the classes.

    Args:
        inputs: Raw features by name; [batch, 1] or sparse [batch, <=1]; int64 or string.

    Returns:
        Each of `features.STORED`, and `label_xf` int64 [batch, 1].
    """
    label = _dense(inputs[image_features.LABEL])
    number = tf.strings.as_string(label)
    # Where no words are known for a class, its number has to do.
    text = _dense(inputs[image_features.TEXT]) if image_features.TEXT in inputs else number
    tft.vocabulary(tf.strings.join([number, text], "\t"), vocab_filename=features.CLASSES)
    stored = {name: _dense(inputs[name]) for name in features.STORED}
    return {**stored, features.LABEL_XF: label}


def _dense(tensor: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
    """[batch, 1]; 0 or the empty string where a record has no value."""
    if not isinstance(tensor, tf.SparseTensor):
        return tf.reshape(tensor, [-1, 1])
    one_column = tf.SparseTensor(tensor.indices, tensor.values, [tensor.dense_shape[0], 1])
    dense = tf.sparse.to_dense(one_column, "" if tensor.dtype == tf.string else 0)
    return tf.ensure_shape(dense, [None, 1])
