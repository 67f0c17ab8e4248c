"""Makes parsing specifications for `tf.io.parse_example` from a TFMD schema.

Dense tensors parse at half the cost of sparse ones. So each feature with a fixed number of values
is a `FixedLenFeature`, with a default value if the schema allows rows without it.
"""

import os
from collections.abc import Collection
from typing import TypeAlias

import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from penstock.components.errors import DataError, UsageError
from penstock.components.tfrecord.schema_features import is_used, parse_schema

FeatureSpec: TypeAlias = (
    tf.io.FixedLenFeature
    | tf.io.VarLenFeature
    | tf.io.FixedLenSequenceFeature
    | tf.io.RaggedFeature
)

_DTYPES = {schema_pb2.INT: tf.int64, schema_pb2.FLOAT: tf.float32, schema_pb2.BYTES: tf.string}
_DEFAULTS = {tf.int64: 0, tf.float32: 0.0, tf.string: ""}


def feature_spec(
    schema: schema_pb2.Schema | str | os.PathLike[str], *, var_len: Collection[str] = ()
) -> dict[str, FeatureSpec]:
    """Returns the parsing specification of every feature in use, in the schema's order.

    | schema | specification |
    |---|---|
    | `shape` of d dimensions | FixedLen of that shape |
    | `value_count` with min = max = n | FixedLen `[n]` |
    | `value_count` with max = 1 | FixedLen `[1]` |
    | another number of values, or none given | VarLen |
    | `ragged_tensor`, which TFT writes if `preprocessing_fn` returns a RaggedTensor | Ragged |

    If `presence.min_fraction` of a FixedLen feature is not 1.0, rows without it get 0, 0.0 or "".
    An empty list of values does not get this default, so name a feature with empty lists in
    `var_len`.

    Args:
        schema: The schema, or the path of its `schema.pbtxt`.
        var_len: Features to parse as sparse tensors, even if the schema fixes their shape.

    Raises:
        UsageError: `var_len` names a feature that is not in use in the schema.
        DataError: The schema cannot be read, or a feature has a type that records do not have.
    """
    if not isinstance(schema, schema_pb2.Schema):
        schema = read_schema(schema)
    ragged = _ragged(schema)
    lengths = {part.row_length for _, kind in ragged.values() for part in kind.partition}
    features = [f for f in schema.feature if is_used(f) and f.name not in lengths]
    names = [f.name for f in features]
    if unknown := sorted(set(var_len) - set(names)):
        raise UsageError(
            f"var_len names features that the schema does not have: {', '.join(unknown)}; "
            f"it has {', '.join(names)}"
        )
    return dict(
        _ragged_spec(f, *ragged[f.name])
        if f.name in ragged
        else (f.name, _spec(f, var_len=f.name in var_len))
        for f in features
    )


def read_schema(path: str | os.PathLike[str]) -> schema_pb2.Schema:
    try:
        with tf.io.gfile.GFile(os.fspath(path)) as file:
            text = file.read()
    except tf.errors.OpError as error:
        raise DataError(f"{path}: the schema cannot be read ({error.message})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a schema in text form ({error})") from error
    return parse_schema(text, os.fspath(path))


def _spec(feature: schema_pb2.Feature, *, var_len: bool) -> FeatureSpec:
    if feature.type not in _DTYPES or feature.HasField("value_counts"):
        kind = schema_pb2.FeatureType.Name(feature.type)
        nested = " with nested value_counts" if feature.HasField("value_counts") else ""
        raise DataError(
            f"feature {feature.name!r} is {kind}{nested} in the schema; "
            "a record holds flat lists of INT, FLOAT or BYTES: correct the schema"
        )
    dtype = _DTYPES[feature.type]
    shape = None if var_len else _fixed_shape(feature)
    if shape is None:
        return tf.io.VarLenFeature(dtype)
    if feature.presence.min_fraction == 1.0:
        return tf.io.FixedLenFeature(shape, dtype)
    # `numpy()` of a string tensor of shape [] returns `bytes`, which has no `tolist`, so a default
    # of this shape is used directly.
    default = tf.fill(shape, _DEFAULTS[dtype]).numpy().tolist() if shape else _DEFAULTS[dtype]
    return tf.io.FixedLenFeature(shape, dtype, default)


def _fixed_shape(feature: schema_pb2.Feature) -> list[int] | None:
    """Returns the shape of the feature in every row, or None if rows may differ in shape."""
    if feature.HasField("shape"):
        sizes = [dim.size for dim in feature.shape.dim]
        if any(size < 1 for size in sizes):
            raise DataError(
                f"feature {feature.name!r} has shape {sizes} in the schema; every dimension "
                "needs a size of at least 1: drop the shape where rows differ"
            )
        return sizes
    count = feature.value_count
    if count.max == 1 or (count.min == count.max and count.max > 0):
        return [count.max]
    return None


def _ragged_spec(
    values: schema_pb2.Feature, name: str, kind: schema_pb2.TensorRepresentation.RaggedTensor
) -> tuple[str, tf.io.RaggedFeature]:
    parts = tuple(
        tf.io.RaggedFeature.RowLengths(part.row_length)
        if part.HasField("row_length")
        else tf.io.RaggedFeature.UniformRowLength(part.uniform_row_length)
        for part in kind.partition
    )
    return name, tf.io.RaggedFeature(_DTYPES[values.type], values.name, parts)


def _ragged(
    schema: schema_pb2.Schema,
) -> dict[str, tuple[str, schema_pb2.TensorRepresentation.RaggedTensor]]:
    """Returns name and representation of each ragged tensor, by the feature with its values."""
    found = {}
    for group in schema.tensor_representation_group.values():
        for name, representation in group.tensor_representation.items():
            kind = representation.WhichOneof("kind")
            if kind == "ragged_tensor":
                ragged = representation.ragged_tensor
                found[".".join(ragged.feature_path.step)] = (name, ragged)
            elif kind not in (None, "dense_tensor", "varlen_sparse_tensor"):
                raise DataError(
                    f"the schema represents {name!r} as {kind}; training reads dense_tensor, "
                    "varlen_sparse_tensor and ragged_tensor: write it as one of these in "
                    "preprocessing_fn"
                )
    if absent := sorted(set(found) - {f.name for f in schema.feature}):
        raise DataError(
            f"the schema has no feature {absent[0]!r}, in which {found[absent[0]][0]!r} is to have "
            "its values: correct the ragged_tensor"
        )
    return found
