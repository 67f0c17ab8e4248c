"""Avro's types to kinds of features."""

import re
from collections.abc import Mapping
from typing import Any

from penstock.components.tfrecord.feature_kind import FeatureKind

_KINDS = {
    "boolean": FeatureKind.INT,
    "int": FeatureKind.INT,
    "long": FeatureKind.INT,
    "float": FeatureKind.FLOAT,
    "double": FeatureKind.FLOAT,
    "string": FeatureKind.BYTES,
    "bytes": FeatureKind.BYTES,
    "enum": FeatureKind.BYTES,
    "fixed": FeatureKind.BYTES,
}
_NESTED = ("record", "error", "map")
_NUMBERS = (FeatureKind.INT, FeatureKind.FLOAT)
# What fastavro reads as dates and times; millis and micros both become microseconds.
_TIME = re.compile(r"(date|time|timestamp|local-timestamp)(-millis|-micros)?")


def avro_feature(avro_type: Any) -> tuple[FeatureKind | None, bool] | None:
    """(kind, whether a list) of the feature that holds an Avro type; None where none does.

    The kind is None for Avro's null. A union is held where all but null are of one kind.
    """
    if isinstance(avro_type, list):
        return _union(avro_type)
    if not isinstance(avro_type, Mapping):
        return (None, False) if avro_type == "null" else _plain(avro_type)
    if avro_type.get("logicalType") == "decimal":
        return FeatureKind.FLOAT, False
    if avro_type["type"] == "array":
        item = avro_feature(avro_type["items"])
        return (item[0], True) if item is not None and not item[1] else None
    if isinstance(avro_type["type"], (list, Mapping)):
        return avro_feature(avro_type["type"])
    return _plain(avro_type["type"])


def number_units(avro_type: Any) -> set[str]:
    """What the numbers of a type may count: `date`, `timestamp`, ..., and `number` of plain ones.

    A column of several would mix days with microseconds, whatever wrote which.
    """
    if isinstance(avro_type, list):
        return {unit for branch in avro_type for unit in number_units(branch)}
    if not isinstance(avro_type, Mapping):
        is_number = isinstance(avro_type, str) and _KINDS.get(avro_type) in _NUMBERS
        return {"number"} if is_number else set()
    logical = avro_type.get("logicalType")
    if logical == "decimal":
        return {"number"}
    time = _TIME.fullmatch(str(logical)) if avro_type["type"] in ("int", "long") else None
    if time:
        return {time[1]}
    return number_units(avro_type["items" if avro_type["type"] == "array" else "type"])


def _plain(name: str) -> tuple[FeatureKind, bool] | None:
    return None if name in _NESTED or name not in _KINDS else (_KINDS[name], False)


def _union(branches: list[Any]) -> tuple[FeatureKind | None, bool] | None:
    features = [avro_feature(branch) for branch in branches]
    found = {feature for feature in features if feature != (None, False)}
    if None in found or len(found) > 2:
        return None
    numbers = {(FeatureKind.INT, False), (FeatureKind.FLOAT, False)}
    if len(found) == 2:
        return (FeatureKind.FLOAT, False) if found == numbers else None
    return next(iter(found)) if found else (None, False)
