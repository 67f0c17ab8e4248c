"""Two runs side by side: what changed, and what it did. Facts in, plain differences out."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.pipelines.reporting.evaluation_facts import MIN_SLICE_EXAMPLES
from penstock.pipelines.reporting.feature_facts import FeatureFacts, SplitFeature
from penstock.pipelines.reporting.gather import Report
from penstock.pipelines.reporting.histograms import Bar
from penstock.pipelines.runs.evaluation_result import EXAMPLE_COUNT, OVERALL, EvaluationResult

_MOST_SLICES = 30
# What a driver adds to the options of a node that it does not take from the cache.
_OF_DRIVERS = ("input_fingerprint", "span", "version")


@dataclass(frozen=True)
class Change:
    """Something that is not the same: where, what, and both values as text."""

    where: str
    what: str
    before: str
    after: str


@dataclass(frozen=True)
class MetricChange:
    """A number of both runs; None where a run lacks it."""

    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """After minus before."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before


@dataclass(frozen=True)
class FeatureChange:
    """A feature whose first split is not the same in both runs."""

    name: str
    before: SplitFeature | None
    after: SplitFeature | None

    @property
    def bars(self) -> tuple[Sequence[Bar], Sequence[Bar]]:
        """Both histograms; each on the bins of its own run."""
        return (self.before.bars if self.before else (), self.after.bars if self.after else ())


@dataclass(frozen=True)
class Comparison:
    """Two runs: what was changed, and what came of it.

    Metrics are those over all examples, training that of the last epoch, slices values of the
    deciding metric, the largest changes first. Features are those whose statistics differ, nodes
    have their seconds.
    """

    before: Report
    after: Report
    changes: Sequence[Change]
    metrics: Sequence[MetricChange]
    training: Sequence[MetricChange]
    slices: Sequence[MetricChange]
    features: Sequence[FeatureChange]
    nodes: Sequence[MetricChange]


def compare(before: Report, after: Report) -> Comparison:
    """What is not the same in two runs."""
    return Comparison(
        before,
        after,
        [*_data_changes(before, after), *_lineage_changes(before, after)],
        _metrics(_overall(before), _overall(after)),
        _metrics(_last_epoch(before), _last_epoch(after)),
        _slices(before, after),
        _features(before, after),
        _metrics(_seconds(before), _seconds(after)),
    )


def _metrics(before: Mapping[str, float], after: Mapping[str, float]) -> list[MetricChange]:
    names = dict.fromkeys([*before, *after])
    return [MetricChange(name, before.get(name), after.get(name)) for name in names]


def _overall(report: Report) -> Mapping[str, float]:
    return report.evaluation.result.metrics.get(OVERALL, {}) if report.evaluation else {}


def _last_epoch(report: Report) -> dict[str, float]:
    if report.training is None or not report.training.record.epochs:
        return {}
    record = report.training.record
    speed = record.examples_per_second
    return {
        **record.epochs[-1].metrics,
        "steps": float(record.steps),
        **({"examples per second": float(round(speed))} if speed is not None else {}),
    }


def _seconds(report: Report) -> dict[str, float]:
    return {n.name: n.seconds for n in report.pipeline.nodes if n.seconds is not None}


def _slices(before: Report, after: Report) -> list[MetricChange]:
    if before.evaluation is None or after.evaluation is None:
        return []
    metric = after.evaluation.result.deciding_metric
    results = (before.evaluation.result, after.evaluation.result)
    found = [
        MetricChange(name, *(_value(result, name, metric) for result in results))
        for name in results[1].metrics
        if name != OVERALL and _is_large(results[1], name)
    ]
    known = [change for change in found if change.change]
    return sorted(known, key=lambda change: -abs(change.change or 0))[:_MOST_SLICES]


def _value(result: EvaluationResult, slice_name: str, metric: str | None) -> float | None:
    return result.metrics.get(slice_name, {}).get(metric or "")


def _is_large(result: EvaluationResult, slice_name: str) -> bool:
    examples = result.metrics[slice_name].get(EXAMPLE_COUNT, MIN_SLICE_EXAMPLES)
    return examples >= MIN_SLICE_EXAMPLES


def _features(before: Report, after: Report) -> list[FeatureChange]:
    if before.statistics is None or after.statistics is None:
        return []
    first = {f.name: _first_split(f) for f in before.statistics.features}
    second = {f.name: _first_split(f) for f in after.statistics.features}
    names = dict.fromkeys([*first, *second])
    return [
        FeatureChange(name, first.get(name), second.get(name))
        for name in names
        if first.get(name) != second.get(name)
    ]


def _first_split(feature: FeatureFacts) -> SplitFeature | None:
    return next(iter(feature.splits.values()), None)


def _data_changes(before: Report, after: Report) -> Iterator[Change]:
    manifests = [r.data.manifest if r.data else None for r in (before, after)]
    if all(manifests):
        first, second = ((m.account, m) for m in manifests if m is not None)
        for what in ("read", "quarantined", "blank"):
            yield from _if_changed(
                "data", f"rows {what}", *(getattr(a, what) for a, _ in (first, second))
            )
        yield from _if_changed(
            "data", "rows written", dict(first[0].written), dict(second[0].written)
        )
        yield from _if_changed("data", "shards", len(first[1].shards), len(second[1].shards))
    schemas = [{row.name: row for row in r.schema or ()} for r in (before, after)]
    for name in dict.fromkeys([*schemas[0], *schemas[1]]):
        rows = [schema.get(name) for schema in schemas]
        if rows[0] != rows[1]:
            texts = [
                f"{r.kind}, {r.presence}, {r.values}, {r.domain}" if r else "not there"
                for r in rows
            ]
            yield Change("schema", name, *texts)


def _lineage_changes(before: Report, after: Report) -> Iterator[Change]:
    first, second = before.lineage, after.lineage
    yield from _if_changed("run", "command", first.command, second.command)
    yield from _if_changed("code", "commit", first.code, second.code)
    yield from _between("code", first.code_digests, second.code_digests)
    places = [{o.node: f"{o.place} {o.digest}".strip() for o in x.origins} for x in (first, second)]
    yield from _between("source", *places)
    yield from _between("version", first.versions, second.versions)
    for node in dict.fromkeys([*first.options, *second.options]):
        options = [_flat(x.options.get(node, {})) for x in (first, second)]
        if all(options):
            yield from _between(node, *options)


def _between(where: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        yield from _if_changed(where, name, before.get(name, ""), after.get(name, ""))


def _if_changed(where: str, what: str, before: Any, after: Any) -> Iterator[Change]:
    if before != after:
        yield Change(where, what, _text(before), _text(after))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part:,}" for name, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _flat(options: Mapping[str, str]) -> dict[str, str]:
    """Options whose JSON is taken apart: `custom_config.train.max_steps`."""
    flat: dict[str, str] = {}
    for name, text in options.items():
        if name in _OF_DRIVERS:
            continue
        value: Any = text
        if text[:1] in ("{", "["):
            try:
                value = json.loads(text)
            except ValueError:
                value = text
        _flatten(name, value, flat)
    return flat


def _flatten(path: str, value: Any, into: dict[str, str]) -> None:
    if isinstance(value, dict):
        for name, part in value.items():
            _flatten(f"{path}.{name}", part, into)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for i, part in enumerate(value):
            _flatten(f"{path}.{i}", part, into)
    else:
        into[path] = json.dumps(value) if isinstance(value, list) else str(value)
