import json

import pytest
from tfx.types.standard_artifacts import (
    ExampleAnomalies,
    Examples,
    ExampleStatistics,
    Model,
    ModelBlessing,
    ModelEvaluation,
    ModelRun,
)

from penstock.components.tfrecord.manifest import Manifest, RowAccount, Shard, write_manifest
from penstock.components.trainer.record import (
    EpochRecord,
    TrainingRecord,
    write_training_record,
)
from penstock.pipelines.kubeflow.outputs import write_kubeflow_outputs
from tests.pipelines.kubeflow.placements import executor_input


@pytest.fixture
def wanted(tmp_path):
    """The JSON that KFP's launcher writes into a task's arguments."""
    names = ("metrics", "html", "model", "examples", "blessing")
    return executor_input(tmp_path / "kfp", *names)


def _artifact(kind, path, splits=""):
    path.mkdir()
    artifact = kind()
    artifact.uri = str(path)
    if splits:
        artifact.split_names = splits
    return artifact


def _trained(path):
    model_run = _artifact(ModelRun, path)
    metrics = {"loss": 0.5, "val_loss": float("nan")}
    epoch = EpochRecord(1, 10, 10, metrics, 0.1, 2.0, 0.2, examples_per_second=100.0)
    record = TrainingRecord([epoch], 10, "done", 1, "loss", 1, None, 1, 2.0, 0.5)
    write_training_record(path, record)
    return model_run


def _metadata(folder, name="metrics"):
    answer = json.loads((folder / "kfp/executor_output.json").read_text())
    (shown,) = answer["artifacts"][name]["artifacts"]
    assert shown["uri"] == str(folder / "kfp" / name)  # KFP's own address, not the artifact's
    return shown["metadata"]


def _write(wanted, made):
    """Writes the outputs of one node, by key."""
    write_kubeflow_outputs(json.dumps(wanted), {("Node", k): one for k, one in made.items()})


def test_shows_the_model_and_the_metrics_of_a_training(wanted, tmp_path):
    model = _artifact(Model, tmp_path / "model")
    model_run = _trained(tmp_path / "run")
    _write(wanted, {"model": [model], "model_run": [model_run]})

    assert (tmp_path / "kfp/model").read_text() == str(tmp_path / "model")
    assert _metadata(tmp_path, "model") == {"uri": str(tmp_path / "model")}
    assert _metadata(tmp_path) == {"loss": 0.5, "examples_per_second": 100.0}  # NaN is left out


def test_rows_and_properties_of_artifacts_are_their_metadata(wanted, tmp_path):
    examples = _artifact(Examples, tmp_path / "examples", '["train"]')
    examples.set_int_custom_property("span", 7)
    examples.set_string_custom_property("long", "x" * 1000)
    rows = {"read": {}, "written": {"train": 90, "eval": 9}, "reasons": {}}
    examples.set_string_custom_property("penstock_rows", json.dumps(rows))
    account = RowAccount(read=100, written={"train": 90, "eval": 9}, quarantined=1)
    shards = {
        split: [Shard(f"Split-{split}/data.gz", rows, 0, "0" * 64)]
        for split, rows in account.written.items()
    }
    manifest = Manifest(shards, (), "", "csv", "", 1, account)
    write_manifest(tmp_path / "examples", manifest)
    blessing = _artifact(ModelBlessing, tmp_path / "blessing")
    blessing.set_int_custom_property("blessed", 1)
    _write(wanted, {"examples": [examples], "blessing": [blessing]})

    assert _metadata(tmp_path, "examples") == {
        "uri": str(tmp_path / "examples"),
        "split_names": '["train"]',
        "span": 7,
        "rows_read": 100,
        "rows_train": 90,
        "rows_eval": 9,
        "rows_quarantined": 1,
    }
    assert _metadata(tmp_path, "blessing")["blessed"] == 1


def test_artifacts_of_several_nodes_have_the_nodes_names(wanted, tmp_path):
    wanted["outputs"]["artifacts"] = {
        f"{node}_blessing": {"artifacts": [{"uri": str(tmp_path / f"kfp/{node}_blessing")}]}
        for node in ("evaluator", "servingcheck")
    }
    made = {
        ("Evaluator", "blessing"): [_artifact(ModelBlessing, tmp_path / "a")],
        ("ServingCheck", "blessing"): [],
    }
    write_kubeflow_outputs(json.dumps(wanted), made)

    assert _metadata(tmp_path, "evaluator_blessing") == {"uri": str(tmp_path / "a")}
    assert _metadata(tmp_path, "servingcheck_blessing") == {"uri": ""}


@pytest.mark.parametrize(
    ("kind", "reported"),
    [(ModelRun, ""), (ModelEvaluation, "penstock: no metrics of {}/made: ")],
)
def test_view_without_our_record_or_that_fails_is_left_empty(
    wanted, tmp_path, capsys, kind, reported
):
    _write(wanted, {"made": [_artifact(kind, tmp_path / "made")]})
    assert _metadata(tmp_path) == {}
    err = capsys.readouterr().err
    assert err.startswith(reported.format(tmp_path))
    assert bool(err) == bool(reported)


def test_shows_statistics_as_a_table(wanted, tmp_path, runs_in):
    artifact = _artifact(ExampleStatistics, tmp_path / "statistics", '["train"]')
    fare, kind = ("<fare>", 10, 0.0, 9.5, [1190]), ("kind", {"Cash": 700, "Card": 500})
    runs_in.write_statistics(tmp_path / "statistics", "train", 1200, [fare], [kind])
    _write(wanted, {"statistics": [artifact]})

    page = (tmp_path / "kfp/html").read_text()
    assert "2 features; 1,200 rows of train." in page
    assert '&lt;fare&gt;</a></th><td class="muted">float</td>' in page
    assert "<fare>" not in page
    for name, value in (("missing", "10"), ("maximum", "9.500"), ("distinct", "2")):
        assert f'<th scope="row">{name}</th><td class="n">{value}</td>' in page


def test_shows_anomalies_as_a_table(wanted, tmp_path, runs_in):
    artifact = _artifact(ExampleAnomalies, tmp_path / "anomalies", '["eval"]')
    runs_in.write_anomalies(tmp_path / "anomalies", "eval", company="Unexpected values")
    _write(wanted, {"anomalies": [artifact]})

    page = (tmp_path / "kfp/html").read_text()
    assert '<th scope="row">company</th><td>eval</td>' in page
    assert "Unexpected values" in page


def test_skipped_node_writes_all_outputs_of_kfp_that_are_requested(wanted, tmp_path):
    _write({"inputs": {}}, {"model": []})
    assert list(tmp_path.iterdir()) == []
    _write(wanted, {"model": []})

    assert (tmp_path / "kfp/model").read_text() == ""
    assert "Nothing was made: the node was skipped." in (tmp_path / "kfp/html").read_text()
    assert _metadata(tmp_path) == {}
