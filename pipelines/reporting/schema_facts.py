"""Table of a Schema artifact."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.tfrecord.schema_features import parse_schema
from penstock.pipelines.reporting.artifact_files import read_bytes
from penstock.pipelines.reporting.numbers import compact, percent

_SHOWN_VALUES = 8


@dataclass(frozen=True)
class SchemaRow:
    name: str
    kind: str
    presence: str
    values: str
    domain: str


def gather_schema(uri: str) -> list[SchemaRow]:
    from tensorflow_metadata.proto.v0 import schema_pb2

    path = posixpath.join(uri, "schema.pbtxt")
    schema = parse_schema(read_bytes(path).decode(), path)
    domains = {domain.name: domain for domain in schema.string_domain}
    return [
        SchemaRow(
            feature.name,
            schema_pb2.FeatureType.Name(feature.type),
            _presence(feature),
            _values(feature),
            _domain(feature, domains),
        )
        for feature in schema.feature
    ]


def _presence(feature: Any) -> str:
    share = feature.presence.min_fraction
    if share >= 1:
        return "in every row"
    return f"in at least {percent(share)} of the rows" if share > 0 else "optional"


def _values(feature: Any) -> str:
    kind = feature.WhichOneof("shape_type")
    if kind == "shape":
        sizes = [str(dim.size) for dim in feature.shape.dim]
        return f"shape {' x '.join(sizes)}" if sizes else "one"
    if kind == "value_count":
        low, high = feature.value_count.min, feature.value_count.max
        return f"{low}" if low == high else f"{low} to {high or 'any number'}"
    return "any number"


def _domain(feature: Any, domains: dict[str, Any]) -> str:
    kind = feature.WhichOneof("domain_info")
    if kind == "domain":
        return _texts(domains[feature.domain].value) if feature.domain in domains else ""
    if kind == "string_domain":
        return _texts(feature.string_domain.value)
    if kind in ("int_domain", "float_domain"):
        domain = getattr(feature, kind)
        if kind == "int_domain" and domain.is_categorical and not domain.HasField("max"):
            return "categorical"
        low = compact(domain.min) if domain.HasField("min") else "any"
        high = compact(domain.max) if domain.HasField("max") else "any"
        return f"{low} to {high}"
    return kind.removesuffix("_domain").replace("_", " ") if kind else ""


def _texts(values: Sequence[str]) -> str:
    shown = ", ".join(values[:_SHOWN_VALUES])
    more = len(values) - _SHOWN_VALUES
    return f"{shown} and {more} more" if more > 0 else shown
