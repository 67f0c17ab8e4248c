"""A TFMD schema as far as reading a file needs it: names, kinds and which columns must be there."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.components.errors import DataError
from penstock.components.files.spool import local_path
from penstock.components.tfrecord.feature_kind import FeatureKind

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2


@dataclass(frozen=True)
class SchemaColumn:
    """A feature of the schema; required, where it must be in any row, hence in every file.

    `is_list` is None where the schema does not say whether a row holds several values.
    """

    name: str
    kind: FeatureKind
    is_list: bool | None
    required: bool


def read_schema(path: str | None) -> tuple[SchemaColumn, ...]:
    """The features of a `schema.pbtxt` that are in use, in its order; none without a path.

    Raises:
        DataError: There is no such file, it is no schema, or a feature has a type that no
            `tf.train.Feature` holds.
    """
    if not path:
        return ()
    # Imports protobuf, which a source without a schema does not need.
    from penstock.components.tfrecord.schema_features import is_used, parse_schema

    text = read_schema_text(path)
    features = [feature for feature in parse_schema(text, path).feature if is_used(feature)]
    if not features:
        raise DataError(f"{path}: the schema has no feature; expected one for each column")
    return tuple(_schema_column(feature, path) for feature in features)


def read_schema_text(path: str) -> str:
    """The text of a `schema.pbtxt`; DataError if there is no such file, or it is no text."""
    try:
        return Path(local_path(path)).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(
            f"{path}: no such schema file; name a schema.pbtxt, as SchemaGen writes one, or leave "
            "the schema out: types then come from the data"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the schema ({error})") from error


def _schema_column(feature: "schema_pb2.Feature", path: str) -> SchemaColumn:
    from tensorflow_metadata.proto.v0 import schema_pb2

    kind = schema_pb2.FeatureType.Name(feature.type)
    if kind not in FeatureKind.__members__:
        raise DataError(
            f"{path}: feature {feature.name!r} has type {kind}; "
            f"expected one of {', '.join(FeatureKind.__members__)}"
        )
    presence = feature.presence
    return SchemaColumn(
        feature.name,
        FeatureKind[kind],
        is_list=_is_list(feature),
        required=presence.min_fraction > 0 or presence.min_count > 0,
    )


def _is_list(feature: "schema_pb2.Feature") -> bool | None:
    """By the feature's shape, or else by its largest number of values."""
    if feature.HasField("shape"):
        return math.prod(dim.size for dim in feature.shape.dim) != 1
    if feature.HasField("value_counts"):
        return True
    return feature.value_count.max > 1 if feature.value_count.max else None
