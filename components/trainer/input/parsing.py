"""Parses serialised records into features, in the same way in training, evaluation and serving.

Keras 3 takes dense tensors, so a ragged feature is padded to the longest list in the batch.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.tfrecord.feature_spec import FeatureSpec

# Specs of a record's features by name.
Spec: TypeAlias = Mapping[str, FeatureSpec]
Parser: TypeAlias = Callable[[tf.Tensor], dict[str, Any]]


def parser(spec: Spec, feature_lists: Spec | None = None) -> Parser:
    """Returns a function from serialised records, a string tensor [rows], to features by name.

    The shapes of the features, where `longest` is the length of the longest list in the batch, and
    `steps` is the largest number of steps:

    | spec of the feature | in an Example or a context | in a feature list |
    |---|---|---|
    | `FixedLenFeature` | [rows, *shape] | not possible |
    | `FixedLenSequenceFeature` | [rows, longest, *shape]; Examples only | [rows, steps, *shape] |
    | `RaggedFeature` | [rows, longest] | [rows, steps, longest] |
    | `VarLenFeature` | `tf.SparseTensor`, 2 dimensions | `tf.SparseTensor`, 3 dimensions |

    The padding is 0 or the empty string, or the default value of a `FixedLenSequenceFeature` of an
    Example. If all lists of a feature in a batch are empty, they are padded to length 1.
    """
    lists = {**spec, **(feature_lists or {})}
    defaults = {
        name: kind.default_value
        for name, kind in lists.items()
        if isinstance(kind, tf.io.FixedLenSequenceFeature)
    }
    if feature_lists is None:
        return lambda records: padded(tf.io.parse_example(records, dict(spec)), records, defaults)
    if both := sorted(set(spec) & set(feature_lists)):
        raise UsageError(
            f"{', '.join(both)}: in the spec and in feature_lists; a feature belongs to the "
            "context of a SequenceExample or to its lists"
        )

    def parse(records: tf.Tensor) -> dict[str, Any]:
        context, steps, _ = tf.io.parse_sequence_example(records, dict(spec), dict(feature_lists))
        return padded({**context, **steps}, records, defaults)

    return parse


def padded(
    features: Mapping[str, Any], records: tf.Tensor, defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the features of `records`, with the ragged ones made dense.

    If all lists of a ragged feature in a batch are empty, they are padded to length 1. The dense
    features named in `defaults` are padded in the same way, with their value in `defaults`; None
    means 0 or the empty string.
    """
    found, defaults = dict(features), defaults or {}
    for name, value in features.items():
        if isinstance(value, tf.RaggedTensor):
            found[name] = _lengthened(value.to_tensor(shape=[records.shape[0], *value.shape[1:]]))
        elif name in defaults:
            found[name] = _lengthened(value, defaults[name])
    return found


def _lengthened(value: tf.Tensor, default: Any = None) -> tf.Tensor:
    """Pads a batch of empty lists to length 1: recurrent layers and maxima fail on length 0."""
    if default is None:
        default = "" if value.dtype == tf.string else 0
    more = [
        [0, 0 if size or not at else tf.cast(tf.equal(tf.shape(value)[at], 0), tf.int32)]
        for at, size in enumerate(value.shape)
    ]
    longer = tf.pad(value, more, constant_values=tf.constant(default, value.dtype))
    longer.set_shape([size or None for size in value.shape])
    return longer
