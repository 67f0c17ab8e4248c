"""Anomalies in words, with rows that caused them: ExampleAnomalies and Examples in, facts out."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.files.remote import is_remote
from penstock.components.gates.anomalies import Anomaly, list_anomalies
from penstock.pipelines.reporting.artifact_files import as_text, rows_in, split_folder, values_of

_ROWS_OF_EACH = 3
# A look at the data, not a pass over it: whoever wants all asks `penstock inspect --all`.
_SECONDS = 0.5

IsWrong = Callable[[Sequence[Any]], bool]


@dataclass(frozen=True)
class BadRow:
    """A row that an anomaly is about: its shard, its number there from 0, and its value."""

    shard: str
    record: int
    value: str


@dataclass(frozen=True)
class AnomalyFacts:
    """An anomaly, and rows that caused it as far as they were looked for and found."""

    anomaly: Anomaly
    rows: Sequence[BadRow] = ()


def gather_anomalies(
    by_split: Mapping[str, Any], schema: Any | None, examples: str | None
) -> list[AnomalyFacts]:
    """The anomalies of each split; rows are looked for where there are a schema and Examples."""
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
    """Whether a row's values of a feature are what the schema does not allow."""
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
