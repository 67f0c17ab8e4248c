"""The parts of a TFMD schema that readers need, and a comparison of files' columns with it."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.components.errors import DataError
from penstock.components.files.spool import local_path
from penstock.components.sources.base import Column
from penstock.components.sources.options import ColumnOptions
from penstock.components.tfrecord.feature_kind import FeatureKind

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2


@dataclass(frozen=True)
class SchemaColumn:
    name: str
    kind: FeatureKind
    is_list: bool | None  # None if the schema does not specify it
    required: bool  # Whether every file must have the column


def read_schema(path: str | None) -> tuple[SchemaColumn, ...]:
    """Returns the features in use of a `schema.pbtxt`, in order; empty if there is no path."""
    if not path:
        return ()
    # This import loads protobuf, which a source without a schema does not need.
    from penstock.components.tfrecord.schema_features import is_used, parse_schema

    try:
        text = Path(local_path(path)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}: cannot read the schema ({error}); name a schema.pbtxt, as SchemaGen writes "
            "one, or leave the schema out: types then come from the data"
        ) from error
    features = [feature for feature in parse_schema(text, path).feature if is_used(feature)]
    if not features:
        raise DataError(f"{path}: the schema has no feature; expected one for each column")
    twice = [name for name, count in Counter(one.name for one in features).items() if count > 1]
    if twice:
        raise DataError(f"{path}: names feature {shown(twice)} twice; remove one")
    return tuple(_schema_column(feature, path) for feature in features)


def schema_columns(path: str) -> tuple[Column, ...]:
    """Returns the features in use as columns; a column has lists only if the schema says so."""
    return tuple(Column(one.name, one.kind, bool(one.is_list)) for one in read_schema(path))


def _schema_column(feature: "schema_pb2.Feature", path: str) -> SchemaColumn:
    from tensorflow_metadata.proto.v0 import schema_pb2

    kind = schema_pb2.FeatureType.Name(feature.type)
    if kind not in FeatureKind.__members__:
        raise DataError(
            f"{path}: feature {feature.name!r} has type {kind}; "
            f"expected one of {', '.join(FeatureKind.__members__)}"
        )
    presence = feature.presence
    required = presence.min_fraction > 0 or presence.min_count > 0
    return SchemaColumn(feature.name, FeatureKind[kind], _is_list(feature), required)


def _is_list(feature: "schema_pb2.Feature") -> bool | None:
    if feature.HasField("shape"):
        return math.prod(dim.size for dim in feature.shape.dim) != 1
    if feature.HasField("value_counts"):
        return True
    return feature.value_count.max > 1 if feature.value_count.max else None


def shown(names: Collection[str], limit: int = 8) -> str:
    """Returns quoted names for a message; only the first few of many."""
    some = ", ".join(repr(name) for name in list(names)[:limit])
    return some + (f" and {len(names) - limit} more" if len(names) > limit else "")


def check_layouts(
    files: Sequence[Any],
    schema: Sequence[SchemaColumn],
    options: ColumnOptions,
    folders: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Raises DataError if columns do not fit the schema or, without one, differ between files.

    The order of columns does not matter. `folders` maps a file's path to the partition columns that
    the names of its folders give.
    """
    for file in files:
        if schema:
            names = dict.fromkeys((*file.names, *(folders or {}).get(file.path, ())))
            _check_schema_names(file.path, tuple(names), schema, options.extra_columns)
        else:
            _check_same_names(file, files[0], options.extra_columns)


def _check_same_names(file: Any, first: Any, extra_columns: str) -> None:
    missing = [name for name in first.names if name not in set(file.names)]
    extra = [name for name in file.names if name not in set(first.names)]
    extra = extra if extra_columns == "reject" else []
    if missing or extra:
        found = [f"lacks {shown(missing)}"] if missing else []
        found += [f"has {shown(extra)} besides"] if extra else []
        raise DataError(
            f"{file.path}: {' and '.join(found)}; expected the columns of {first.path} in any "
            "order. Give a schema to say which columns count, or ingest the files separately"
        )


def _check_schema_names(
    path: str, names: Sequence[str], schema: Sequence[SchemaColumn], extra_columns: str
) -> None:
    known = {column.name for column in schema}
    missing = [column.name for column in schema if column.required and column.name not in names]
    if missing:
        raise DataError(
            f"{path}: lacks {shown(missing)}, which the schema requires; it has {shown(names)}"
        )
    unknown = [name for name in names if name not in known]
    if len(unknown) == len(names):
        raise DataError(f"{path}: has no column of the schema; it has {shown(names)}")
    if unknown and extra_columns == "reject":
        raise DataError(
            f"{path}: has {shown(unknown)}, which the schema does not name; "
            "add to the schema, or set `extra_columns='drop'`"
        )
