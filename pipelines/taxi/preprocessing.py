"""Turns raw trips into model inputs: the `preprocessing_fn` of Transform and of serving.

Numeric columns with the same transformation are stacked before analysis, because an analyzer of
three columns costs as much as an analyzer of one column. The graph, which TensorFlow Transform
traces many times, also stays small.
"""

from collections.abc import Mapping

import tensorflow as tf
import tensorflow_transform as tft

from penstock.pipelines.taxi import features
from penstock.recipes import preprocessing as columns


def preprocessing_fn(inputs: Mapping[str, tf.Tensor | tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """Turns raw features into the model's inputs and the label.

    Args:
        inputs: Raw features by name; [batch, 1] or sparse [batch, <=1]; int64, float32 or string.

    Returns:
        `numbers_xf` float32 [batch, 6], `categories_xf` int64 [batch, 9] and
        `big_tipper_xf` int64 [batch, 1] in {0, 1}.
    """
    dense = {name: columns.dense_column(tensor) for name, tensor in inputs.items()}
    big_tips = features.BIG_TIP_SHARE_OF_FARE * dense[features.FARE]
    categories = [
        *_bucketed(dense),
        *(_vocabulary_ids(dense[name], name) for name in features.VOCABULARY),
        *(_bounded(dense[name], size) for name, size in features.COUNTED.items()),
    ]
    return {
        columns.NUMBERS_XF: columns.scaled_numbers(inputs, features.NUMERIC),
        columns.CATEGORIES_XF: tf.concat(categories, axis=1),
        features.TARGET.label: tf.cast(dense[features.TARGET.name] > big_tips, tf.int64),
    }


def _bucketed(dense: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
    numbers = [tf.cast(dense[name], tf.float32) for name in features.BUCKETED]
    boundaries = tft.quantiles(
        tf.concat(numbers, axis=1),
        num_buckets=features.BUCKETS,
        epsilon=0.01,
        reduce_instance_dims=False,
    )
    return [
        tft.apply_buckets(column, boundaries[index : index + 1])
        for index, column in enumerate(numbers)
    ]


def _vocabulary_ids(values: tf.Tensor, name: str) -> tf.Tensor:
    return tft.compute_and_apply_vocabulary(
        values,
        top_k=features.VOCABULARY_SIZE,
        num_oov_buckets=features.OUT_OF_VOCABULARY_BUCKETS,
        vocab_filename=name,
    )


def _bounded(values: tf.Tensor, size: int) -> tf.Tensor:
    return tf.where((values >= 0) & (values < size), values, tf.zeros_like(values))
