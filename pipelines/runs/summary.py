"""The summary of a run, from its metadata store and artifacts."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from penstock.components.errors import DataError
from penstock.components.files.spool import local_path
from penstock.components.gates.anomalies import list_anomalies, read_anomalies
from penstock.components.tfrecord.manifest import COUNTED, MANIFEST_NAME, Manifest, read_manifest
from penstock.components.trainer.record import TrainingRecord, read_training_record
from penstock.components.trainer.utilisation.record import read_utilisation
from penstock.components.trainer.utilisation.verdict import bottleneck
from penstock.pipelines.runs.baseline import Beaten, read_baseline
from penstock.pipelines.runs.evaluation_result import EvaluationResult, read_evaluation
from penstock.pipelines.runs.ledger import LedgerEntry, ledger_of
from penstock.pipelines.runs.run_record import (
    is_set,
    latest_run,
    leakage,
    plain_properties,
    serving_problems,
)
from penstock.pipelines.terminal.tables import as_html

Read = TypeVar("Read")


@dataclass(frozen=True)
class NodeSummary:
    """A node's id, what became of it, and how long it took."""

    node: str
    state: str
    seconds: float


@dataclass(frozen=True)
class RunSummary:
    """A run, as far as it came: None stands where a node did not run, or is not there."""

    pipeline: str
    run_id: str
    nodes: tuple[NodeSummary, ...]
    examples: str | None
    data: Manifest | None  # None where another ExampleGen wrote them
    anomalies: tuple[str, ...] | None
    training: TrainingRecord | None
    bottleneck: str | None
    evaluation: EvaluationResult | None
    blessed: bool | None
    model: str | None
    pushed: str | None
    serving_problems: tuple[str, ...] = ()
    report: str | None = None  # path of the page, or why there is none
    log: str | None = None
    baseline: tuple[Beaten, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    leakage: tuple[str, ...] = ()

    def to_json(self) -> str:
        """All of it as one JSON object; shards are left to the manifest."""
        raw = asdict(self)
        if raw["data"]:
            raw["data"].pop("splits")
        return json.dumps(raw, indent=1) + "\n"

    def _repr_html_(self) -> str:
        from penstock.pipelines.runs.summary_text import show_summary

        return as_html(lambda out: show_summary(self, out))


def collect(store: Any, pipeline: str) -> RunSummary:
    """Sums up the newest run of a pipeline in an open store; DataError if it knows none."""
    run = latest_run(store, pipeline)
    found = {name: run.artifact(name) for name in _ARTIFACTS}
    uris = {name: artifact.uri if artifact else None for name, artifact in found.items()}
    training = _read(read_training_record, uris["ModelRun"])
    used = _read(read_utilisation, uris["ModelRun"])
    pushed = run.artifact("PushedModel")
    blessing = run.artifact("ModelBlessing")
    return RunSummary(
        pipeline=run.pipeline,
        run_id=run.run_id,
        nodes=tuple(NodeSummary(node.node, node.state, node.seconds) for node in run.nodes),
        examples=uris["Examples"],
        data=_read(_manifest, uris["Examples"]),
        anomalies=_anomalies(uris["ExampleAnomalies"]),
        training=training,
        bottleneck=bottleneck(training, used) if training else None,
        baseline=read_baseline(uris["ModelRun"]),
        evaluation=read_evaluation(uris["ModelEvaluation"]) if uris["ModelEvaluation"] else None,
        blessed=is_set(blessing, "blessed") if blessing else None,
        model=uris["Model"],
        pushed=plain_properties(pushed).get("pushed_destination") or None if pushed else None,
        serving_problems=serving_problems(run),
        ledger=ledger_of(run),
        leakage=leakage(run),
    )


_ARTIFACTS = ("Examples", "ExampleAnomalies", "ModelRun", "Model", "ModelEvaluation")


def _read(reader: Callable[[str], Read], uri: str | None) -> Read | None:
    try:
        return reader(uri) if uri else None
    except DataError:
        return None


def _manifest(uri: str) -> Manifest | None:
    if "://" not in uri:
        manifest = read_manifest(uri)
    else:
        path = Path(local_path(f"{uri}/{MANIFEST_NAME}"))
        manifest = Manifest.from_json(path.read_text(encoding="utf-8"), uri)
    return None if manifest.source_kind == COUNTED else manifest


def _anomalies(uri: str | None) -> tuple[str, ...] | None:
    if uri is None:
        return None
    found = list_anomalies(read_anomalies(uri))
    return tuple(f"{anomaly.split}: {anomaly.feature}: {anomaly.text}" for anomaly in found)
