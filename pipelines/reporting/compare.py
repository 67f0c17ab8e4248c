"""Comparison of runs: differences in data, code and options, and in metrics."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.evaluator.slice_metrics import OVERALL
from penstock.components.trainer.record import TrainingRecord
from penstock.pipelines.reporting.gather import Report

_MOST_SLICES = 30
# Options that a driver adds to a node. They are not compared, because a node whose outputs come
# from the cache does not have them.
_OF_DRIVERS = ("input_fingerprint", "span", "version")


@dataclass(frozen=True)
class Change:
    where: str
    what: str
    values: Sequence[str]


@dataclass(frozen=True)
class MetricChange:
    """A number in each run; None if a run lacks it."""

    name: str
    values: Sequence[float | None]

    @property
    def change(self) -> float | None:
        """Difference between the last run and the first."""
        first, last = self.values[0], self.values[-1]
        return None if first is None or last is None else last - first

    @property
    def spread(self) -> float:
        known = [value for value in self.values if value is not None]
        return max(known, default=0.0) - min(known, default=0.0)


@dataclass(frozen=True)
class Comparison:
    """Two to four runs, in the given order.

    Attributes:
        slices: Values of the deciding metric by slice, those with the largest differences first.
    """

    runs: Sequence[Report]
    names: Sequence[str]
    changes: Sequence[Change]
    metrics: Sequence[MetricChange]
    training: Sequence[MetricChange]
    slices: Sequence[MetricChange]
    nodes: Sequence[MetricChange]


def compare(runs: Sequence[Report]) -> Comparison:
    results = [run.evaluation.result if run.evaluation else Evaluation({}) for run in runs]
    return Comparison(
        runs,
        ("Before", "After") if len(runs) == 2 else [f"Run {i}" for i in range(1, len(runs) + 1)],
        [*_data_changes(runs), *_lineage_changes(runs)],
        _metrics([result.metrics.get(OVERALL, {}) for result in results]),
        _metrics([_last_epoch(run.training) for run in runs]),
        _slices(results),
        _metrics([{n.node: n.seconds for n in run.pipeline.nodes if n.tries} for run in runs]),
    )


def _names(runs: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in runs for name in names))


def _metrics(runs: Sequence[Mapping[str, float]]) -> list[MetricChange]:
    return [MetricChange(name, [run.get(name) for run in runs]) for name in _names(runs)]


def _last_epoch(record: TrainingRecord | None) -> dict[str, float]:
    if record is None or not record.epochs:
        return {}
    found = {**record.epochs[-1].metrics, "steps": float(record.steps)}
    if (speed := record.examples_per_second) is not None:
        found["examples per second"] = float(round(speed))
    return found


def _slices(results: Sequence[Evaluation]) -> list[MetricChange]:
    metric = next((r.deciding_metric for r in reversed(results) if r.metrics), None) or ""
    large = []
    for result in results:
        left_out = {OVERALL, *result.small_slices()}
        kept = {n: of for n, of in result.metrics.items() if n not in left_out and metric in of}
        large.append({name: values[metric] for name, values in kept.items()})
    changed = [change for change in _metrics(large) if change.spread]
    return sorted(changed, key=lambda change: -change.spread)[:_MOST_SLICES]


def _data_changes(runs: Sequence[Report]) -> Iterator[Change]:
    manifests = [run.data.manifest for run in runs if run.data and run.data.manifest]
    if len(manifests) == len(runs):
        accounts = [manifest.account for manifest in manifests]
        for what in ("read", "quarantined", "blank"):
            yield from _if_changed("data", f"rows {what}", [getattr(a, what) for a in accounts])
        yield from _if_changed("data", "rows written", [dict(a.written) for a in accounts])
        yield from _if_changed("data", "shards", [len(m.shards) for m in manifests])
    schemas = [{row.name: row for row in run.schema or ()} for run in runs]
    for name in _names(schemas):
        rows = [schema.get(name) for schema in schemas]
        texts = [
            f"{r.kind}, {r.presence}, {r.values}, {r.domain}" if r else "not there" for r in rows
        ]
        yield from _if_changed("schema", name, texts)


def _lineage_changes(runs: Sequence[Report]) -> Iterator[Change]:
    lineages = [run.lineage for run in runs]
    yield from _if_changed("run", "command", [one.command for one in lineages])
    yield from _if_changed("code", "commit", [one.code for one in lineages])
    yield from _between("code", [one.code_digests for one in lineages])
    places = [{o.node: f"{o.place} {o.digest}".strip() for o in one.origins} for one in lineages]
    yield from _between("source", places)
    yield from _between("version", [one.versions for one in lineages])
    for node in _names(one.options for one in lineages):
        # A node that did not run in one of the runs has no options there, so it is not compared.
        options = [_flat(one.options.get(node, {})) for one in lineages]
        if all(options):
            yield from _between(node, options)


def _between(where: str, runs: Sequence[Mapping[str, str]]) -> Iterator[Change]:
    for name in _names(runs):
        yield from _if_changed(where, name, [run.get(name, "") for run in runs])


def _if_changed(where: str, what: str, values: Sequence[Any]) -> Iterator[Change]:
    if any(value != values[0] for value in values):
        yield Change(where, what, [_text(value) for value in values])


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part:,}" for name, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _flat(options: Mapping[str, Any]) -> dict[str, str]:
    flat = dict(_parts("", {n: v for n, v in options.items() if n not in _OF_DRIVERS}))
    flat.pop("custom_config.code", None)  # reported as a change of the node's code
    return flat


def _parts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        parts = enumerate(value)
    else:
        yield path, json.dumps(value) if isinstance(value, list) else str(value)
    for name, part in parts:
        yield from _parts(f"{path}.{name}" if path else str(name), part)
