"""Tables of Schema and ExampleAnomalies artifacts, with rows that caused anomalies."""

import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.files.remote import is_remote
from penstock.components.gates.anomalies import Anomaly, list_anomalies
from penstock.components.tfrecord.schema_features import parse_schema
from penstock.pipelines.reporting.artifact_files import (
    as_text,
    read_bytes,
    rows_in,
    split_folder,
    values_of,
)
from penstock.pipelines.reporting.numbers import compact, percent

_ROWS_OF_EACH = 3
# Most rows that are searched, to limit the time; `penstock inspect --all` reads all rows.
_SECONDS = 0.5

IsWrong = Callable[[Sequence[Any]], bool]

_SHOWN_VALUES = 8


@dataclass(frozen=True)
class SchemaRow:
    name: str
    kind: str
    presence: str
    values: str
    domain: str


def schema_rows(schema: Any) -> list[SchemaRow]:
    domains = {domain.name: domain for domain in schema.string_domain}
    return [_row(feature, domains) for feature in schema.feature]


def schema_of(uri: str) -> Any:
    path = posixpath.join(uri, "schema.pbtxt")
    return parse_schema(read_bytes(path).decode(), path)


def _row(feature: Any, domains: dict[str, Any]) -> SchemaRow:
    from tensorflow_metadata.proto.v0 import schema_pb2

    return SchemaRow(
        feature.name,
        schema_pb2.FeatureType.Name(feature.type),
        _presence(feature),
        _values(feature),
        _domain(feature, domains),
    )


def _presence(feature: Any) -> str:
    if not feature.HasField("presence") and not feature.HasField("group_presence"):
        return "optional"
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


@dataclass(frozen=True)
class BadRow:
    shard: str
    record: int
    value: str


@dataclass(frozen=True)
class AnomalyFacts:
    anomaly: Anomaly
    rows: Sequence[BadRow] = ()


def gather_anomalies(
    by_split: Mapping[str, Any], schema: Any | None, examples: str | None
) -> list[AnomalyFacts]:
    """Gathers the anomalies by split; rows are searched if a schema and Examples are given."""
    anomalies = list_anomalies(by_split)
    if schema is None or examples is None or is_remote(examples):
        return [AnomalyFacts(anomaly) for anomaly in anomalies]
    domains = {domain.name: list(domain.value) for domain in schema.string_domain}
    checks = {feature.name: _check(feature, domains) for feature in schema.feature}
    deadline = time.monotonic() + _SECONDS
    rows = {}
    for split in by_split:
        features = [a.feature for a in anomalies if a.split == split and a.feature in checks]
        wanted = {feature: checks[feature] for feature in features}
        rows[split] = _bad_rows(split_folder(examples, split), wanted, deadline)
    return [AnomalyFacts(a, rows[a.split].get(a.feature, ())) for a in anomalies]


def _check(feature: Any, domains: Mapping[str, Sequence[str]]) -> IsWrong:
    kind = feature.WhichOneof("domain_info")
    if kind in ("domain", "string_domain"):
        allowed = set(
            domains.get(feature.domain, ()) if kind == "domain" else feature.string_domain.value
        )
        return _or_missing(
            feature, lambda value: bool(allowed) and as_text([value], 1 << 20) not in allowed
        )
    if kind in ("int_domain", "float_domain"):
        domain = getattr(feature, kind)
        low = domain.min if domain.HasField("min") else float("-inf")
        high = domain.max if domain.HasField("max") else float("inf")
        return _or_missing(
            feature, lambda value: not isinstance(value, bytes) and not low <= value <= high
        )
    return _or_missing(feature, lambda value: False)


def _or_missing(feature: Any, is_wrong: Callable[[Any], bool]) -> IsWrong:
    needed = feature.presence.min_fraction > 0
    return lambda values: any(map(is_wrong, values)) if values else needed


def _bad_rows(
    folder: str, wanted: Mapping[str, IsWrong], deadline: float
) -> dict[str, list[BadRow]]:
    found: dict[str, list[BadRow]] = {name: [] for name in wanted}
    for shard, record, features in rows_in(folder) if wanted else ():
        for name, is_wrong in wanted.items():
            rows = found[name]
            values = values_of(features, name)
            if len(rows) < _ROWS_OF_EACH and is_wrong(values):
                rows.append(BadRow(shard, record, as_text(values) or "missing"))
        if time.monotonic() > deadline or all(len(r) == _ROWS_OF_EACH for r in found.values()):
            break
    return found
