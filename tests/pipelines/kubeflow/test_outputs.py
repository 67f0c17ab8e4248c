import json

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from tfx.types.standard_artifacts import (
    ExampleAnomalies,
    ExampleStatistics,
    Model,
    ModelEvaluation,
    ModelRun,
)

from penstock.components.trainer.record import (
    EpochRecord,
    TrainingRecord,
    write_training_record,
)
from penstock.pipelines.kubeflow.outputs import write_kubeflow_outputs


@pytest.fixture
def wanted(tmp_path):
    """What KFP's launcher puts into the arguments."""
    artifacts = {
        name: {"artifacts": [{"name": name, "uri": str(tmp_path / "kfp" / name)}]}
        for name in ("metrics", "html")
    }
    return {
        "inputs": {},
        "outputs": {
            "parameters": {"model_uri": {"outputFile": str(tmp_path / "kfp/model_uri")}},
            "artifacts": artifacts,
            "outputFile": str(tmp_path / "kfp/executor_output.json"),
        },
    }


def _artifact(kind, path, splits=""):
    path.mkdir()
    artifact = kind()
    artifact.uri = str(path)
    if splits:
        artifact.split_names = splits
    return artifact


def _trained(path):
    model_run = _artifact(ModelRun, path)
    epoch = EpochRecord(
        epoch=1,
        step=10,
        steps=10,
        metrics={"loss": 0.5, "val_loss": float("nan")},
        learning_rate=0.1,
        seconds=2.0,
        seconds_per_step=0.2,
        input_wait_share=0.1,
        examples_per_second=100.0,
    )
    record = TrainingRecord([epoch], 10, "done", 1, "loss", 1, None, 1, 2.0, 0.5)
    write_training_record(path, record)
    return model_run


def _metadata(folder):
    answer = json.loads((folder / "kfp/executor_output.json").read_text())
    (metrics,) = answer["artifacts"]["metrics"]["artifacts"]
    assert metrics["uri"] == str(folder / "kfp/metrics")
    return metrics["metadata"]


def test_shows_the_model_and_the_metrics_of_a_training(wanted, tmp_path):
    model = _artifact(Model, tmp_path / "model")
    model_run = _trained(tmp_path / "run")
    write_kubeflow_outputs(json.dumps(wanted), {"model": [model], "model_run": [model_run]})

    assert (tmp_path / "kfp/model_uri").read_text() == str(tmp_path / "model")
    assert _metadata(tmp_path) == {"loss": 0.5, "examples_per_second": 100.0}  # no NaN


def test_a_training_without_our_record_has_no_metrics(wanted, tmp_path, capsys):
    model_run = _artifact(ModelRun, tmp_path / "run")
    write_kubeflow_outputs(json.dumps(wanted), {"model_run": [model_run]})

    assert _metadata(tmp_path) == {}
    assert capsys.readouterr().err == ""


def test_view_that_fails_is_reported_and_left_empty(wanted, tmp_path, capsys):
    evaluation = _artifact(ModelEvaluation, tmp_path / "evaluation")
    write_kubeflow_outputs(json.dumps(wanted), {"evaluation": [evaluation]})

    assert _metadata(tmp_path) == {}
    err = capsys.readouterr().err
    assert err.startswith(f"penstock: no metrics of {tmp_path}/evaluation: ")


def test_shows_statistics_as_a_table(wanted, tmp_path):
    artifact = _artifact(ExampleStatistics, tmp_path / "statistics", '["train"]')
    statistics = statistics_pb2.DatasetFeatureStatisticsList()
    dataset = statistics.datasets.add(num_examples=1200)
    fare = dataset.features.add(name="<fare>", type=statistics_pb2.FeatureNameStatistics.FLOAT)
    fare.num_stats.common_stats.num_non_missing = 1190
    fare.num_stats.common_stats.num_missing = 10
    fare.num_stats.max, fare.num_stats.mean = 9.5, 4.25
    kind = dataset.features.add(name="kind", type=statistics_pb2.FeatureNameStatistics.STRING)
    kind.string_stats.unique = 2
    kind.string_stats.top_values.add(value="Cash", frequency=700)
    (tmp_path / "statistics/Split-train").mkdir()
    content = statistics.SerializeToString()
    (tmp_path / "statistics/Split-train/FeatureStats.pb").write_bytes(content)

    write_kubeflow_outputs(json.dumps(wanted), {"statistics": [artifact]})

    page = (tmp_path / "kfp/html").read_text()
    assert "2 features; 1,200 rows of train." in page
    assert '&lt;fare&gt;</a></th><td class="muted">float</td>' in page
    assert "<fare>" not in page
    assert '<th scope="row">missing</th><td class="n">10</td>' in page
    assert '<th scope="row">maximum</th><td class="n">9.500</td>' in page
    assert '<th scope="row">distinct</th><td class="n">2</td>' in page


def test_shows_anomalies_as_a_table(wanted, tmp_path):
    artifact = _artifact(ExampleAnomalies, tmp_path / "anomalies", '["eval"]')
    anomalies = anomalies_pb2.Anomalies()
    anomalies.anomaly_info["company"].short_description = "Unexpected string values"
    (tmp_path / "anomalies/Split-eval").mkdir()
    content = anomalies.SerializeToString()
    (tmp_path / "anomalies/Split-eval/SchemaDiff.pb").write_bytes(content)

    write_kubeflow_outputs(json.dumps(wanted), {"anomalies": [artifact]})

    page = (tmp_path / "kfp/html").read_text()
    assert '<th scope="row">company</th><td>eval</td>' in page
    assert "Unexpected string values. " in page


def test_skipped_node_writes_all_outputs_of_kfp(wanted, tmp_path):
    write_kubeflow_outputs(json.dumps(wanted), {})

    assert (tmp_path / "kfp/model_uri").read_text() == ""
    assert "Nothing was made: the node was skipped." in (tmp_path / "kfp/html").read_text()
    assert _metadata(tmp_path) == {}


def test_only_requested_outputs_are_written(tmp_path):
    write_kubeflow_outputs(
        json.dumps({"inputs": {}}), {"model": [_artifact(Model, tmp_path / "m")]}
    )

    assert [path.name for path in tmp_path.iterdir()] == ["m"]
