"""Serialised records in, features out: as training, evaluation and serving see them.

Keras 3 takes dense tensors, so a ragged feature comes padded to the longest of its batch.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.tfrecord.feature_spec import FeatureSpec

# Specs of a record, by feature.
Spec: TypeAlias = Mapping[str, FeatureSpec]
Parser: TypeAlias = Callable[[tf.Tensor], dict[str, Any]]


def parser(spec: Spec, feature_lists: Spec | None = None) -> Parser:
    """A function of serialised records, string [rows], that gives their features by name.

    | kind of feature | of an Example, or a context | of a feature list |
    |---|---|---|
    | `FixedLenFeature` | [rows, *shape] | |
    | `FixedLenSequenceFeature` | [rows, longest, *shape]; Examples only | [rows, steps, *shape] |
    | `RaggedFeature` | [rows, longest] | [rows, steps, longest] |
    | `VarLenFeature` | `tf.SparseTensor` of two dimensions | of three |

    Padding is 0 or the empty string; in a `FixedLenSequenceFeature` of an Example its default. The
    longest has a length of at least 1.
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
    """The features of `records`, the ragged ones dense, and none of no length.

    `defaults` has the padding of those that are dense already, None for 0 or the empty string.
    """
    found, defaults = dict(features), defaults or {}
    for name, value in features.items():
        if isinstance(value, tf.RaggedTensor):
            found[name] = _lengthened(value.to_tensor(shape=[records.shape[0], *value.shape[1:]]))
        elif name in defaults:
            found[name] = _lengthened(value, defaults[name])
    return found


def _lengthened(value: tf.Tensor, default: Any = None) -> tf.Tensor:
    """Pads empty lists of all rows to one value: recurrent layers and maxima fail without any."""
    if default is None:
        default = "" if value.dtype == tf.string else 0
    more = [
        [0, 0 if size or not at else tf.cast(tf.equal(tf.shape(value)[at], 0), tf.int32)]
        for at, size in enumerate(value.shape)
    ]
    longer = tf.pad(value, more, constant_values=tf.constant(default, value.dtype))
    longer.set_shape([size or None for size in value.shape])
    return longer
