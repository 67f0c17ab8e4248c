"""Outputs of a task in Kubeflow: metrics, tables of the data, and an artifact per TFX output.

Input: KFP's executor input and the TFX artifacts of the task's nodes. Output: the files that the
executor input names. TFX's artifacts stay in their folders; KFP's artifacts contain the addresses
of TFX's and facts about them, for KFP's graph, lineage and comparison. KFP's launcher can keep
artifacts only in KFP's store, not in TFX's folders.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from penstock.components.errors import DataError
from penstock.components.tfrecord.manifest import MANIFEST_NAME, read_manifest
from penstock.pipelines.kubeflow.executor import ExecutorInput, write_text
from penstock.pipelines.kubeflow.names import artifact_names
from penstock.pipelines.runs.ledger import ROWS_PROPERTY, rows_of
from penstock.pipelines.runs.run_record import plain_properties

View = TypeVar("View")
METRICS, HTML, _FACTS = "metrics", "html", "facts"
# What KFP shows for each type of TFX artifact: metrics or an HTML page; for other types, neither.
VIEWS = {
    "ModelRun": METRICS,
    "ModelEvaluation": METRICS,
    "ExampleStatistics": HTML,
    "ExampleAnomalies": HTML,
}
_KINDS = {
    **dict.fromkeys(("Examples", "PackedExamples"), "Dataset"),
    **dict.fromkeys(("Model", "PushedModel"), "Model"),
}
# Properties of TFX artifacts that are not passed to KFP, and the maximum length of the texts that
# are passed.
_INTERNAL = ("state", "tfx_version", "name", "is_external", "__is_null__", ROWS_PROPERTY)
_MAX_CHARS = 200


def artifact_kind(type_name: str) -> str:
    """Returns KFP's type for a type of TFX artifact: Dataset, Model or Artifact."""
    return _KINDS.get(type_name, "Artifact")


def write_kubeflow_outputs(
    executor_input: str, made: Mapping[tuple[str, str], Iterable[Any]]
) -> None:
    """Writes the outputs of a task for KFP, from TFX artifacts by (node id, output key).

    A skipped node has no artifacts. A view that cannot be made is reported on stderr and left
    empty: the node's work is already published, and a retry would fail in the same way.
    """
    task = ExecutorInput.parse(executor_input)
    wanted = task.outputs.get("artifacts", {})
    groups = {pair: list(group) for pair, group in made.items()}
    found = [artifact for group in groups.values() for artifact in group]
    metadata = {
        name: _facts(groups[pair])
        for pair, name in artifact_names(groups).items()
        if name in wanted
    }
    if HTML in wanted:
        write_text(task.output_path(HTML), _page(found))
    if METRICS in wanted:
        metadata[METRICS] = _metrics(found)
    task.write_metadata(metadata)


def _facts(artifacts: Sequence[Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for artifact in artifacts[:1]:
        facts = plain_properties(artifact.mlmd_artifact)
        rows = rows_of(facts)
        facts |= {f"rows_{split}": count for split, count in (rows.written if rows else {}).items()}
        for one in _views(_FACTS, [artifact], _facts_of):
            facts.update(one)
    kept = {name: value for name, value in facts.items() if _is_shown(name, value)}
    return {**kept, "uri": "\n".join(artifact.uri for artifact in artifacts)}


def _is_shown(name: str, value: Any) -> bool:
    if name in _INTERNAL or not isinstance(value, int | float | str):
        return False
    # KFP's JSON cannot contain NaN or infinity.
    return math.isfinite(value) if isinstance(value, float) else 0 < len(str(value)) <= _MAX_CHARS


def _facts_of(artifact: Any) -> Mapping[str, Any]:
    if VIEWS.get(artifact.type_name) == METRICS:
        return _metrics_of(artifact)
    if not Path(artifact.uri, MANIFEST_NAME).exists():
        return {}
    account = read_manifest(artifact.uri).account
    return {"rows_read": account.read, "rows_quarantined": account.quarantined}


def _metrics(artifacts: Iterable[Any]) -> dict[str, float]:
    found = _views(METRICS, artifacts, _metrics_of)
    # KFP's JSON cannot contain NaN or infinity.
    return {n: value for of in found for n, value in of.items() if math.isfinite(value)}


def _metrics_of(artifact: Any) -> Mapping[str, float]:
    if artifact.type_name == "ModelRun":
        from penstock.components.trainer.record import read_training_record

        try:
            record = read_training_record(artifact.uri)
        except DataError:
            return {}  # not trained by Penstock's loop: no record
        speed = record.examples_per_second
        return {
            **dict(record.epochs[-1].metrics if record.epochs else {}),
            **({"examples_per_second": speed} if speed is not None else {}),
        }
    from penstock.components.evaluator.evaluation import Evaluation
    from penstock.components.evaluator.slice_metrics import OVERALL

    return Evaluation.read(artifact.uri).metrics.get(OVERALL, {})


def _page(artifacts: Iterable[Any]) -> str:
    from penstock.components.gates.anomalies import list_anomalies, read_anomalies
    from penstock.pipelines.reporting.feature_facts import gather_statistics
    from penstock.pipelines.reporting.page import render_parts, render_section

    def anomalies(uri: str) -> str:
        found = list_anomalies(read_anomalies(uri))
        return render_section("anomalies", "Anomalies", anomalies=found)

    def statistics(uri: str) -> str:
        found = gather_statistics(uri)
        return render_section("features", "Features", statistics=found, labels=())

    tables = {"ExampleStatistics": statistics, "ExampleAnomalies": anomalies}
    return render_parts([*_views(HTML, artifacts, lambda a: tables[a.type_name](a.uri))])


def _views(view: str, artifacts: Iterable[Any], make: Callable[[Any], View]) -> Iterator[View]:
    for artifact in artifacts:
        if view in (VIEWS.get(artifact.type_name), _FACTS):
            try:
                yield make(artifact)
            except Exception as error:
                print(f"penstock: no {view} of {artifact.uri}: {error}", file=sys.stderr)
