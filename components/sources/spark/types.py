"""Maps Spark's type names, as `df.dtypes` prints them, to kinds of features."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.components.errors import UsageError
from penstock.components.sources.base import Column
from penstock.components.tfrecord.feature_kind import FeatureKind

# https://spark.apache.org/docs/latest/sql-ref-datatypes.html: names in SQL and their aliases.
_KINDS = {
    FeatureKind.INT: (
        "boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long",
        "date", "timestamp", "timestamp_ntz",
    ),
    FeatureKind.FLOAT: ("float", "real", "double", "decimal", "dec", "numeric"),
    FeatureKind.BYTES: ("string", "varchar", "char", "binary"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_ARRAY = re.compile(r"array<(.+)>", re.IGNORECASE)
_PARAMETERS = re.compile(r"\(\s*\d+\s*(,\s*\d+\s*)?\)$")


@dataclass(frozen=True)
class StepColumn(Column):
    """A feature list: a row has steps, each a value or a list of values of that kind."""

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.list_(super().arrow_type)


def spark_feature(type_name: str) -> tuple[FeatureKind, bool] | None:
    """Returns (kind, is_list) of the feature that holds a Spark type; None if no feature can."""
    name = type_name.strip()
    array = _ARRAY.fullmatch(name)
    if array:
        item = spark_feature(array[1])
        return (item[0], True) if item and not item[1] else None
    kind = _KIND_OF.get(_PARAMETERS.sub("", name).lower())
    return (kind, False) if kind else None


def spark_column(name: str, type_name: str) -> Column:
    feature = spark_feature(type_name)
    if type_name.lower() == "vector":
        raise UsageError(
            f"column {name!r} is a vector of Spark ML, which no feature can hold; make it an "
            f"array, df.withColumn({name!r}, vector_to_array({name!r})) of pyspark.ml.functions"
        )
    if feature is None:
        raise UsageError(
            f"column {name!r} has Spark's type {type_name}, which no feature can hold; select its "
            f"fields as columns of their own, or leave it out. Types: "
            f"{', '.join(sorted(_KIND_OF))}, and array<...> of them; in `feature_lists` of "
            "write_tfrecords also array<array<...>>"
        )
    return Column(name, feature[0], is_list=feature[1], is_text="binary" not in type_name.lower())


def spark_steps(name: str, type_name: str) -> StepColumn:
    """Returns the feature list that holds a column of arrays; UsageError if none can."""
    array = _ARRAY.fullmatch(type_name)
    if array is None:
        raise UsageError(
            f"`feature_lists`: column {name!r} has Spark's type {type_name}, expected array<...>, "
            "a value or an array of values for each step"
        )
    step = spark_column(name, array[1])
    return StepColumn(name, step.kind, step.is_list, step.is_text)


def parse_columns(texts: Iterable[str]) -> tuple[Column, ...]:
    """Parses columns like `fare double`; UsageError for an unknown type or a duplicate name."""
    columns = [_parse(text) for text in texts]
    _check_names([column.name for column in columns])
    return tuple(columns)


def _parse(text: str) -> Column:
    name, _, type_name = text.strip().partition(" ")
    if not type_name.strip():
        raise UsageError(f"a column is a name and a Spark type, as 'fare double', got {text!r}")
    return spark_column(name, type_name)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"column {name!r} is given {names.count(name)} times")
