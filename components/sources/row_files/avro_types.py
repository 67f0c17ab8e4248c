"""Avro's types to kinds of features."""

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
