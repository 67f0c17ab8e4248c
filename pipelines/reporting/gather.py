"""Gathers the facts of a run from its metadata store and its existing artifacts."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.components.errors import one_line
from penstock.components.gates.anomalies import Anomaly, list_anomalies, read_anomalies
from penstock.components.trainer.record import TrainingRecord, read_training_record
from penstock.pipelines.reporting.data_facts import DataFacts, SchemaRow, gather_data, gather_schema
from penstock.pipelines.reporting.evaluation_facts import EvaluationFacts, gather_evaluation
from penstock.pipelines.reporting.feature_facts import StatisticsFacts, gather_statistics
from penstock.pipelines.reporting.image_facts import ImageFacts, gather_images
from penstock.pipelines.reporting.model_card import ModelCard, read_model_card
from penstock.pipelines.reporting.model_facts import ModelFacts, gather_model
from penstock.pipelines.reporting.run_facts import (
    GATE,
    LineageFacts,
    PipelineFacts,
    Verdict,
    gather_lineage,
    gather_pipeline,
    judge,
)
from penstock.pipelines.reporting.trials import Trials, gather_trials
from penstock.pipelines.runs.ledger import ledger_lines, ledger_of
from penstock.pipelines.runs.rivals import Beaten, read_rivals
from penstock.pipelines.runs.run_note import read_note
from penstock.pipelines.runs.run_record import Retraining, RunRecord, is_set, leakage, retraining
from penstock.pipelines.terminal.failures import reason

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Report:
    """Facts of a run; a field is None or empty if its node did not run or left nothing readable.

    Attributes:
        missing: Artifacts that exist but cannot be read, one line each.
    """

    run: RunRecord
    verdict: Verdict
    pipeline: PipelineFacts
    data: DataFacts | None
    statistics: StatisticsFacts | None
    schema: Sequence[SchemaRow] | None
    anomalies: Sequence[Anomaly] | None
    images: ImageFacts | None
    trials: Trials | None
    training: TrainingRecord | None
    rivals: Sequence[Beaten]
    evaluation: EvaluationFacts | None
    model: ModelFacts | None
    card: ModelCard | None
    lineage: LineageFacts
    ledger: Sequence[str]
    leakage: Sequence[str]
    retraining: Retraining | None
    labels: frozenset[str]
    missing: Sequence[str]


def gather(run: RunRecord, earlier: Sequence[RunRecord] = ()) -> Report:
    """Gathers the facts of a run.

    Drift is measured from the newest blessed run in `earlier`, which lists the newest run first. If
    no run was blessed, drift is measured from the newest run. Runs whose statistics are the same
    artifact as this run's are skipped.
    """
    reader = _Reader(run)
    note = read_note(run)
    pipeline = gather_pipeline(run, note, earlier)
    data = reader.read("Examples", "the data", gather_data)
    manifest = data.manifest if data else None
    previous = _previous_statistics(run, earlier)
    statistics = reader.read(
        "ExampleStatistics", "statistics", lambda uri: gather_statistics(uri, previous=previous)
    )
    rivals = reader.read("ModelRun", "the simple models", read_rivals) or ()
    classes = {one.label: one.classes for one in rivals}
    evaluation = reader.read(
        "ModelEvaluation", "the evaluation", lambda uri: gather_evaluation(uri, classes)
    )
    model = reader.read("Model", "the model", gather_model)
    return Report(
        run=run,
        verdict=judge(run, pipeline, note, evaluation.result if evaluation else None),
        pipeline=pipeline,
        data=data,
        statistics=statistics,
        schema=reader.read("Schema", "the schema", gather_schema),
        anomalies=reader.read(
            "ExampleAnomalies", "anomalies", lambda uri: [*list_anomalies(read_anomalies(uri))]
        ),
        images=reader.read("Examples", "images", gather_images) if data else None,
        trials=reader.read("TunerResults", "the trials", lambda uri: gather_trials(run, uri)),
        training=reader.read("ModelRun", "the training", read_training_record),
        rivals=rivals,
        evaluation=evaluation,
        model=model,
        card=read_model_card(note.config),
        lineage=gather_lineage(run, note, pipeline, manifest),
        ledger=ledger_lines(ledger_of(run)),
        leakage=leakage(run),
        retraining=retraining(run),
        labels=_labels(run),
        missing=reader.missing,
    )


class _Reader:
    """Reads a run's artifacts, and collects a message for each one that cannot be read."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self.missing: list[str] = []

    def read(self, type_name: str, what: str, gather: Callable[[str], Facts]) -> Facts | None:
        """Returns an artifact's facts; None if it does not exist or cannot be read.

        Any error is noted in `missing`, so that one bad artifact does not cost the rest of the
        page.
        """
        if (uri := self._run.uri(type_name)) is None:
            return None
        try:
            return gather(uri)
        except OSError as error:
            self.missing.append(f"{what}: {one_line(error)}")
        except Exception as error:
            self.missing.append(f"{what}: {reason(error)}")
        return None


def _previous_statistics(run: RunRecord, earlier: Sequence[RunRecord]) -> tuple[str, str] | None:
    own = run.artifact("ExampleStatistics")
    blessed = [one for one in earlier if is_set(one.artifact("ModelBlessing"), "blessed")]
    for other in (*blessed, *earlier):
        artifact = other.artifact("ExampleStatistics")
        if own is not None and artifact is not None and artifact.id != own.id:
            return other.run_id, artifact.uri
    return None


def _labels(run: RunRecord) -> frozenset[str]:
    found: set[str] = set()
    for node in run.nodes:
        if node.node.startswith(GATE) and (options := node.options.get("options")):
            found |= set(json.loads(options).get("labels", ()))
        if config := node.options.get("eval_config"):
            specs = json.loads(config).get("model_specs", ())
            found |= {spec["label_key"] for spec in specs if "label_key" in spec}
    return frozenset(found)
