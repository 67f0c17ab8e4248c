"""Views of a node in Kubeflow's UI: metrics, the model's address, tables of the data.

In: KFP's executor input and the node's TFX artifacts. Out: the files that the input names. The
artifacts themselves stay where TFX put them.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from penstock.components.errors import DataError
from penstock.pipelines.kubeflow.executor import ExecutorInput, write_text

View = TypeVar("View")
METRICS, MODEL_URI, HTML = "metrics", "model_uri", "html"
# View of each type of TFX artifact.
VIEWS = {
    "Model": MODEL_URI,
    "PushedModel": MODEL_URI,
    "ModelRun": METRICS,
    "ModelEvaluation": METRICS,
    "ExampleStatistics": HTML,
    "ExampleAnomalies": HTML,
}


def write_kubeflow_outputs(executor_input: str, artifacts: Mapping[str, Iterable[Any]]) -> None:
    """Writes the outputs that KFP expects of a task; a skipped node has no artifacts.

    A view that cannot be made is reported on stderr and left empty: the node's work is done and
    published, and a retry would not change it.
    """
    task = ExecutorInput.parse(executor_input)
    found = [artifact for group in artifacts.values() for artifact in group]
    views = {*task.outputs.get("parameters", {}), *task.outputs.get("artifacts", {})}
    if MODEL_URI in views:
        models = [a.uri for a in found if VIEWS.get(a.type_name) == MODEL_URI]
        task.write_parameter(MODEL_URI, "\n".join(models))
    if HTML in views:
        write_text(task.output_path(HTML), _page(found))
    if METRICS in views:
        task.write_metrics(METRICS, _metrics(found))


def _metrics(artifacts: Iterable[Any]) -> dict[str, float]:
    # KFP's JSON cannot hold NaN.
    found = _views(METRICS, artifacts, _metrics_of)
    return {n: value for of in found for n, value in of.items() if math.isfinite(value)}


def _metrics_of(artifact: Any) -> Mapping[str, float]:
    if artifact.type_name == "ModelRun":
        from penstock.components.trainer.record import read_training_record

        try:
            record = read_training_record(artifact.uri)
        except DataError:
            return {}  # trained by a loop other than ours, which keeps no record
        speed = record.examples_per_second
        return {
            **dict(record.epochs[-1].metrics if record.epochs else {}),
            **({"examples_per_second": speed} if speed is not None else {}),
        }
    from penstock.pipelines.runs.evaluation_result import OVERALL, read_evaluation

    return read_evaluation(artifact.uri).metrics.get(OVERALL, {})


def _page(artifacts: Iterable[Any]) -> str:
    from penstock.components.gates.anomalies import read_anomalies
    from penstock.pipelines.reporting.feature_facts import gather_statistics
    from penstock.pipelines.reporting.page import render_parts, render_section
    from penstock.pipelines.reporting.schema_facts import gather_anomalies

    def anomalies(uri: str) -> str:
        found = gather_anomalies(read_anomalies(uri), None, None)
        return render_section("anomalies.html", anomalies=found)

    def statistics(uri: str) -> str:
        return render_section("features.html", statistics=gather_statistics(uri))

    tables = {"ExampleStatistics": statistics, "ExampleAnomalies": anomalies}
    return render_parts([*_views(HTML, artifacts, lambda a: tables[a.type_name](a.uri))])


def _views(view: str, artifacts: Iterable[Any], make: Callable[[Any], View]) -> Iterator[View]:
    """Yields the view of each artifact that has one, unless making it fails."""
    for artifact in artifacts:
        if VIEWS.get(artifact.type_name) == view:
            try:
                yield make(artifact)
            except Exception as error:
                print(f"penstock: no {view} of {artifact.uri}: {error}", file=sys.stderr)
