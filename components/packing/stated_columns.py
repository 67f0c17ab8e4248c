"""Columns of a TFMD schema for `pack`, interpreted as `feature_spec` does."""

import os

import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from penstock.components.errors import DataError
from penstock.components.packing.facts import StatedColumn
from penstock.components.tfrecord.feature_spec import feature_spec

_KINDS = {tf.int64: "INT", tf.float32: "FLOAT", tf.string: "BYTES"}


def stated_columns(schema: schema_pb2.Schema | str | os.PathLike[str]) -> dict[str, StatedColumn]:
    """Returns kind and shape of each feature in use, in the schema's order."""
    stated = {}
    for name, spec in feature_spec(schema).items():
        if isinstance(spec, tf.io.RaggedFeature) and spec.value_key != name:
            raise DataError(
                f"{name!r} is a RaggedTensor of preprocessing_fn, which is not packed: give its "
                "to_sparse(), which is, or train from rows"
            )
        fixed = isinstance(spec, tf.io.FixedLenFeature)
        stated[name] = StatedColumn(_KINDS[spec.dtype], tuple(spec.shape) if fixed else None)
    return stated
