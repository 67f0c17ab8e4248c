"""Facts of an Examples artifact and of a Schema artifact, as plain dataclasses."""

import base64
import itertools
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.components.files.remote import is_remote
from penstock.components.tfrecord.example_proto import values_of
from penstock.components.tfrecord.manifest import COUNTED, MANIFEST_NAME, Manifest
from penstock.components.tfrecord.schema_features import parse_schema
from penstock.pipelines.reporting.artifact_files import (
    as_text,
    names_in,
    read_bytes,
    rows_in,
    split_folder,
    splits_in,
)
from penstock.pipelines.reporting.numbers import compact, percent

# Maximum number of rejected rows that are read to count their reasons; reading them takes 0.1 s.
MOST_READ = 20_000
_SAMPLES = 10
_PREVIEW_ROWS = 6  # few, because the page shows each row as a column of a table
# Maximum number of columns of a table that are shown.
_MOST_COLUMNS = 60
# Maximum number of values of a text domain that are shown.
_SHOWN_VALUES = 8
# A quarantined row as `QuarantineWriter` writes it, with `raw` decoded.
Rejected = dict[str, Any]
_NUMBERS = str.maketrans(dict.fromkeys("0123456789", ""))


@dataclass(frozen=True)
class Reason:
    column: str
    example: str
    rows: int


@dataclass(frozen=True)
class DataFacts:
    """The examples of a run.

    Attributes:
        manifest: Manifest; None if another ExampleGen wrote the examples.
        files: Number of shards by split if there is no manifest.
    """

    uri: str
    manifest: Manifest | None
    files: dict[str, int] = field(default_factory=dict)
    reasons: Sequence[Reason] = ()
    samples: Sequence[Rejected] = ()
    preview: Mapping[str, Sequence[str]] = field(default_factory=dict)


def gather_data(uri: str) -> DataFacts:
    """Gathers the facts of an `Examples` artifact."""
    splits = splits_in(uri)
    preview = _preview(split_folder(uri, splits[0])) if splits and not is_remote(uri) else {}
    path = posixpath.join(uri, MANIFEST_NAME)
    listed = MANIFEST_NAME in names_in(uri)
    manifest = Manifest.from_json(read_bytes(path).decode(), path) if listed else None
    if manifest is None or manifest.source_kind == COUNTED:
        files = {split: len(names_in(split_folder(uri, split))) for split in splits}
        return DataFacts(uri, None, files, preview=preview)
    rows = _set_aside(posixpath.join(uri, manifest.quarantine)) if manifest.quarantine else []
    return DataFacts(uri, manifest, {}, _reasons(rows), rows[:_SAMPLES], preview)


def _preview(folder: str) -> dict[str, list[str]]:
    rows = [features for _, _, features in itertools.islice(rows_in(folder), _PREVIEW_ROWS)]
    names = sorted({name for row in rows for name in row})[:_MOST_COLUMNS]
    return {name: [as_text(values_of(row, name), 60) for row in rows] for name in names}


def _set_aside(folder: str) -> list[Rejected]:
    lines = (
        line
        for name in names_in(folder)
        for line in read_bytes(posixpath.join(folder, name)).decode().splitlines()
    )
    entries = map(json.loads, itertools.islice(lines, MOST_READ))
    return [_rejected(entry) for entry in entries]


def _rejected(entry: dict[str, Any]) -> Rejected:
    raw = entry["raw"].encode() if "raw" in entry else base64.b64decode(entry["raw_base64"])
    return {**entry, "column": entry["column"] or "", "raw": as_text([raw])}


def _reasons(rows: Sequence[Rejected]) -> list[Reason]:
    """Counts reasons; reasons that differ only in quoted values or numbers are counted as one."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        kind = "".join(row["reason"].split("'")[::2]).translate(_NUMBERS)
        alike.setdefault((row["column"], kind), []).append(row["reason"])
    found = [Reason(column, of[0], len(of)) for (column, _), of in alike.items()]
    return sorted(found, key=lambda reason: -reason.rows)


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
